module github.com/tink-crypto/tink-go-gcpkms/v2

go 1.25.0

require github.com/tink-crypto/tink-go/v2 v2.7.0

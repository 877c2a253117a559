// Command timestamps is sigstore's timestamp authority on the loopback interface, and its verifier.
// timestamps.py drives it:
//
//	timestamps serve PORT [NAME=VALUE...]    the authority; settings by the names of its own flags
//	timestamps verify RESPONSE MESSAGE ROOT  exit code 0: accepted; 1: refused, and why on stderr
//
// Its own command would also count its requests on a fixed port of every interface.
package main

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sigstore/timestamp-authority/v2/pkg/server"
	"github.com/sigstore/timestamp-authority/v2/pkg/verification"
	"github.com/spf13/viper"
)

const timeout = 30 * time.Second

func main() {
	err := errors.New("usage: timestamps serve PORT [NAME=VALUE...] | verify RESPONSE MESSAGE ROOT")
	switch args := os.Args[1:]; {
	case len(args) >= 2 && args[0] == "serve":
		err = serve(args[1], args[2:])
	case len(args) == 4 && args[0] == "verify":
		err = verify(args[1], args[2], args[3])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(port string, settings []string) error {
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	viper.Set("max-request-body-size", uint64(1<<20))
	viper.Set("timestamp-signer-hash", "sha256")
	viper.Set("default-policy-oid", "1.3.6.1.4.1.57264.2")
	viper.Set("accepted-policy-oids", []string{"1.3.6.1.4.1.57264.2"})
	for _, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		viper.Set(name, value)
	}
	api := server.NewRestAPIServer("127.0.0.1", number, []string{"http"}, false, timeout, timeout)
	api.CleanupTimeout = time.Second
	defer api.Shutdown()
	return api.Serve()
}

func verify(names ...string) error {
	files := make([][]byte, len(names))
	for i, name := range names {
		var err error
		if files[i], err = os.ReadFile(name); err != nil {
			return err
		}
	}
	block, _ := pem.Decode(files[2])
	if block == nil {
		return errors.New("the root is not PEM")
	}
	root, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err
	}
	opts := verification.VerifyOpts{Roots: []*x509.Certificate{root}}
	_, err = verification.VerifyTimestampResponse(files[0], bytes.NewReader(files[1]), opts)
	return err
}

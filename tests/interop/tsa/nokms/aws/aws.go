// Package aws stands in for a cloud key store, which no test here uses.
package aws

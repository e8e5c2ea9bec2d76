//go:build !linux

package netpolicy

import "crypto/rand"

func fill(b []byte) error {
	_, err := rand.Read(b)
	return err
}

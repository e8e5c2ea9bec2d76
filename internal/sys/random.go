//go:build linux

package sys

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Letters are those of RandomText.
const Letters = "abcdefghijklmnopqrstuvwxyz234567"

// RandomText is n characters, at most 256, that nobody can guess: 5 bits each.
func RandomText(n int) string {
	b := make([]byte, n)
	if err := Random(b); err != nil {
		panic(err) // nothing can be named
	}
	for i := range b {
		b[i] = Letters[b[i]&31]
	}
	return string(b)
}

// Random fills b, at most 256 bytes, with what the kernel gives; where getrandom(2) is refused, by its device. (Package
// crypto/rand would make starting the command slower.)
func Random(b []byte) error {
	if _, err := unix.Getrandom(b, 0); err == nil { // getrandom(2): so few come all at once
		return nil
	}
	f, err := os.Open("/dev/urandom")
	if err == nil {
		_, err = io.ReadFull(f, b)
		_ = f.Close()
	}
	return err
}

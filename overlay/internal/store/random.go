//go:build linux

package store

import (
	"encoding/base32"
	"strings"

	"golang.org/x/sys/unix"
)

// RandomText is n characters, at most 26, that nobody can guess: 5 bits each, as
// the kernel has them. (Package crypto/rand would make starting the command
// slower.)
func RandomText(n int) string {
	var b [16]byte
	for got := 0; got < len(b); {
		k, err := unix.Getrandom(b[got:], 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			panic("BUG: getrandom: " + err.Error()) // Linux 3.17 and later cannot fail here
		}
		got += k
	}
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:])[:n])
}

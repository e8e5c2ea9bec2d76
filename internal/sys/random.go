//go:build linux

package sys

import "golang.org/x/sys/unix"

// Letters are those of RandomText.
const Letters = "abcdefghijklmnopqrstuvwxyz234567"

// RandomText is n characters, at most 256, that nobody can guess: 5 bits each, as the kernel has them. (Package
// crypto/rand would make starting the command slower.)
func RandomText(n int) string {
	b := make([]byte, n)
	if _, err := unix.Getrandom(b, 0); err != nil {
		panic("BUG: getrandom: " + err.Error()) // getrandom(2): not for so few bytes
	}
	for i := range b {
		b[i] = Letters[b[i]&31]
	}
	return string(b)
}

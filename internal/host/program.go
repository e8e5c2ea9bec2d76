//go:build linux

package host

import (
	"encoding/binary"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Constants of elf(5): package debug/elf would slow down every start.
const (
	elfMagic32 = "\x7fELF\x01"
	elf386     = 3
	elfARM     = 40
	elfX86_64  = 62
)

// Is32Bit reports whether a file is a program that a 64-bit kernel runs, and that makes the system calls of another
// architecture.
func Is32Bit(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	b := make([]byte, 20) // up to e_machine
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return false
	}
	if n, err := f.ReadAt(b, 0); n < len(b) || err != nil || string(b[:len(elfMagic32)]) != elfMagic32 {
		return false
	}
	switch machine := binary.LittleEndian.Uint16(b[18:]); runtime.GOARCH {
	case "amd64":
		return machine == elf386 || machine == elfX86_64
	case "arm64":
		return machine == elfARM
	}
	return false
}

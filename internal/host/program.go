//go:build linux

package host

import (
	"bytes"
	"encoding/binary"
	"io"
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
	b := head(path, 20) // up to e_machine
	if len(b) < 20 || string(b[:len(elfMagic32)]) != elfMagic32 {
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

// IsText reports whether a file that the kernel does not execute looks like a script: its first line has no byte 0.
func IsText(path string) bool {
	b := head(path, 32)
	line, _, _ := bytes.Cut(b, []byte{'\n'})
	return b != nil && bytes.IndexByte(line, 0) < 0
}

// head returns the first n bytes of a regular file, or less if it has less. Nil: it cannot be read.
func head(path string, n int) []byte {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil
	}
	b := make([]byte, n)
	read, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return nil
	}
	return b[:read]
}

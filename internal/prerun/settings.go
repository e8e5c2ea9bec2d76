//go:build linux && go1.26 && !go1.28 && !nsrun_plain

package prerun

import (
	"syscall"
	"unsafe"
)

// The environment is for the command, and its variables for the Go runtime are those of a Go program in the sandbox.
// They should not slow nsrun's own runtime down, nor end it: a malformed GOMEMLIMIT does, and GOMEMLIMIT=1 with
// GOMAXPROCS=999999 takes forever. So the entry point changes the first letter of these names before the runtime reads
// them, and init changes it back.

// hidden are the addresses of the letters. Zero: the variable is not set.
var hidden [len(settings)]uintptr

// settings are these variables.
var settings = [...]string{"GOMAXPROCS=", "GOMEMLIMIT=", "GOGC="}

const hidesLetter = 1 // a byte with which no variable's name begins

// hideSettings changes the letters. environ is the environment, as the kernel made it.
func hideSettings(environ unsafe.Pointer) {
	for n := 0; *(*unsafe.Pointer)(unsafe.Add(environ, 8*n)) != nil; n++ {
		v := text(environ, n)
		for i, name := range &settings {
			if len(v) < len(name) || v[:len(name)] != name {
				continue
			}
			*unsafe.StringData(v) = hidesLetter
			if hidden[i] == 0 { // Go uses the first one of a name
				hidden[i] = uintptr(unsafe.Pointer(unsafe.StringData(v)))
			}
		}
	}
}

func init() {
	for i, name := range &settings {
		if hidden[i] == 0 {
			continue
		}
		name = name[:len(name)-1]
		**(**byte)(unsafe.Pointer(&hidden[i])) = name[0]
		changed := string(rune(hidesLetter)) + name[1:]
		value, _ := syscall.Getenv(changed)
		_ = syscall.Unsetenv(changed)
		_ = syscall.Setenv(name, value)
	}
}

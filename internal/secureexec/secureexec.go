//go:build linux

// Package secureexec detects a process that has more rights than its caller: its file is set-user-id, set-group-id or
// has capabilities, or a security module put it into another domain. The caller chooses its arguments, environment,
// descriptors and limits, so this module must not do anything for it. The package imports nothing of this module, and
// drops no rights.
package secureexec

import (
	"errors"
	"unsafe"
)

// Err says why nothing is done.
var Err = errors.New("this program has more rights than its caller (it is set-user-id or set-group-id, or its file has capabilities), " +
	"and would lend them to any command")

// On reports whether the kernel calls for secure execution (AT_SECURE, getauxval(3)).
func On() bool { return marked(auxv()) }

// auxv is the auxiliary vector, pairs of a key and a value.
//
//go:linkname auxv runtime.getAuxv
func auxv() []uintptr

const (
	atNull   = 0
	atSecure = 23
)

func marked(vector []uintptr) bool {
	for i := 0; i+1 < len(vector); i += 2 {
		if vector[i] == atSecure {
			return vector[i+1] != 0
		}
	}
	return true // no kernel leaves it out
}

// OnStack is On for a process in which the Go runtime has not started. stack is as the kernel made it: the number of
// arguments, the arguments, a null pointer, the environment, a null pointer, the auxiliary vector.
//
//go:nosplit
//go:norace
func OnStack(stack unsafe.Pointer) bool {
	p := unsafe.Add(stack, 8*(*(*int)(stack)+2))
	for *(*uintptr)(p) != 0 {
		p = unsafe.Add(p, 8)
	}
	for p = unsafe.Add(p, 8); *(*uintptr)(p) != atNull; p = unsafe.Add(p, 16) {
		if *(*uintptr)(p) == atSecure {
			return *(*uintptr)(unsafe.Add(p, 8)) != 0
		}
	}
	return true
}

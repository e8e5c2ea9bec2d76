//go:build linux

// Package seccomp builds filters of system calls: programs of classic BPF over struct seccomp_data, see seccomp(2). It
// imports nothing of this module, and does not decide which calls to refuse.
package seccomp

import (
	"math"

	"golang.org/x/sys/unix"
)

// What a filter answers.
const (
	Allow  = unix.SECCOMP_RET_ALLOW
	Notify = unix.SECCOMP_RET_USER_NOTIF
	Refuse = unix.SECCOMP_RET_ERRNO // the errno is in the lower half
	Action = unix.SECCOMP_RET_ACTION_FULL
)

// Instructions.
const (
	Load    = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	And     = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	Equal   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	AtLeast = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	AnyBit  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	Jump    = unix.BPF_JMP | unix.BPF_JA
	Return  = unix.BPF_RET | unix.BPF_K
)

// Where struct seccomp_data has what a filter looks at.
const (
	DataNr   = 0
	DataArch = 4
	DataArgs = 16 // the lower halves are first, all our architectures being little-endian
)

// SockTypeMask is what socket(2) takes for the type: SOCK_STREAM and so on, without SOCK_CLOEXEC and SOCK_NONBLOCK.
const SockTypeMask = 0xf

// x32Calls have the same architecture as others, and this bit in their numbers.
const x32Calls = 0x40000000

// A Filter is one that is being written.
type Filter []unix.SockFilter

func (f *Filter) Add(code uint16, jt, jf uint8, k uint32) {
	*f = append(*f, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
}

// Nr loads the number of the call.
func (f *Filter) Nr() { f.Add(Load, 0, 0, DataNr) }

// Lower loads the lower half of an argument.
func (f *Filter) Lower(arg uint32) { f.Add(Load, 0, 0, DataArgs+8*arg) }

// Upper loads the upper half of an argument.
func (f *Filter) Upper(arg uint32) { f.Add(Load, 0, 0, DataArgs+8*arg+4) }

// Allow ends with a yes.
func (f *Filter) Allow() { f.Add(Return, 0, 0, Allow) }

// Notify ends by asking the listener.
func (f *Filter) Notify() { f.Add(Return, 0, 0, Notify) }

// Refuse ends with an error. 0: the call does nothing, and succeeds.
func (f *Filter) Refuse(e unix.Errno) { f.Add(Return, 0, 0, Refuse|uint32(e)) }

// When adds what body adds for values for which the jump is taken.
func (f *Filter) When(jump uint16, k uint32, body func()) {
	at := len(*f)
	f.Add(jump, 0, 0, k)
	body()
	over := len(*f) - at - 1
	if over > math.MaxUint8 {
		panic("BUG: a jump over more than a filter can have")
	}
	(*f)[at].Jf = uint8(over)
}

// Begin refuses the calls of other architectures, and loads the number. With x32 those of that ABI are refused too.
func (f *Filter) Begin(arch uint32, x32 bool) {
	f.Add(Load, 0, 0, DataArch)
	f.Add(Equal, 1, 0, arch)
	f.Refuse(unix.ENOSYS)
	f.Nr()
	if x32 {
		f.When(AtLeast, x32Calls, func() { f.Refuse(unix.ENOSYS) })
	}
}

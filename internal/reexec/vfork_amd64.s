//go:build linux

#include "textflag.h"

// func vfork() (pid, errno uintptr)
//
// The child runs on this stack until it executes, and would overwrite the return
// address that the parent still needs: it is kept in a register meanwhile. R12
// is saved by the kernel, per process.
TEXT ·vfork(SB),NOSPLIT|NOFRAME,$0-16
	MOVQ	$0x4111, DI		// CLONE_VFORK | CLONE_VM | SIGCHLD
	MOVQ	$0, SI
	MOVQ	$0, DX
	MOVQ	$0, R10
	MOVQ	$0, R8
	MOVQ	$0, R9
	MOVQ	$56, AX			// clone
	POPQ	R12
	SYSCALL
	PUSHQ	R12
	CMPQ	AX, $0xfffffffffffff001
	JLS	ok
	NEGQ	AX
	MOVQ	$0, pid+0(FP)
	MOVQ	AX, errno+8(FP)
	RET
ok:
	MOVQ	AX, pid+0(FP)
	MOVQ	$0, errno+8(FP)
	RET

//go:build linux

#include "textflag.h"

// func vfork() (pid, errno uintptr)
//
// The return address is in the link register, which the kernel saves per
// process: the child cannot spoil it.
TEXT ·vfork(SB),NOSPLIT|NOFRAME,$0-16
	MOVD	$0x4111, R0		// CLONE_VFORK | CLONE_VM | SIGCHLD
	MOVD	ZR, R1
	MOVD	ZR, R2
	MOVD	ZR, R3
	MOVD	ZR, R4
	MOVD	ZR, R5
	MOVD	$220, R8		// clone
	SVC
	CMN	$4095, R0
	BCC	ok
	NEG	R0, R0
	MOVD	ZR, pid+0(FP)
	MOVD	R0, errno+8(FP)
	RET
ok:
	MOVD	R0, pid+0(FP)
	MOVD	ZR, errno+8(FP)
	RET

//go:build nsrun_image

#include "textflag.h"

// nsrun_image is the entry point. Calls from assembly to Go load g from thread-local
// storage, so there must be some, and a g in it. The stack pointer is at argc.
TEXT nsrun_image(SB),NOSPLIT|NOFRAME,$0
	MOVQ	SP, BX
	LEAQ	·g(SB), AX
	MOVQ	AX, ·tls+56(SB)
	LEAQ	·tls+64(SB), SI
	MOVQ	$0x1002, DI		// ARCH_SET_FS
	MOVQ	$158, AX		// arch_prctl
	SYSCALL
	SUBQ	$32, SP			// keeps the alignment of 16
	MOVQ	BX, 0(SP)
	CALL	github·com∕nsrun∕nsrun∕internal∕reexec·Main(SB)
	INT	$3

GLOBL ·tls(SB), NOPTR, $128

// A runtime.g that is all zero: its stack has no limit.
GLOBL ·g(SB), NOPTR, $1024

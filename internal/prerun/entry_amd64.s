//go:build linux && go1.26 && !go1.28 && !nsrun_plain

#include "textflag.h"

// nsrun_early is the entry point of the nsrun command: it calls run, which does all
// there is to do or nothing; then begin, which may begin a sandbox;
// and goes on to the runtime's entry point. The stack pointer is at argc.
//
// Calls from assembly to Go load g from thread-local storage, so there must be
// some, and a g in it. The runtime sets up its own.
TEXT nsrun_early(SB),NOSPLIT|NOFRAME,$0
	MOVQ	SP, BX
	LEAQ	·g(SB), AX
	MOVQ	AX, ·tls+56(SB)
	LEAQ	·tls+64(SB), SI
	MOVQ	$0x1002, DI		// ARCH_SET_FS
	MOVQ	$158, AX		// arch_prctl
	SYSCALL
	SUBQ	$32, SP			// keeps the alignment of 16
	MOVQ	BX, 0(SP)
	MOVQ	BX, 16(SP)
	CALL	·run(SB)
	MOVQ	16(SP), BX
	MOVQ	BX, 0(SP)
	CALL	·begin(SB)
	MOVBLZX	8(SP), AX
	TESTL	AX, AX
	JNE	clone
	MOVQ	16(SP), SP
	XORL	DX, DX			// no function for atexit, as from the kernel
	JMP	_rt0_amd64_linux(SB)
clone:
	CALL	·child(SB)
	CALL	·rest(SB)
	INT	$3

GLOBL ·tls(SB), NOPTR, $128

// A runtime.g that is all zero: its stack has no limit.
GLOBL ·g(SB), NOPTR, $1024

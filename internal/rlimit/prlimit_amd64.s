//go:build linux

#include "textflag.h"

// func prlimit(resource uintptr, old *Limit)
TEXT ·prlimit(SB),NOSPLIT,$0-16
	MOVQ	$0, DI
	MOVQ	resource+0(FP), SI
	MOVQ	$0, DX
	MOVQ	old+8(FP), R10
	MOVQ	$302, AX		// prlimit64
	SYSCALL
	RET

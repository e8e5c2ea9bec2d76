//go:build linux

#include "textflag.h"

// func prlimit(resource uintptr, old *Limit)
TEXT ·prlimit(SB),NOSPLIT,$0-16
	MOVD	ZR, R0
	MOVD	resource+0(FP), R1
	MOVD	ZR, R2
	MOVD	old+8(FP), R3
	MOVD	$261, R8		// prlimit64
	SVC
	RET

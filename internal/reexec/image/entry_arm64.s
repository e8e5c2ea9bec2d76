//go:build nsrun_image

#include "textflag.h"

// nsrun_image is the entry point: see entry_amd64.s. g is a register here.
TEXT nsrun_image(SB),NOSPLIT|NOFRAME,$0
	MOVD	RSP, R0
	SUB	$32, RSP
	MOVD	R0, 8(RSP)
	MOVD	$·g(SB), g
	BL	github·com∕nsrun∕nsrun∕internal∕reexec·Main(SB)
	BRK

// A runtime.g that is all zero: its stack has no limit.
GLOBL ·g(SB), NOPTR, $1024

//go:build linux && go1.26 && !go1.28 && !nsrun_plain

#include "textflag.h"

// nsrun_early is the entry point of the nsrun command: see entry_amd64.s. g is a
// register here.
TEXT nsrun_early(SB),NOSPLIT|NOFRAME,$0
	MOVD	RSP, R0
	SUB	$32, RSP
	MOVD	R0, 8(RSP)		// the argument; begin's result is behind it
	MOVD	R0, 24(RSP)
	MOVD	$·g(SB), g
	BL	·run(SB)
	MOVD	24(RSP), R0
	MOVD	R0, 8(RSP)
	BL	·begin(SB)
	MOVBU	16(RSP), R0
	CBNZ	R0, clone
	ADD	$32, RSP
	MOVD	ZR, g
	B	_rt0_arm64_linux(SB)
clone:
	BL	·child(SB)
	BL	·rest(SB)
	BRK

// A runtime.g that is all zero: its stack has no limit.
GLOBL ·g(SB), NOPTR, $1024

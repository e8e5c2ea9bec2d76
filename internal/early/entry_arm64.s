#include "textflag.h"

// nsrun_early is the entry point of the nsrun command: it calls start, and goes
// on to the runtime's. The stack pointer is at argc.
TEXT nsrun_early(SB),NOSPLIT|NOFRAME,$0
	MOVD	RSP, R0
	SUB	$32, RSP
	MOVD	R0, 8(RSP)		// the argument of start; its result is behind it
	MOVD	ZR, g
	BL	·start(SB)
	MOVBU	16(RSP), R0
	CBNZ	R0, clone
	ADD	$32, RSP
	B	_rt0_arm64_linux(SB)
clone:
	BL	·child(SB)
	BL	·wait(SB)
	BRK

#include "textflag.h"

// SSE2 is part of every amd64, so nothing has to be detected. A block is 16 bytes of
// each group, 64 bytes in all.

// func ungroupBlocks(dst, g0, g1, g2, g3 *byte, n int)
TEXT ·ungroupBlocks(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ g0+8(FP), R8
	MOVQ g1+16(FP), R9
	MOVQ g2+24(FP), R10
	MOVQ g3+32(FP), R11
	MOVQ n+40(FP), CX
	XORQ AX, AX

ungroup:
	MOVOU (R8)(AX*1), X0
	MOVOU (R9)(AX*1), X1
	MOVOU (R10)(AX*1), X2
	MOVOU (R11)(AX*1), X3

	// Bytes to pairs: X0, X4 hold bytes of groups 0 and 1, X2, X5 of groups 2 and 3.
	MOVO      X0, X4
	PUNPCKLBW X1, X0
	PUNPCKHBW X1, X4
	MOVO      X2, X5
	PUNPCKLBW X3, X2
	PUNPCKHBW X3, X5

	// Pairs to quads.
	MOVO      X0, X6
	PUNPCKLWL X2, X0
	PUNPCKHWL X2, X6
	MOVO      X4, X7
	PUNPCKLWL X5, X4
	PUNPCKHWL X5, X7

	MOVOU X0, (DI)
	MOVOU X6, 16(DI)
	MOVOU X4, 32(DI)
	MOVOU X7, 48(DI)
	ADDQ  $64, DI
	ADDQ  $16, AX
	CMPQ  AX, CX
	JLT   ungroup
	RET

// func groupBlocks(g0, g1, g2, g3, src *byte, n int)
TEXT ·groupBlocks(SB), NOSPLIT, $0-48
	MOVQ g0+0(FP), R8
	MOVQ g1+8(FP), R9
	MOVQ g2+16(FP), R10
	MOVQ g3+24(FP), R11
	MOVQ src+32(FP), SI
	MOVQ n+40(FP), CX
	XORQ AX, AX

	// X15 = 00ff in every word. It is the zero register of Go's own calling
	// convention, so X8 it is.
	PCMPEQL X8, X8
	PSRLW   $8, X8

group:
	MOVOU (SI), X0
	MOVOU 16(SI), X1
	MOVOU 32(SI), X2
	MOVOU 48(SI), X3

	// Quads to pairs: X4, X5 get the bytes of groups 0 and 2, X0, X2 of 1 and 3.
	MOVO     X0, X4
	MOVO     X1, X6
	PAND     X8, X4
	PAND     X8, X6
	PACKUSWB X6, X4
	MOVO     X2, X5
	MOVO     X3, X7
	PAND     X8, X5
	PAND     X8, X7
	PACKUSWB X7, X5
	PSRLW    $8, X0
	PSRLW    $8, X1
	PACKUSWB X1, X0
	PSRLW    $8, X2
	PSRLW    $8, X3
	PACKUSWB X3, X2

	// Pairs to single bytes: group 0 to X6, 1 to X1, 2 to X4, 3 to X0.
	MOVO     X4, X6
	MOVO     X5, X7
	PAND     X8, X6
	PAND     X8, X7
	PACKUSWB X7, X6
	PSRLW    $8, X4
	PSRLW    $8, X5
	PACKUSWB X5, X4
	MOVO     X0, X1
	MOVO     X2, X3
	PAND     X8, X1
	PAND     X8, X3
	PACKUSWB X3, X1
	PSRLW    $8, X0
	PSRLW    $8, X2
	PACKUSWB X2, X0

	MOVOU X6, (R8)(AX*1)
	MOVOU X1, (R9)(AX*1)
	MOVOU X4, (R10)(AX*1)
	MOVOU X0, (R11)(AX*1)
	ADDQ  $64, SI
	ADDQ  $16, AX
	CMPQ  AX, CX
	JLT   group
	RET

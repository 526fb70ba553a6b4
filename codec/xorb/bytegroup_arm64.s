#include "textflag.h"

// A block is 16 bytes of each group, 64 bytes in all. VST4 and VLD4 deal by
// themselves.

// func ungroupBlocks(dst, g0, g1, g2, g3 *byte, n int)
TEXT ·ungroupBlocks(SB), NOSPLIT, $0-48
	MOVD dst+0(FP), R0
	MOVD g0+8(FP), R1
	MOVD g1+16(FP), R2
	MOVD g2+24(FP), R3
	MOVD g3+32(FP), R4
	MOVD n+40(FP), R5

ungroup:
	VLD1.P 16(R1), [V0.B16]
	VLD1.P 16(R2), [V1.B16]
	VLD1.P 16(R3), [V2.B16]
	VLD1.P 16(R4), [V3.B16]
	VST4.P [V0.B16, V1.B16, V2.B16, V3.B16], 64(R0)
	SUBS   $16, R5
	BGT    ungroup
	RET

// func groupBlocks(g0, g1, g2, g3, src *byte, n int)
TEXT ·groupBlocks(SB), NOSPLIT, $0-48
	MOVD g0+0(FP), R1
	MOVD g1+8(FP), R2
	MOVD g2+16(FP), R3
	MOVD g3+24(FP), R4
	MOVD src+32(FP), R0
	MOVD n+40(FP), R5

group:
	VLD4.P 64(R0), [V0.B16, V1.B16, V2.B16, V3.B16]
	VST1.P [V0.B16], 16(R1)
	VST1.P [V1.B16], 16(R2)
	VST1.P [V2.B16], 16(R3)
	VST1.P [V3.B16], 16(R4)
	SUBS   $16, R5
	BGT    group
	RET

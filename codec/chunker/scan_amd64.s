#include "textflag.h"

// STEP takes one byte into the hash, and leaves if that is at a boundary. The load from
// the table and the sum are two instructions, so that from one byte to the next only LEAQ
// has to be waited for: one cycle a byte.
#define STEP(at, found) \
	MOVBLZX at(SI), CX    \
	MOVQ    (R8)(CX*8), DX \
	LEAQ    (DX)(AX*2), AX \
	CMPQ    AX, R9        \
	JCS     found

// func rollBlocks(p *byte, n int, h uint64, table *[256]uint64) (int, uint64)
TEXT ·rollBlocks(SB), NOSPLIT, $0-48
	MOVQ p+0(FP), SI
	MOVQ n+8(FP), BX
	MOVQ h+16(FP), AX
	MOVQ table+24(FP), R8
	MOVQ $0x1000000000000, R9 // boundary
	MOVQ SI, R10
	ADDQ SI, BX

loop:
	CMPQ SI, BX
	JAE  done
	STEP(0, found1)
	STEP(1, found2)
	STEP(2, found3)
	STEP(3, found4)
	STEP(4, found5)
	STEP(5, found6)
	STEP(6, found7)
	STEP(7, found8)
	ADDQ $8, SI
	JMP  loop

found8:
	INCQ SI

found7:
	INCQ SI

found6:
	INCQ SI

found5:
	INCQ SI

found4:
	INCQ SI

found3:
	INCQ SI

found2:
	INCQ SI

found1:
	INCQ SI

done:
	SUBQ R10, SI
	MOVQ SI, ret+32(FP)
	MOVQ AX, ret1+40(FP)
	RET

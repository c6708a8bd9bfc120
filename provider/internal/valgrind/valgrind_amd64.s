//go:build valgrind && linux

#include "textflag.h"

// func request(a *arguments)
//
// Valgrind takes these rotations, which together change nothing, and the exchange
// for a request whose arguments are at AX.
TEXT ·request(SB), NOSPLIT, $0-8
	MOVQ a+0(FP), AX
	XORL DX, DX
	ROLQ $3, DI
	ROLQ $13, DI
	ROLQ $61, DI
	ROLQ $51, DI
	XCHGQ BX, BX
	RET

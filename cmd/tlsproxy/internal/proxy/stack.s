// func growStack()
TEXT ·growStack(SB), 0, $24576-0
	RET

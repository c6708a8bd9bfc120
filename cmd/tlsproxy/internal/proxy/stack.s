// func growStack()
TEXT ·growStack(SB), 0, $12288-0
	RET

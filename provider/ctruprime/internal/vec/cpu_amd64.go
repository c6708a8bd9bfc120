//go:build !noasm

package vec

import "golang.org/x/sys/cpu"

// What this processor has of what the routines need. BMI came with AVX2.
var (
	HasAVX2   = cpu.X86.HasAVX2 && cpu.X86.HasBMI1 && cpu.X86.HasBMI2
	HasAVX512 = HasAVX2 && cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512BW &&
		cpu.X86.HasAVX512DQ
	hasVNNI = HasAVX512 && cpu.X86.HasAVX512VNNI
	// has512 says that registers of 512 bits are worth their while: processors
	// without VBMI may slow down all code for a while after such multiplications.
	has512 = HasAVX512 && cpu.X86.HasAVX512VBMI
)

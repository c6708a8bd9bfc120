package ctruprime

import "fmt"

// A Level says which instructions a Scheme uses. Each level gives the same bytes.
type Level int

// The levels, each of which includes those before it.
const (
	Portable Level = iota // Go alone
	AVX2                  // with BMI1 and BMI2, on amd64
	AVX512                // F, VL, BW and DQ; VNNI and VBMI are used where they are
)

// Levels returns those that this processor and this build can run, Portable first.
// The schemes of this package's functions use the last of them.
func Levels() []Level {
	var all []Level
	for l := Portable; l <= bestLevel(); l++ {
		all = append(all, l)
	}
	return all
}

// String returns the name: "portable", "avx2" or "avx512".
func (l Level) String() string {
	switch l {
	case Portable:
		return "portable"
	case AVX2:
		return "avx2"
	case AVX512:
		return "avx512"
	}
	return fmt.Sprintf("Level(%d)", int(l))
}

// At returns a scheme of the same parameter set at a level, to compare levels with.
// It is another Scheme than s: its keys are not s's. The error says which
// levels there are if this is none of Levels.
func (s *Scheme) At(l Level) (*Scheme, error) {
	if l < Portable || l > bestLevel() {
		return nil, fmt.Errorf("ctruprime: level %v cannot run here; %v can", l, Levels())
	}
	p := s.parameters
	p.vector = nil
	return newSchemeFor(p, l), nil
}

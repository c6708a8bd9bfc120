//go:build !amd64 || noasm

package ctruprime

// laneHash stands for hashing in lanes, which this build does not have.
type laneHash struct{}

func (laneHash) Init(bool) {}
func (laneHash) Reset()    {}

func (*parameters) encapsulateLanes([]encapsulation) {}
func (*parameters) decapsulateLanes([]decapsulation) {}

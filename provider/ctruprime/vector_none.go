//go:build !amd64 || noasm

package ctruprime

// vectorized stands for vector code that this build does not have. No value of it
// exists: its methods are never called.
type vectorized struct {
	codec
	avx512 bool
}

type codec struct{}

func bestLevel() Level { return Portable }

func newVectorized(*parameters, Level) *vectorized { return nil }

func (codec) Sample(poly, []byte)    {}
func (codec) SampleSize() (size int) { return size }

func (*vectorized) keyWords() (n int)                         { return n }
func (*vectorized) transform(spectrum, poly)                  {}
func (*vectorized) encrypt([]byte, spectrum, *workspace)      {}
func (*vectorized) decrypt([]byte, spectrum, *workspace)      {}
func (*vectorized) publish([]byte, poly, poly, *workspace)    {}
func (*vectorized) unpackPublicKey(poly, []byte) (valid bool) { return valid }
func (*vectorized) unpackPrivatePoly(poly, []byte) (valid bool) {
	return valid
}
func (*vectorized) packPrivatePoly([]byte, poly) {}

func (*vectorized) difference([]byte, []byte) (x uint64) { return x }

func (*vectorized) newDivision() *vectorDivision { return nil }

type vectorDivision struct{}

func (*vectorDivision) Wipe() {}

func (*parameters) invertVector(poly, poly, *vectorDivision)                                 {}
func (*parameters) generateGroupVector([][]byte, [][]byte, *workspace, *division, *keyGroup) {}

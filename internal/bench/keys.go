package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/ctrutls/ctrutls/kernels"
)

// CheckKeys tests a case of KeyGen by what makes keys keys: h*f is small in Z_q[x]/(x^n - x - 1), by a schoolbook product that
// shares nothing with any provider's. It tests one key in `every`.
func (c *Case) CheckKeys(every int) error {
	if c.Operation != kernels.KeyGen {
		return fmt.Errorf("bench: a case of %s has no keys to check", c.Operation)
	}
	var mu sync.Mutex
	var errs []error
	eachChunk((c.N+every-1)/every, 0, func(_ *rand.ChaCha8, from, to int) {
		for i := from; i < to; i++ {
			if err := checkKey(c.Set, row(c.output, len(c.output)/c.N, i*every)); err != nil {
				mu.Lock()
				errs = append(errs, fmt.Errorf("bench: key %d: %w", i*every, err))
				mu.Unlock()
			}
		}
	})
	return errors.Join(errs...)
}

// eta is the width of the centred binomial distribution that f', g and r are drawn from.
func eta(set *kernels.Set) int { return map[int]int{653: 3, 761: 2, 1277: 2}[set.N()] }

// checkKey computes h*f of sk = sk_f || pk || z.
func checkKey(set *kernels.Set, sk []byte) error {
	n, q, small := set.N(), modulus(set), eta(set)
	pk := sk[(n+1)/2:]
	f, h := make([]int32, n), make([]int32, n)
	for i := range n {
		f[i] = int32(2*small+1) - int32(sk[i/2]>>(4*(i%2))&15)
		at := coefficientBits * i
		bits := uint32(pk[at/8]) | uint32(pk[at/8+1])<<8
		if at%8+coefficientBits > 16 {
			bits |= uint32(pk[at/8+2]) << 16
		}
		h[i] = int32(bits >> (at % 8) & (1<<coefficientBits - 1))
	}
	c := make([]int32, 2*n) // |f_i| < 16 and h_i < 2^13: sums of 1277 stay below 2^28
	for i, x := range f {
		for j, y := range h {
			c[i+j] += x * y
		}
	}
	for i := 2*n - 2; i >= n; i-- { // x^i = x^(i-n+1) + x^(i-n)
		c[i-n] += c[i]
		c[i-n+1] += c[i]
	}
	for i := range n {
		v := (int(c[i])%q + q) % q
		if v > small && v < q-small {
			return fmt.Errorf("coefficient %d of h*f is %d modulo %d, not within %d of 0", i, v, q, small)
		}
	}
	return nil
}

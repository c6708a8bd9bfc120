package bench

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"

	"github.com/ctrutls/ctrutls/kernels"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// A Case is a batch with what the CPU makes of it.
type Case struct {
	Set       *kernels.Set
	Operation kernels.Operation
	N         int
	Input     []byte // rows
	Table     []byte // keys, if the case has a table, and
	Index     []byte // for Decaps, a little-endian uint32 an operation

	output []byte
	status []byte
}

// CaseOptions say what a case contains.
type CaseOptions struct {
	Table   int  // as kernels.Options.Table
	Invalid bool // a seventh of the rows have invalid keys
}

// schemes finds a set's scheme on the CPU.
func scheme(set *kernels.Set) *ctruprime.Scheme {
	return map[int]*ctruprime.Scheme{653: ctruprime.Scheme653(), 761: ctruprime.Scheme761(), 1277: ctruprime.Scheme1277()}[set.N()]
}

// modulus is q, which says what a random public key is.
func modulus(set *kernels.Set) int { return map[int]int{653: 4621, 761: 4591, 1277: 7879}[set.N()] }

// chunk is how many rows a goroutine makes at a time, from randomness of its own.
const chunk = 32

// eachChunk calls do for rows [from, to) of n, on all processors, with randomness that depends on seed and from alone.
func eachChunk(n int, seed uint64, do func(rng *rand.ChaCha8, from, to int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(runtime.GOMAXPROCS(0), (n+chunk-1)/chunk) {
		wg.Go(func() {
			for from := range next {
				var key [32]byte
				binary.LittleEndian.PutUint64(key[:], seed)
				binary.LittleEndian.PutUint64(key[8:], uint64(from))
				do(rand.NewChaCha8(key), from, min(from+chunk, n))
			}
		})
	}
	for from := 0; from < n; from += chunk {
		next <- from
	}
	close(next)
	wg.Wait()
}

// NewCase makes n random operations, and their results with provider/ctruprime. The same seed makes the same case.
func NewCase(set *kernels.Set, op kernels.Operation, n int, o CaseOptions, seed uint64) (*Case, error) {
	c := &Case{Set: set, Operation: op, N: n}
	c.Input = make([]byte, n*set.InputSize(op, o.Table > 0))
	c.output = make([]byte, n*set.OutputSize(op))
	c.status = make([]byte, 4*n)
	var keys [][]byte
	if op == kernels.Decaps {
		keys = make([][]byte, min(max(o.Table, n), 256))
		if o.Table > 0 {
			keys = make([][]byte, o.Table)
			c.Index = make([]byte, 4*n)
		}
		if err := generateKeys(set, keys, seed^0x6b6579); err != nil {
			return nil, err
		}
		if o.Table > 0 {
			c.Table = bytes.Join(keys, nil)
		}
	}
	if op == kernels.Encaps && o.Table > 0 {
		c.Table = make([]byte, set.PublicKeySize())
		r := rand.New(rand.NewPCG(seed, 0))
		randomPublicKey(set, c.Table, r)
		if o.Invalid && r.IntN(3) == 0 {
			spoilPublicKey(set, c.Table, r)
		}
	}
	var mu sync.Mutex
	var errs []error
	eachChunk(n, seed, func(rng *rand.ChaCha8, from, to int) {
		if err := c.makeRows(rng, o, keys, from, to); err != nil {
			mu.Lock()
			errs = append(errs, err)
			mu.Unlock()
		}
	})
	return c, errors.Join(errs...)
}

// GivenCase is a case with inputs and outputs from elsewhere: rows without a table, all valid.
func GivenCase(set *kernels.Set, op kernels.Operation, input, output []byte) *Case {
	n := len(output) / set.OutputSize(op)
	return &Case{Set: set, Operation: op, N: n, Input: input, output: output, status: make([]byte, 4*n)}
}

func generateKeys(set *kernels.Set, keys [][]byte, seed uint64) error {
	var mu sync.Mutex
	var errs []error
	eachChunk(len(keys), seed, func(rng *rand.ChaCha8, from, to int) {
		seeds := make([][]byte, to-from)
		for i := range seeds {
			seeds[i] = random(rng, 2*kernels.SeedSize)
			keys[from+i] = make([]byte, set.SecretKeySize())
		}
		if err := scheme(set).GenerateKeysBytes(keys[from:to], seeds); err != nil {
			mu.Lock()
			errs = append(errs, err)
			mu.Unlock()
		}
	})
	return errors.Join(errs...)
}

func random(rng *rand.ChaCha8, n int) []byte {
	b := make([]byte, n)
	_, _ = rng.Read(b) // it never fails
	return b
}

// row returns row i of rows of equal size.
func row(rows []byte, size, i int) []byte { return rows[i*size : (i+1)*size : (i+1)*size] }

func (c *Case) makeRows(rng *rand.ChaCha8, o CaseOptions, keys [][]byte, from, to int) error {
	r := rand.New(rng)
	in, out := len(c.Input)/c.N, len(c.output)/c.N
	s := scheme(c.Set)
	switch c.Operation {
	case kernels.KeyGen:
		var sks, seeds [][]byte
		for i := from; i < to; i++ {
			copy(row(c.Input, in, i), random(rng, in))
			seeds, sks = append(seeds, row(c.Input, in, i)), append(sks, row(c.output, out, i))
		}
		return s.GenerateKeysBytes(sks, seeds)
	case kernels.Encaps:
		for i := from; i < to; i++ {
			input, output := row(c.Input, in, i), row(c.output, out, i)
			pk, seed := c.Table, input
			if pk == nil {
				pk, seed = input[:c.Set.PublicKeySize()], input[c.Set.PublicKeySize():]
				randomPublicKey(c.Set, pk, r)
				if o.Invalid && r.IntN(7) == 0 {
					spoilPublicKey(c.Set, pk, r)
				}
			}
			copy(seed, random(rng, kernels.SeedSize))
			if err := s.EncapsulateBytes(output[:s.CiphertextSize()], output[s.CiphertextSize():], pk, seed); err != nil {
				if !errors.Is(err, ctruprime.ErrPublicKey) {
					return err
				}
				clear(output)
				c.status[4*i] = 1
			}
		}
	case kernels.Decaps:
		for i := from; i < to; i++ {
			if err := c.makeDecapsRow(rng, o, keys, row(c.Input, in, i), row(c.output, out, i), i); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Case) makeDecapsRow(rng *rand.ChaCha8, o CaseOptions, keys [][]byte, input, output []byte, i int) error {
	r := rand.New(rng)
	s := scheme(c.Set)
	k := r.IntN(len(keys))
	sk, ct := keys[k], input
	if o.Table == 0 {
		sk, ct = input[:c.Set.SecretKeySize()], input[c.Set.SecretKeySize():]
		copy(sk, keys[k])
	} else {
		binary.LittleEndian.PutUint32(c.Index[4*i:], uint32(k))
	}
	if err := s.EncapsulateBytes(ct, make([]byte, kernels.SeedSize), s.PublicKeyOf(keys[k]), random(rng, kernels.SeedSize)); err != nil {
		return err
	}
	switch r.IntN(8) { // half of the ciphertexts are as they should be
	case 0: // one bit off, padding included
		ct[r.IntN(len(ct))] ^= 1 << r.IntN(8)
	case 1: // another key's
		if err := s.EncapsulateBytes(ct, make([]byte, kernels.SeedSize), s.PublicKeyOf(keys[r.IntN(len(keys))]), random(rng, kernels.SeedSize)); err != nil {
			return err
		}
	case 2: // anything
		copy(ct, random(rng, len(ct)))
	case 3: // all coefficients at an end
		for j := range ct {
			ct[j] = byte(-(i & 1))
		}
	}
	if o.Invalid && r.IntN(7) == 0 {
		if o.Table > 0 {
			binary.LittleEndian.PutUint32(c.Index[4*i:], uint32(len(keys))+r.Uint32N(1<<31))
			c.status[4*i] = 1
			return nil
		}
		spoilSecretKey(c.Set, sk, r)
	}
	if err := s.DecapsulateBytes(output, sk, ct); err != nil {
		if !errors.Is(err, ctruprime.ErrPrivateKey) && !errors.Is(err, ctruprime.ErrPublicKey) {
			return err
		}
		clear(output)
		c.status[4*i] = 1
	}
	return nil
}

const coefficientBits = 13 // of a public key

// randomPublicKey fills pk with uniform coefficients: it need not belong to a secret key to be encapsulated to. One in eight is
// the largest that there is.
func randomPublicKey(set *kernels.Set, pk []byte, r *rand.Rand) {
	clear(pk)
	q, largest := modulus(set), r.IntN(8) == 0
	for i := range set.N() {
		v := uint32(q - 1)
		if !largest {
			v = uint32(r.IntN(q))
		}
		putCoefficient(pk, i, v)
	}
}

// putCoefficient adds 13 bits at coefficient i, where pk is zero.
func putCoefficient(pk []byte, i int, v uint32) {
	at := coefficientBits * i
	v <<= at % 8
	for j := at / 8; v != 0; j, v = j+1, v>>8 {
		pk[j] |= byte(v)
	}
}

func clearCoefficient(pk []byte, i int) {
	for bit := coefficientBits * i; bit < coefficientBits*(i+1); bit++ {
		pk[bit/8] &^= 1 << (bit % 8)
	}
}

// spoilPublicKey makes pk invalid, in one of the ways there are.
func spoilPublicKey(set *kernels.Set, pk []byte, r *rand.Rand) {
	if r.IntN(4) == 0 {
		pk[len(pk)-1] |= 0x80 // padding: 13n is not a multiple of 8
		return
	}
	i, q := r.IntN(set.N()), modulus(set)
	clearCoefficient(pk, i)
	putCoefficient(pk, i, uint32(q+r.IntN(1<<coefficientBits-q)))
}

// spoilSecretKey makes sk = sk_f || pk || z invalid.
func spoilSecretKey(set *kernels.Set, sk []byte, r *rand.Rand) {
	secret := (set.N() + 1) / 2
	switch r.IntN(3) {
	case 0: // a nibble out of range; 15 is in every set
		sk[r.IntN(secret-1)] |= 0x0F << (4 * r.IntN(2))
	case 1: // padding: n is odd
		sk[secret-1] |= byte(1+r.IntN(15)) << 4
	default:
		spoilPublicKey(set, sk[secret:secret+set.PublicKeySize()], r)
	}
}

// Check compares what a device made with what the CPU made, and describes the first rows that differ.
func (c *Case) Check(output, status []byte) error {
	if len(output) != len(c.output) || len(status) != len(c.status) {
		return fmt.Errorf("bench: %d bytes of output and %d of status, want %d and %d", len(output), len(status), len(c.output), len(c.status))
	}
	var errs []error
	wrong := 0
	size := len(c.output) / c.N
	for i := range c.N {
		got, want := row(output, size, i), row(c.output, size, i)
		gotStatus, wantStatus := binary.LittleEndian.Uint32(status[4*i:]), binary.LittleEndian.Uint32(c.status[4*i:])
		if gotStatus == wantStatus && bytes.Equal(got, want) {
			continue
		}
		if wrong++; wrong > 3 {
			continue
		}
		at := 0
		for at < size && got[at] == want[at] {
			at++
		}
		errs = append(errs, fmt.Errorf("row %d: status %d, want %d; output differs from byte %d of %d on", i, gotStatus, wantStatus, at, size))
	}
	if wrong == 0 {
		return nil
	}
	return fmt.Errorf("bench: %s of CTRU-Prime-%d: %d of %d rows are wrong: %w", c.Operation, c.Set.N(), wrong, c.N, errors.Join(errs...))
}

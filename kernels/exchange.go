package kernels

import "fmt"

// An Exchange is one side's part in a key exchange by the hybrid of X25519 and a parameter set.
type Exchange int

const (
	ServerExchange Exchange = iota // X25519Pair and Encaps
	ClientFinish                   // X25519Shared and Decaps
)

// Exchanges lists them.
func Exchanges() []Exchange { return []Exchange{ServerExchange, ClientFinish} }

// String returns the exchange's name.
func (x Exchange) String() string {
	switch x {
	case ServerExchange:
		return "server-exchange"
	case ClientFinish:
		return "client-finish"
	}
	return fmt.Sprintf("Exchange(%d)", int(x))
}

// halves returns what an exchange consists of.
func (x Exchange) halves() (X25519Operation, Operation) {
	if x == ServerExchange {
		return X25519Pair, Encaps
	}
	return X25519Shared, Decaps
}

// x25519Output is how many bytes of an output row X25519 makes.
func (x Exchange) x25519Output() int {
	if x == ServerExchange {
		return 2 * X25519Size
	}
	return X25519Size
}

// The input rows of both exchanges begin with X25519's.
const x25519Input = 2 * X25519Size

// x25519Align is what the size of X25519's rows is a multiple of.
const x25519Align = 16

func padded(size int) int { return ceilDiv(size, x25519Align) * x25519Align }

// ExchangeInputSize returns the bytes of an exchange's input row, padding included.
func (s *Set) ExchangeInputSize(x Exchange) int {
	_, kem := x.halves()
	return padded(x25519Input + s.InputSize(kem, false))
}

// ExchangeOutputSize returns the bytes of an exchange's output row, padding included.
func (s *Set) ExchangeOutputSize(x Exchange) int {
	_, kem := x.halves()
	return padded(x.x25519Output() + s.OutputSize(kem))
}

// ExchangeOptions choose among the ways to run a batch. The zero value leaves every choice to PlanExchange.
type ExchangeOptions struct {
	Multiplication Multiplication
	Shape          Shape // of the KEM's half
	X25519         X25519Shape
}

// MaxExchanges is the most that a plan can have, so that every size in bytes is below 2^31.
const MaxExchanges = MaxBatch / 2

// PlanExchange fills p with the launches that run n exchanges, or says what cannot be: in Launches the KEM's half, in
// Beside X25519's, which takes longer unless n is large, and should be started first. Rows lie at multiples of 16; from their beginning
//
//	exchange        input                                               output                                       statuses
//	ServerExchange  x25519 private || peer's u || public key || seed    x25519 public || x25519 secret || ct || key  2
//	ClientFinish    x25519 private || peer's u || secret key || ct      x25519 secret || key                         2
//
// with 32 bytes for each number of X25519. The halves do not know of each other: each has its own status, n of the KEM (1: the key is
// invalid) and behind them n of X25519 (1: the shared secret is all zeros).
func (s *Set) PlanExchange(p *Plan, x Exchange, n int, dev Device, o ExchangeOptions) error {
	if x != ServerExchange && x != ClientFinish {
		return fmt.Errorf("kernels: there is no exchange %s", x)
	}
	if n > MaxExchanges {
		return fmt.Errorf("kernels: a batch has 1 to %d exchanges, not %d", MaxExchanges, n)
	}
	curve, kem := x.halves()
	in, out := s.ExchangeInputSize(x), s.ExchangeOutputSize(x)
	err := s.Plan(p, kem, n, dev, Options{Multiplication: o.Multiplication, Shape: o.Shape,
		Input: Place{x25519Input, in}, Output: Place{x.x25519Output(), out}})
	if err != nil {
		return err
	}
	if o.X25519 == X25519DefaultShape {
		o.X25519 = x25519DefaultShape(n, dev)
	}
	if _, ok := x25519Shapes[o.X25519]; !ok {
		return fmt.Errorf("kernels: x25519 has no shape %s", o.X25519)
	}
	rows := x25519Rows{input: in, output: out, status: p.StatusSize}
	if x == ServerExchange {
		rows.secret = X25519Size
	}
	p.StatusSize *= 2
	p.Beside = append(p.Beside, x25519Launch(curve, n, o.X25519, rows))
	return nil
}

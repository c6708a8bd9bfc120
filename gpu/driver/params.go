package driver

import "unsafe"

// MaxParams is the most parameters a launch can have.
const MaxParams = 24

// Params are the values of a kernel's parameters, in order. One Params is filled again and again without allocation; it serves one launch at
// a time. The zero value is empty.
type Params struct {
	n      int
	values [MaxParams]uint64
	// What the driver reads. Addresses fills it, so that a Params may be copied.
	addresses [MaxParams]unsafe.Pointer
}

// Reset empties p and returns it.
func (p *Params) Reset() *Params {
	p.n = 0
	return p
}

// Ptr appends a pointer parameter.
func (p *Params) Ptr(v DevicePtr) *Params { return p.Uint64(uint64(v)) }

// Int32 appends a 32-bit integer parameter.
func (p *Params) Int32(v int32) *Params { return p.Uint64(uint64(uint32(v))) }

// Uint32 appends a 32-bit integer parameter.
func (p *Params) Uint32(v uint32) *Params { return p.Uint64(uint64(v)) }

// Int64 appends a 64-bit integer parameter.
func (p *Params) Int64(v int64) *Params { return p.Uint64(uint64(v)) }

// Uint64 appends a 64-bit integer parameter. It panics when p is full: the number of a kernel's parameters is fixed in the source.
func (p *Params) Uint64(v uint64) *Params {
	if p.n == MaxParams {
		panic("driver: more than MaxParams parameters")
	}
	p.values[p.n] = v
	p.n++
	return p
}

// Addresses returns the values' addresses, in p itself: what cuLaunchKernel takes, for implementations of API. Every value fills eight
// bytes, of which the driver reads as many as the parameter has: the low ones, as CUDA's machines are little-endian.
func (p *Params) Addresses() []unsafe.Pointer {
	if p == nil {
		return nil
	}
	for i := range p.values[:p.n] {
		p.addresses[i] = unsafe.Pointer(&p.values[i])
	}
	return p.addresses[:p.n]
}

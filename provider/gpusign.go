//go:build !nogpu

package provider

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/hex"
	"fmt"

	"github.com/ctrutls/ctrutls/gpu"
	"github.com/ctrutls/ctrutls/provider/internal/nonce"
)

// A Provider promises as many keys as the devices take.
var _ = [1]struct{}{}[gpu.MaxSigningKeys-MaxSigningKeys]

// adopt implements engine: it makes the key's kind.
func (e *gpuEngine) adopt(k *signingKey) error {
	public, err := k.private.PublicKey.Bytes()
	if err != nil {
		return err
	}
	kind, err := e.gpu.SigningKind(gpu.SigningKey{Private: k.number, Public: public})
	if err != nil {
		return err
	}
	k.device.Store(kind)
	return nil
}

// kind returns the kind of a request's rows; nil if the devices have none. Where
// they could have one, of a key that they do not know, the request is told.
func (e *gpuEngine) kind(r *request) *gpu.Kind {
	if r.op != opSign {
		return e.kinds[r.op][r.scheme]
	}
	k, known := r.key.device.Load().(*gpu.Kind)
	r.wanted = e.signs && !known
	return k
}

// fillSignature writes the input row of a signature, nonce || digest. The nonce is
// nowhere else.
func fillSignature(row []byte, r *request) {
	nonce.Derive(row[:nonce.Size], r.key.number, r.peer, r.own)
	copy(row[nonce.Size:], r.peer)
}

// checkSignature has the CPU verify a signature that a device gave, unless it
// said itself that it has none: it found it wrong, or met with a zero, which in all
// the time there is no sound device does. A device that gave none or a wrong one is
// not used any more, and the CPU signs.
func (e *gpuEngine) checkSignature(r *request, output []byte, invalid bool, device int) {
	e.checked.Add(1)
	if !invalid {
		putDER(r.out, output)
		if r.device = verifies(r); r.device {
			return
		}
	}
	e.mismatches.Add(1)
	e.gpu.Refuse(device, fmt.Errorf("%s of %s", r.op, schemeName(r)))
	e.recompute(r)
}

// signingProbe is the first signature of RFC 6979, appendix A.2.5, with SHA-256.
func signingProbe() (gpu.Probe, error) {
	number := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			panic("provider: a constant is not hexadecimal: " + s)
		}
		return b
	}
	private := number("c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721")
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), private)
	if err != nil {
		return gpu.Probe{}, err
	}
	public, err := key.PublicKey.Bytes()
	if err != nil {
		return gpu.Probe{}, err
	}
	return gpu.Probe{Operation: gpu.Sign, Key: gpu.SigningKey{Private: private, Public: public},
		Input: join(number("a6e3c57dd01abe90086538398355dd4c3b17aa873382b0f24d6129493d8aad60"),
			number("af2bdbe1aa9b6ec1e2ade1d694f41fc71a831d0268e9891562113d8a62add1bf")),
		Output: join(number("efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716"),
			number("f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8"))}, nil
}

// Package provider serves the CTRU-Prime KEM, and its hybrids with X25519, to
// many goroutines at once.
//
// A [Provider] is opened once a process and shared:
//
//	p, err := provider.Open(provider.Config{})
//	if err != nil { ... }
//	defer p.Close()
//	ct, ss, err := p.Encapsulate(ctx, ctruprime.Scheme761(), pk)
//
// Every call blocks until it is served or its context ends. Behind the calls
// stands an engine, which Config.Engine names: the CPU, GPUs, or both by load.
// Whatever engine serves a call, the bytes are the same for the same seeds, and
// what a GPU can't do, because there is none, it is full, late or broken, the CPU
// does: no call fails because a GPU did. Randomness is always the host's: each call
// that needs any draws a seed from crypto/rand and hands it to the engine.
//
// [Provider.Signer] makes a server's signatures in the same way, with one
// difference: they are not the same bytes from every engine.
//
// Whoever has millions of operations passes them by [Provider.RunBulk], in flat
// memory. [Provider.Stats] says who served what, and how each GPU stands.
//
// The same operations are also circl kem.Schemes, for code that already speaks
// that interface: [Provider.Schemes], [Provider.Hybrids], [Provider.SchemeByName].
//
// The package knows key exchanges and signatures, not protocols: it must not import crypto/tls.
// Which code point a hybrid has in TLS is tlsext's business.
package provider

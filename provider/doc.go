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
// stands an engine; today it is the CPU, and whatever engine serves a call, the
// bytes are the same for the same seeds. Randomness is always the host's: each
// call that needs any draws a seed from crypto/rand and hands it to the engine.
//
// The same operations are also circl kem.Schemes, for code that already speaks
// that interface: [Provider.Schemes], [Provider.Hybrids], [Provider.SchemeByName].
//
// The package knows key exchanges, not protocols: it must not import crypto/tls.
// Which code point a hybrid has in TLS is tlsext's business.
package provider

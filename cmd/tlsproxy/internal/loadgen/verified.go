package loadgen

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync/atomic"
	"time"
)

// verified remembers the latest certificate chain that was verified.
type verified struct {
	options x509.VerifyOptions
	chain   atomic.Pointer[[]*x509.Certificate]
}

func newVerified(options x509.VerifyOptions) *verified { return &verified{options: options} }

// check is a tls.Config's VerifyConnection.
func (v *verified) check(state tls.ConnectionState) error {
	chain := state.PeerCertificates
	if len(chain) == 0 {
		return errors.New("loadgen: the server has no certificate")
	}
	if known := v.chain.Load(); known != nil && same(*known, chain) {
		return nil
	}
	options := v.options
	options.CurrentTime = time.Now()
	options.Intermediates = x509.NewCertPool()
	for _, cert := range chain[1:] {
		options.Intermediates.AddCert(cert)
	}
	if _, err := chain[0].Verify(options); err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: chain, Err: err}
	}
	v.chain.Store(&chain)
	return nil
}

func same(a, b []*x509.Certificate) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i].Raw, b[i].Raw) {
			return false
		}
	}
	return true
}

package certificates

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/crypto/ocsp"
)

// staple is an OCSP response that is passed on to clients while it is valid (RFC
// 6960; RFC 8446, section 4.4.2.1).
type staple struct {
	der   []byte
	until time.Time // zero: the responder promises nothing newer
}

// fresh reports whether clients would take it.
func (s *staple) fresh(now time.Time) bool {
	return s != nil && (s.until.IsZero() || now.Before(s.until))
}

func (s *staple) same(other *staple) bool {
	if s == nil || other == nil {
		return s == other
	}
	return bytes.Equal(s.der, other.der)
}

// loadStaple reads the response for a certificate. That there is none is no
// error.
func loadStaple(file string, cert *tls.Certificate) (*staple, error) {
	der, err := read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s, err := parseStaple(der, cert)
	if err != nil {
		return nil, fmt.Errorf("%s is not passed on: %w", file, err)
	}
	return s, nil
}

// parseStaple checks what clients check. Who signed it can be told only if the
// chain holds the issuer.
func parseStaple(der []byte, cert *tls.Certificate) (*staple, error) {
	var issuer *x509.Certificate
	if len(cert.Certificate) > 1 {
		var err error
		if issuer, err = x509.ParseCertificate(cert.Certificate[1]); err != nil {
			return nil, err
		}
	}
	response, err := ocsp.ParseResponseForCert(der, cert.Leaf, issuer)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	switch {
	case response.Status == ocsp.Revoked:
		return nil, fmt.Errorf("it says that the certificate was revoked at %s", response.RevokedAt.Format(time.RFC3339))
	case response.Status != ocsp.Good:
		return nil, errors.New("it says that its sender does not know the certificate")
	case now.Before(response.ThisUpdate):
		return nil, fmt.Errorf("it is not valid before %s", response.ThisUpdate.Format(time.RFC3339))
	case !response.NextUpdate.IsZero() && !now.Before(response.NextUpdate):
		return nil, fmt.Errorf("it was valid until %s", response.NextUpdate.Format(time.RFC3339))
	}
	return &staple{der: der, until: response.NextUpdate}, nil
}

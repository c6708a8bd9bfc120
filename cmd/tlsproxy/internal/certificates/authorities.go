package certificates

import (
	"crypto/sha256"
	"crypto/x509"
	"fmt"
)

// Authorities are those who vouch for certificates.
type Authorities struct {
	Pool *x509.CertPool
	Sum  [sha256.Size]byte // of the file: others have another
}

// LoadAuthorities reads the certificates of authorities, PEM.
func LoadAuthorities(file string) (*Authorities, error) {
	data, err := read(file)
	if err != nil {
		return nil, err
	}
	a := &Authorities{Pool: x509.NewCertPool(), Sum: sha256.Sum256(data)}
	if !a.Pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s holds no PEM certificate", file)
	}
	return a, nil
}

package certificates

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Bounds of what is read.
const (
	maxFileBytes = 1 << 20 // of a PEM file: a chain of some hundred certificates fits
	maxPairs     = 100_000 // certificates of a Store
)

// Pair names the PEM files of one chain and of its key, which may be one file.
// A response of the authority's OCSP responder for it, DER, is in the file with
// the chain's name and ".ocsp" behind, if there is one.
type Pair struct{ Cert, Key string }

// stapleFile is where an OCSP response for the chain is looked for.
func (p Pair) stapleFile() string { return p.Cert + ".ocsp" }

// Source is a Pair or, if Folder is not empty, all those in a folder and in the
// folders directly in it: NAME.crt, NAME.cer or NAME.pem with NAME.key beside
// it, fullchain.pem with privkey.pem, or NAME.pem alone, which then holds the
// key too. Names that begin with a dot are passed over.
type Source struct {
	Pair
	Folder string
	Set    int // that its certificates are chosen from; see Store.Set
}

// Load reads a certificate chain and its private key, both PEM. The key must
// belong to the first certificate of the chain.
func Load(certFile, keyFile string) (*tls.Certificate, error) {
	chain, err := read(certFile)
	if err != nil {
		return nil, err
	}
	defer clear(chain) // it may hold the key too
	key := bytes.Clone(chain)
	if keyFile != certFile {
		if key, err = read(keyFile); err != nil {
			return nil, err
		}
	}
	defer clear(key)
	cert, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %s", certFile, keyFile, strings.TrimPrefix(err.Error(), "tls: "))
	}
	return &cert, nil
}

// LoadPool is LoadAuthorities for who needs only the pool.
func LoadPool(file string) (*x509.CertPool, error) {
	a, err := LoadAuthorities(file)
	if err != nil {
		return nil, err
	}
	return a.Pool, nil
}

func read(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("%s is larger than %d bytes", file, maxFileBytes)
	}
	return data, nil
}

// pairs lists what a source stands for now.
func (s Source) pairs() ([]Pair, error) {
	if s.Folder == "" {
		return []Pair{s.Pair}, nil
	}
	found, inner, err := pairsIn(s.Folder)
	if err != nil {
		return nil, err
	}
	for _, folder := range inner {
		more, _, err := pairsIn(folder)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		if found = append(found, more...); len(found) > maxPairs {
			return nil, fmt.Errorf("%s holds more than %d certificates", s.Folder, maxPairs)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s holds no certificate: neither NAME.crt with NAME.key, nor fullchain.pem with privkey.pem, nor NAME.pem with its key", s.Folder)
	}
	return found, nil
}

// pairsIn lists the pairs that are directly in a folder, and the folders there,
// both by name.
func pairsIn(folder string) (found []Pair, folders []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, nil, err
	}
	present := map[string]bool{}
	for _, e := range entries {
		present[e.Name()] = true
	}
	for _, e := range entries {
		name := e.Name()
		switch path := filepath.Join(folder, name); {
		case strings.HasPrefix(name, "."):
		case isFolder(path, e):
			folders = append(folders, path)
		default:
			if key, ok := keyBeside(name, present); ok {
				found = append(found, Pair{Cert: path, Key: filepath.Join(folder, key)})
			}
		}
	}
	return found, folders, nil
}

// isFolder follows symbolic links: certbot's and Kubernetes' folders hold them.
func isFolder(path string, e fs.DirEntry) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return e.IsDir()
	}
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// keyBeside finds the file that holds the key for the chain in the file name.
func keyBeside(name string, present map[string]bool) (key string, ok bool) {
	ending := filepath.Ext(name)
	switch {
	case ending != ".crt" && ending != ".cer" && ending != ".pem":
		return "", false
	case name == "fullchain.pem" && present["privkey.pem"]:
		return "privkey.pem", true
	case present["fullchain.pem"] && (name == "cert.pem" || name == "chain.pem" || name == "privkey.pem"):
		return "", false // certbot's parts of what fullchain.pem and privkey.pem hold
	case present[strings.TrimSuffix(name, ending)+".key"]:
		return strings.TrimSuffix(name, ending) + ".key", true
	}
	return name, ending == ".pem"
}

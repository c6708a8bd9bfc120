package certificates

import "github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/watch"

// stamps are those of a pair's files: chain, key and OCSP response.
type stamps [3]watch.Stamp

func stampsOf(p Pair) stamps {
	s := stamps{watch.Of(p.Cert), {}, watch.Of(p.stapleFile())}
	if p.Key != p.Cert {
		s[1] = watch.Of(p.Key)
	}
	return s
}

func (s *stamps) equal(other *stamps) bool {
	for i := range s {
		if !s[i].Equal(other[i]) {
			return false
		}
	}
	return true
}

package certificates

import (
	"os"
	"time"
)

// stamp tells versions of a file apart without reading it: rewritten, renamed
// over, and reached through a symbolic link that now points elsewhere. It is
// zero for a file that is not there.
type stamp struct {
	size     int64
	modified time.Time
	identity identity
}

// stampOf looks at the file that name leads to.
func stampOf(name string) stamp {
	info, err := os.Stat(name)
	if err != nil {
		return stamp{}
	}
	return stamp{size: info.Size(), modified: info.ModTime(), identity: identityOf(info)}
}

func (s stamp) equal(other stamp) bool {
	return s.size == other.size && s.modified.Equal(other.modified) && s.identity == other.identity
}

// stamps are those of a pair's files: chain, key and OCSP response.
type stamps [3]stamp

func stampsOf(p Pair) stamps {
	s := stamps{stampOf(p.Cert), {}, stampOf(p.stapleFile())}
	if p.Key != p.Cert {
		s[1] = stampOf(p.Key)
	}
	return s
}

func (s *stamps) equal(other *stamps) bool {
	for i := range s {
		if !s[i].equal(other[i]) {
			return false
		}
	}
	return true
}

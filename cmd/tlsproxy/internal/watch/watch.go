package watch

import (
	"os"
	"time"
)

// Stamp tells versions of a file apart without reading it: rewritten, renamed
// over, and reached through a symbolic link that now points elsewhere. It is
// zero for a file that is not there. Not seen is a rewrite in place that leaves
// size and time as they were.
type Stamp struct {
	size     int64
	modified time.Time
	identity identity
}

// Of looks at the file that name leads to.
func Of(name string) Stamp {
	info, err := os.Stat(name)
	if err != nil {
		return Stamp{}
	}
	return Stamp{size: info.Size(), modified: info.ModTime(), identity: identityOf(info)}
}

// Equal reports whether the two are of one version.
func (s Stamp) Equal(other Stamp) bool {
	return s.size == other.size && s.modified.Equal(other.modified) && s.identity == other.identity
}

// Files are some files as they were at a time. The zero value is of none. Its
// methods must not be called concurrently.
type Files struct{ stamps map[string]Stamp }

// Note remembers how a file is. Call it before reading the file, so that nothing
// is missed that comes later. An empty name is passed over.
func (f *Files) Note(name string) {
	if name == "" {
		return
	}
	if f.stamps == nil {
		f.stamps = map[string]Stamp{}
	}
	f.stamps[name] = Of(name)
}

// Changed reports whether a file that was noted is another since.
func (f *Files) Changed() bool {
	for name, stamp := range f.stamps {
		if !stamp.Equal(Of(name)) {
			return true
		}
	}
	return false
}

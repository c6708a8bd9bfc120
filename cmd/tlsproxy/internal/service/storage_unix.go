//go:build unix

package service

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
)

// storageWarning tells if certificates that an authority issues could not be kept: a
// proxy that may only read its configuration's folder has nowhere to put them.
func storageWarning(c config.ACME) []string {
	if len(c.Names) == 0 {
		return nil
	}
	folder, err := c.Storage, error(nil)
	for { // what is not there yet is made in the nearest folder that is
		err = unix.Access(folder, unix.W_OK|unix.X_OK)
		above := filepath.Dir(folder)
		if !errors.Is(err, fs.ErrNotExist) || above == folder {
			break
		}
		folder = above
	}
	if err == nil {
		return nil
	}
	return []string{fmt.Sprintf("acme.storage: this process may not write to %s (%v), and can keep no certificate; name a folder that it may write", c.Storage, err)}
}

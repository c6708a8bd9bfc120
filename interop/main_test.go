package interop

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/ctrutls/ctrutls/interop/internal/certs"
)

// scratch is the folder of everything that the tests write.
var scratch string

// pki names the certificates that all programs under test use.
var pki *certs.Files

func TestMain(m *testing.M) {
	os.Exit(withScratch(func() int {
		code := m.Run()
		if err := goleak.Find(); code == 0 && err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}))
}

func withScratch(run func() int) int {
	var err error
	if scratch, err = os.MkdirTemp("", "interop"); err == nil {
		defer os.RemoveAll(scratch)
		pki, err = certs.Write(scratch)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return run()
}

//go:build (linux || freebsd || darwin) && (amd64 || arm64)

package driver

import (
	"sync"

	"github.com/ebitengine/purego"
)

// hostFuncEntry is the C function that the driver calls for every HostFunc; its argument says which. There is one for the process,
// since callbacks are never freed.
var hostFuncEntry = sync.OnceValue(func() uintptr {
	return purego.NewCallback(func(h uintptr) uintptr {
		HostFunc(h).run()
		return 0
	})
})

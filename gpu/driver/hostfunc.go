package driver

import (
	"sync"
)

// A HostFunc is a function registered for LaunchHostFunc.
type HostFunc uintptr

var hostFuncs = struct {
	sync.RWMutex
	next HostFunc
	by   map[HostFunc]func()
}{by: make(map[HostFunc]func())}

// RegisterHostFunc makes fn known under a handle that can be launched any number of times, without an allocation
// each. Release it when no launch of it is left.
func RegisterHostFunc(fn func()) HostFunc {
	hostFuncs.Lock()
	defer hostFuncs.Unlock()
	hostFuncs.next++
	hostFuncs.by[hostFuncs.next] = fn
	return hostFuncs.next
}

// Release forgets the function. A launch of it that is still under way does nothing.
func (h HostFunc) Release() {
	hostFuncs.Lock()
	defer hostFuncs.Unlock()
	delete(hostFuncs.by, h)
}

func (h HostFunc) run() {
	hostFuncs.RLock()
	fn := hostFuncs.by[h]
	hostFuncs.RUnlock()
	if fn != nil {
		fn()
	}
}

package kernels

import (
	"strconv"
	"sync"
)

// A name is what a kernel's is made of: "encaps_product", "_mma", 761.
type name struct {
	kernel, product string
	n               int
}

// names are those of all kernels that were ever planned for. Who runs batches plans many thousands a second, and is not to allocate anything for it: in a
// program that is short of processors an allocation may wait behind hundreds of others until garbage has been collected, and the batch with it.
var names = struct {
	sync.RWMutex
	made map[name]string
}{made: make(map[name]string)}

func (k name) String() string {
	names.RLock()
	made, ok := names.made[k]
	names.RUnlock()
	if ok {
		return made
	}
	names.Lock()
	defer names.Unlock()
	made = k.kernel + k.product + "_" + strconv.Itoa(k.n)
	names.made[k] = made
	return made
}

//go:build (linux || freebsd || darwin) && (amd64 || arm64)

package simctl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
)

// MaxDevices is the most devices that the simulator has.
const MaxDevices = 8

// Forever, as a count, stands for every time.
const Forever = -1

// The simulator's libraries, relative to the module's root.
const (
	shippedLibrary = "build/libcudasim.so"
	testLibrary    = "build/libcudasim-test.so"
)

// Library returns the path of the simulator with this module's kernels. The error says how to build it.
func Library() (string, error) { return find(shippedLibrary) }

// TestLibrary returns the path of the simulator with the test kernels of kernels/sim/testkernels.cu.
func TestLibrary() (string, error) { return find(testLibrary) }

// find looks for a file in the module that the working directory belongs to, where `go test` runs a test.
func find(name string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("simctl: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("simctl: the working directory is in no Go module")
		}
		dir = parent
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("simctl: %s is not built: type `make sim`", name)
	}
	return path, nil
}

// Fresh opens the simulator whose path Library or TestLibrary has returned, and puts it back to its first state:
//
//	sim, path, err := simctl.Fresh(simctl.Library())
func Fresh(path string, err error) (*Sim, string, error) {
	if err != nil {
		return nil, "", err
	}
	s, err := Open(path)
	if err != nil {
		return nil, "", err
	}
	s.Reset()
	return s, path, nil
}

// Sim is the simulator loaded from one library. Its methods may be called at any time, from any goroutine, whether or
// not the calling thread has a context. They panic on an argument that makes no sense, such as an unknown device.
type Sim struct {
	functions map[string]uintptr
}

var names = []string{
	"simReset", "simSetDeviceCount", "simSetDriverVersion", "simSetCompute", "simSetMultiprocessors", "simSetMemory", "simSetHostMemory", "simSetSeed",
	"simSetChecks", "simSetStepLimit", "simSetPageable", "simFailCall", "simCallName", "simFaultLaunch", "simHangLaunch", "simReleaseHang", "simHanging",
	"simSetLost", "simSetSticky", "simSetFaultsPermanent", "simCorruptCopy", "simClearFaults", "simHold", "simPass", "simHoldStream", "simWaitQueued", "simSetDelay", "simSetSensors", "simLastFault",
	"simGetStats",
}

// Open finds the switches in a simulator library. It does not initialise the driver.
func Open(path string) (*Sim, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("simctl: cannot load %s: %w", path, err)
	}
	s := &Sim{functions: make(map[string]uintptr)}
	for _, name := range names {
		if s.functions[name], err = purego.Dlsym(handle, name); err != nil {
			return nil, fmt.Errorf("simctl: %s is not the simulator, or an old one: it has no %s", path, name)
		}
	}
	return s, nil
}

//go:uintptrescapes
func (s *Sim) call(name string, arguments ...uintptr) int32 {
	r, _, _ := purego.SyscallN(s.functions[name], arguments...)
	return int32(r)
}

//go:uintptrescapes
func (s *Sim) must(name string, arguments ...uintptr) {
	if s.call(name, arguments...) != 0 {
		panic(fmt.Sprintf("simctl: %s: invalid argument", name))
	}
}

func flag(b bool) uintptr {
	if b {
		return 1
	}
	return 0
}

// Reset destroys all contexts and puts every setting back to what it is when the library is loaded. Nothing may be
// using the simulator.
func (s *Sim) Reset() { s.must("simReset") }

// SetDeviceCount sets the number of devices, 0 to MaxDevices.
func (s *Sim) SetDeviceCount(n int) { s.must("simSetDeviceCount", uintptr(n)) }

// SetDriverVersion sets what cuDriverGetVersion reports, 12040 for CUDA 12.4, and with it the PTX that loads.
func (s *Sim) SetDriverVersion(v int) { s.must("simSetDriverVersion", uintptr(v)) }

// SetCompute sets a device's compute capability, 9.0 at first.
func (s *Sim) SetCompute(device, major, minor int) {
	s.must("simSetCompute", uintptr(device), uintptr(major), uintptr(minor))
}

// SetMultiprocessors sets the number of multiprocessors that a device reports, 4 at first.
func (s *Sim) SetMultiprocessors(device, n int) {
	s.must("simSetMultiprocessors", uintptr(device), uintptr(n))
}

// SetMemory sets a device's memory in bytes, at first 1 GiB and at most 4 GiB. An allocation that does not fit fails.
func (s *Sim) SetMemory(device int, bytes uint64) {
	s.must("simSetMemory", uintptr(device), uintptr(bytes))
}

// SetHostMemory sets how much host memory can be pinned in bytes, at first and at most 4 GiB.
func (s *Sim) SetHostMemory(bytes uint64) { s.must("simSetHostMemory", uintptr(bytes)) }

// SetSeed chooses the order in which blocks, and the threads of a block between barriers, run. 0 is the plain ascending
// order; any other number a random one, the same each time.
func (s *Sim) SetSeed(seed uint64) { s.must("simSetSeed", uintptr(seed)) }

// Checks are the checks on kernels that can be switched.
type Checks struct {
	Races               bool // races in shared memory, and between blocks in global memory
	UninitialisedGlobal bool // reads of global memory that nothing has written
	UninitialisedShared bool // the same for shared memory, where kernels may well load slack and mask it off
}

// SetChecks switches checks; at first Races and UninitialisedGlobal are on.
func (s *Sim) SetChecks(c Checks) {
	s.must("simSetChecks", flag(c.Races), flag(c.UninitialisedGlobal), flag(c.UninitialisedShared))
}

// SetStepLimit sets the number of memory accesses after which a block is taken for one that never ends.
func (s *Sim) SetStepLimit(accesses uint64) { s.must("simSetStepLimit", uintptr(accesses)) }

// SetPageable says whether copies from and to memory that is not pinned are allowed, as they are at first.
func (s *Sim) SetPageable(allowed bool) { s.must("simSetPageable", flag(allowed)) }

// Calls returns the names that FailCall knows.
func (s *Sim) Calls() []string {
	var calls []string
	for i := 0; ; i++ {
		name := make([]byte, 64)
		if s.call("simCallName", uintptr(i), uintptr(unsafe.Pointer(&name[0])), uintptr(len(name))) != 0 {
			return calls
		}
		calls = append(calls, text(name))
	}
}

// FailCall makes calls of one function of the driver fail: after skip more calls on the device, the next count (or Forever) return code and do
// nothing. If sticky, the context is spoilt too. Calls that name no device, such as cuCtxSetCurrent, count
// on device 0.
func (s *Sim) FailCall(device int, call string, skip, count int, code int, sticky bool) {
	name := append([]byte(call), 0)
	s.must("simFailCall", uintptr(device), uintptr(unsafe.Pointer(&name[0])), uintptr(skip), uintptr(count), uintptr(code), flag(sticky))
}

// FaultLaunch makes launches fail while they run, as a kernel's own fault does: after skip more, the next count (or
// Forever) spoil their context with code.
func (s *Sim) FaultLaunch(device, skip, count, code int) {
	s.must("simFaultLaunch", uintptr(device), uintptr(skip), uintptr(count), uintptr(code))
}

// HangLaunch makes one launch, after skip more, never end, and all that start after it on the device, until ReleaseHang
// or until the context is destroyed.
func (s *Sim) HangLaunch(device, skip int) { s.must("simHangLaunch", uintptr(device), uintptr(skip)) }

// ReleaseHang lets the launches that hang go on.
func (s *Sim) ReleaseHang(device int) { s.must("simReleaseHang", uintptr(device)) }

// Hanging says whether a launch has come to hang.
func (s *Sim) Hanging(device int) bool { return s.call("simHanging", uintptr(device)) == 1 }

// Lose makes every call on the device fail with code, as when it falls off the bus; 0 brings it back.
func (s *Sim) Lose(device, code int) { s.must("simSetLost", uintptr(device), uintptr(code)) }

// Spoil puts the device's context into a sticky error, which a reset clears. If it is permanent, no context can be had
// after the reset either, until ClearFaults; so it is on an H200.
func (s *Sim) Spoil(device, code int, permanent bool) {
	s.must("simSetSticky", uintptr(device), uintptr(code), flag(permanent))
}

// SetFaultsPermanent makes all errors that kernels and copies cause permanent, in the sense of Spoil.
func (s *Sim) SetFaultsPermanent(device int, permanent bool) {
	s.must("simSetFaultsPermanent", uintptr(device), flag(permanent))
}

// CorruptCopy flips bits of copies to the host: after skip more, in the next count (or Forever), the byte at offset is
// changed by flip (exclusive or).
func (s *Sim) CorruptCopy(device, skip, count int, offset uint64, flip byte) {
	s.must("simCorruptCopy", uintptr(device), uintptr(skip), uintptr(count), uintptr(offset), uintptr(flip))
}

// ClearFaults takes back all that FailCall, FaultLaunch, HangLaunch, Lose, SetFaultsPermanent, CorruptCopy and a permanent
// Spoil have set up. A context that is spoilt stays so.
func (s *Sim) ClearFaults(device int) { s.must("simClearFaults", uintptr(device)) }

// Hold closes or opens the device's gate. While it is closed its streams take work but start none; what runs goes on to its end.
func (s *Sim) Hold(device int, held bool) { s.must("simHold", uintptr(device), flag(held)) }

// Pass lets n operations (launches, copies, events, waits) through a closed gate.
func (s *Sim) Pass(device, n int) { s.must("simPass", uintptr(device), uintptr(n)) }

// HoldStream is Hold for one stream.
func (s *Sim) HoldStream(device int, stream uintptr, held bool) {
	s.must("simHoldStream", uintptr(device), stream, flag(held))
}

// WaitQueued waits until at least n operations lie in the device's streams, not started, and says whether that came
// about in time.
func (s *Sim) WaitQueued(device, n int, timeout time.Duration) bool {
	return s.call("simWaitQueued", uintptr(device), uintptr(n), uintptr(timeout.Milliseconds())) == 0
}

// Pace makes a device slower: every launch and every copy takes at least so much longer, and then slowdown (1 or more) times as long.
type Pace struct {
	Launch, Copy time.Duration
	Slowdown     float64
}

// SetPace sets a device's pace; at first nothing is added.
func (s *Sim) SetPace(device int, p Pace) {
	percent := uintptr(100)
	if p.Slowdown > 1 {
		percent = uintptr(p.Slowdown * 100)
	}
	s.must("simSetDelay", uintptr(device), uintptr(p.Launch.Microseconds()), uintptr(p.Copy.Microseconds()), percent)
}

// SetSensors sets what NVML tells of a device: percent of the time that kernels ran, degrees Celsius, milliwatts. A negative one says that
// the device has no such sensor, as it is at first.
func (s *Sim) SetSensors(device, utilisation, temperature, power int) {
	s.must("simSetSensors", uintptr(device), uintptr(utilisation), uintptr(temperature), uintptr(power))
}

// LastFault returns the reason of the latest failure: what a kernel did, with its block and thread, or why a call was
// refused. It is empty if there was none.
func (s *Sim) LastFault() string {
	buffer := make([]byte, 1024)
	s.must("simLastFault", uintptr(unsafe.Pointer(&buffer[0])), uintptr(len(buffer)))
	return text(buffer)
}

// Stats is what exists on a device, and what has happened since the last Reset.
type Stats struct {
	Contexts                       uint64 // retains of the primary context that are not released
	Streams, Events, Modules       uint64
	DeviceAllocations, DeviceBytes uint64
	PinnedAllocations, PinnedBytes uint64 // of all devices together
	Queued                         uint64 // operations in streams, not started
	Calls, Launches, Blocks        uint64
	CopiesToDevice, BytesToDevice  uint64
	CopiesToHost, BytesToHost      uint64
	PageableCopies                 uint64 // from or to memory that is not pinned
	UninitialisedCopies            uint64 // to the host, of bytes that nothing has written
	Faults                         uint64
}

// Leaks says whether something exists that a tidy program has freed.
func (st Stats) Leaks() bool {
	return st.Contexts|st.Streams|st.Events|st.Modules|st.DeviceAllocations|st.PinnedAllocations != 0
}

// Stats returns a device's counters.
func (s *Sim) Stats(device int) Stats {
	st := new(Stats)
	s.must("simGetStats", uintptr(device), uintptr(unsafe.Pointer(st)), unsafe.Sizeof(*st))
	return *st
}

func text(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

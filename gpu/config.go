package gpu

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/ctrutls/ctrutls/gpu/driver"
)

// What Config's zero values stand for, and the most that it takes.
const (
	DefaultWorkers  = 2
	MaxWorkers      = 16
	DefaultCapacity = 1024
	MaxCapacity     = 1 << 16
	MaxBuffers      = 64
	DefaultChunk    = 1 << 15
	MaxDevices      = 64
	DefaultMaxWait  = 100 * time.Millisecond
	DefaultHang     = 10 * time.Second
	DefaultBackoff  = time.Second

	DefaultOpenTimeout = time.Minute

	// maxBackoff bounds the pause before a device is opened again.
	maxBackoff = time.Minute
)

// Config says which devices to use and how. The zero value uses all of them.
type Config struct {
	// Library is the path of CUDA's driver library; see driver.Open for what an empty one means.
	Library string
	// Driver is used in place of a library, unless it is nil.
	Driver driver.API
	// Devices are the devices to use, as CUDA numbers them; nil means all.
	Devices []int
	// Sets are the parameter sets to serve, by degree (653, 761, 1277); nil means all.
	Sets []int
	// Workers is the number of streams a device, each with an OS thread: 0 means DefaultWorkers, the most is MaxWorkers.
	Workers int
	// Capacity is the most rows of a batch: 0 means DefaultCapacity, the most is MaxCapacity.
	Capacity int
	// Buffers is the number of batches that a device has memory for, those being filled, run and read out together: at least 2 a worker, at most
	// MaxBuffers. 0 means four a worker and two more: a batch whose results are there keeps its
	// memory until the last of its callers has been given a processor. Each takes Capacity rows of pinned memory, of up to 4,488 bytes, and 64 bytes of Go's a row.
	Buffers int
	// Chunk is the most rows of a Job that are copied and computed at once: 0 means DefaultChunk, the most is MaxCapacity. A device
	// that runs Jobs takes memory for five chunks.
	Chunk int
	// OneStream has the two halves of exchanges run one after the other instead of side by side, and CopyExchanges has small batches of
	// ServerExchange copied to the device instead of having their kernels reach for the host's memory, as those of Encaps do: ways to measure by.
	OneStream, CopyExchanges bool
	// RingStreams has each of the five chunks of a Job that are under way copied in, computed, copied out and wiped in one stream of its own, instead of
	// in separate streams for the copies in, the kernels, the copies out and the wiping: a way to measure by.
	RingStreams bool
	// Sign has the devices ready for signatures; see Engine.SigningKind.
	Sign bool
	// MaxWait bounds how long a row waits for its result; 0 means DefaultMaxWait.
	MaxWait time.Duration
	// Hang is how long a batch may run, and an eighth of it how much longer, before its device counts as hung; 0 means DefaultHang. Its callers are
	// gone after MaxWait, and the device gets no others meanwhile, so it may be long; it has to be longer than this process may be kept waiting for a
	// processor or for its garbage to be collected.
	Hang time.Duration
	// OpenTimeout bounds how long a device may take to open, in which the driver compiles kernels, for tens of milliseconds each where it has
	// not kept them from before; 0 means DefaultOpenTimeout. Open fails then, and a device that is opened again stays closed: the driver is taken to hang.
	OpenTimeout time.Duration
	// Backoff is the pause before a device that failed is opened again, doubled with each failure up to a minute (and
	// never less than it); 0 means DefaultBackoff.
	Backoff time.Duration
	// Probes are run on every device before it serves; one whose results differ is refused.
	Probes []Probe
	// Logger is told of each change in a device's state. Nil means slog.Default().
	Logger *slog.Logger
}

// A Probe is an operation with a known result.
type Probe struct {
	Set       int // not for Sign
	Operation Operation
	Key       SigningKey // for Sign
	Input     []byte     // one row
	Output    []byte
}

// ready returns c with defaults filled in, or an error that names the field at fault.
func (c Config) ready() (Config, error) {
	if c.Sets == nil {
		c.Sets = []int{653, 761, 1277}
	}
	if len(c.Sets) == 0 {
		return c, fmt.Errorf("%w: Sets is empty; nil means all", ErrConfig)
	}
	if c.Devices != nil && len(c.Devices) == 0 {
		return c, fmt.Errorf("%w: Devices is empty; nil means all", ErrConfig)
	}
	for i, d := range c.Devices {
		if d < 0 || slices.Contains(c.Devices[:i], d) {
			return c, fmt.Errorf("%w: Devices names device %d twice, or a number below 0", ErrConfig, d)
		}
	}
	for _, n := range []struct {
		name        string
		value       *int
		none, least int
		most        int
	}{
		{"Workers", &c.Workers, DefaultWorkers, 1, MaxWorkers},
		{"Capacity", &c.Capacity, DefaultCapacity, 1, MaxCapacity},
		{"Chunk", &c.Chunk, DefaultChunk, 1, MaxCapacity},
		{"Buffers", &c.Buffers, 0, 0, MaxBuffers},
	} {
		if n.name == "Buffers" { // Workers is filled in by now
			n.none, n.least = 4*c.Workers+2, 2*c.Workers
		}
		if *n.value == 0 {
			*n.value = n.none
		}
		if *n.value < n.least || *n.value > n.most {
			return c, fmt.Errorf("%w: %s is %d; it must be from %d to %d", ErrConfig, n.name, *n.value, n.least, n.most)
		}
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		none  time.Duration
	}{
		{"MaxWait", &c.MaxWait, DefaultMaxWait},
		{"Hang", &c.Hang, DefaultHang},
		{"OpenTimeout", &c.OpenTimeout, DefaultOpenTimeout},
		{"Backoff", &c.Backoff, DefaultBackoff},
	} {
		if *d.value == 0 {
			*d.value = d.none
		}
		if *d.value < 0 {
			return c, fmt.Errorf("%w: %s is %v; it must not be negative", ErrConfig, d.name, *d.value)
		}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, nil
}

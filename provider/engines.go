package provider

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// Engine names what serves a Provider's calls.
type Engine string

const (
	// EngineAuto uses the CPU while there is little to do and GPUs when there is
	// more; the CPU alone where there is no GPU.
	EngineAuto Engine = "auto"
	// EngineCPU uses the CPU.
	EngineCPU Engine = "cpu"
	// EngineGPU uses GPUs for all that they can do. The CPU stands in while they
	// can't. Open fails where there is no GPU.
	EngineGPU Engine = "gpu"
)

// DefaultCheckEvery is the share of a GPU's results that is computed again on
// the CPU where GPU does not say: one in so many.
const DefaultCheckEvery = 1024

// GPU configures the use of GPUs. The zero value uses all that there are.
type GPU struct {
	// Library is the path of NVIDIA's driver library. Empty means the
	// environment's CTRUTLS_LIBCUDA, or else libcuda.so.1 where the system finds
	// it. It is loaded into the process: let nobody else choose it.
	Library string
	// Devices are the GPUs to use, as CUDA numbers them; nil means all.
	Devices []int
	// Schemes are the parameter sets that they serve; nil means all. The CPU
	// serves the others.
	Schemes []*ctruprime.Scheme
	// Workers is how many batches a GPU runs side by side, each with a stream and
	// an OS thread: 1 to 16; 0 means 2.
	Workers int
	// Capacity is the most operations of a batch: 1 to 65,536; 0 means 1,024.
	Capacity int
	// Buffers is how many batches there is memory for on each GPU, those that
	// fill, run and are read out together: at least 2 a worker, at most 64; 0
	// means four a worker and two more. With all parameter sets, each takes 4.5 kB
	// of pinned memory times Capacity.
	Buffers int
	// Chunk is the most rows of a Bulk that are copied and computed at once: 1 to
	// 65,536; 0 means 32,768. A GPU that runs Bulks takes memory for five chunks.
	Chunk int
	// MaxWait bounds how long an operation waits for its GPU, for room in a batch and
	// then for the batch: after that the CPU carries it out. 0 means 100 ms.
	MaxWait time.Duration
	// Hang is how long a batch may run until its GPU is reset; longer than this process
	// may be kept waiting for a processor. 0 means 10 s.
	Hang time.Duration
	// OpenTimeout is how long a GPU may take to open, the driver's compilation of
	// kernels included. 0 means 1 min.
	OpenTimeout time.Duration
	// Backoff is the pause before a GPU that failed is opened again; it doubles
	// with each failure, up to a minute. 0 means 1 s.
	Backoff time.Duration
	// Sign has GPUs make signatures too; see Provider.Signer. Opening them takes a
	// little longer then, and some memory. A GPU that serves others beside this
	// process, or whose memory others can read, is no place for a private key.
	Sign bool
	// CheckEvery has one result in so many computed again on the CPU, where a
	// difference closes the GPU for good. 0 means DefaultCheckEvery, a negative
	// value no checks.
	CheckEvery int
}

// errNoGPU is wrapped by what openGPU reports where there is nothing to open.
var errNoGPU = errors.New("provider: no GPU")

// An offload is an engine whose devices may be elsewhere: what a router needs to
// know of it.
type offload interface {
	engine
	// available says whether a device takes requests now.
	available() bool
	// latency is how long batches of the request's kind take; false if the devices
	// have no such kind.
	latency(r *request) (latency, bool)
}

// latency is how long batches take: on average, and by the number of their
// requests, n, base + n * each; and how long a request does, with what it waits for
// its batch: flight. Zeros say that none was measured.
type latency struct{ mean, base, each, flight time.Duration }

// newEngine opens the engine that cfg asks for.
func newEngine(cfg Config, log *slog.Logger) (engine, error) {
	cpu := &cpuEngine{log: log}
	switch cfg.Engine {
	case EngineCPU, "":
		return cpu, nil
	case EngineGPU:
		gpu, err := openGPU(cfg.GPU, log, cpu)
		if errors.Is(err, errConfig) {
			return nil, err
		}
		if err != nil {
			return nil, fmt.Errorf("provider: Engine is %q: %w", cfg.Engine, err)
		}
		return gpu, nil
	case EngineAuto:
		gpu, err := openGPU(cfg.GPU, log, cpu)
		switch {
		case err == nil:
			return newRouter(cpu, gpu), nil
		case errors.Is(err, errConfig):
			return nil, err
		case errors.Is(err, errNoGPU):
			log.Info("provider: the CPU serves all key exchanges", "because", err)
		default:
			log.Warn("provider: the CPU serves all key exchanges", "because", err)
		}
		return cpu, nil
	}
	return nil, fmt.Errorf("provider: Engine is %q; it must be %q, %q or %q", cfg.Engine, EngineAuto, EngineCPU, EngineGPU)
}

// errConfig is wrapped by what openGPU reports of its configuration.
var errConfig = errors.New("provider: Config.GPU")

package provider

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// BulkOperation is what a Bulk does.
type BulkOperation uint8

const (
	BulkGenerateKeys BulkOperation = iota
	BulkEncapsulate
	BulkDecapsulate
)

// The operations as requests know them.
var bulkOperations = [...]operation{BulkGenerateKeys: opGenerateKey, BulkEncapsulate: opEncapsulate, BulkDecapsulate: opDecapsulate}

// What a Bulk's Status says of a row.
const (
	BulkDone       = 0 // its output is there
	BulkInvalidKey = 1 // its key is not one that any packs to; its output is zero
)

// Bulk is one operation on millions of rows: for key pools, gateways,
// measurements. The rows lie one after another in memory of AllocPinned; with
// P, S and C the sizes of s.PublicKeySize(), PrivateKeySize() and
// CiphertextSize():
//
//	                  input row                  output row
//	BulkGenerateKeys  seed || z          64      secret key                S
//	BulkEncapsulate   public key || seed P + 32  ciphertext || shared key  C + 32
//	  with Keys       seed               32
//	BulkDecapsulate   secret key || ct   S + C   shared key                32
//	  with Keys       ciphertext         C
//
// The seeds are filled in from crypto/rand, over whatever is there, unless Seeded
// says that they are there already; then each must be uniform, secret and used
// once.
//
// The memory that holds secrets is the caller's to wipe, as Pinned.Free does.
type Bulk struct {
	Scheme    *ctruprime.Scheme
	Operation BulkOperation
	Rows      int
	Input     []byte
	Output    []byte
	Status    []byte // 4 bytes a row, a little-endian uint32: BulkDone or BulkInvalidKey
	Keys      *BulkKeys
	Index     []byte // with Keys to decapsulate by: 4 bytes a row, a little-endian uint32, which of them
	Seeded    bool
}

// InputSize returns the bytes of an input row.
func (b *Bulk) InputSize() int {
	switch s := b.Scheme; {
	case b.Operation == BulkGenerateKeys:
		return ctruprime.KeySeedSize
	case b.Operation == BulkEncapsulate && b.Keys == nil:
		return s.PublicKeySize() + ctruprime.SeedSize
	case b.Operation == BulkEncapsulate:
		return ctruprime.SeedSize
	case b.Keys == nil:
		return s.PrivateKeySize() + s.CiphertextSize()
	default:
		return s.CiphertextSize()
	}
}

// OutputSize returns the bytes of an output row.
func (b *Bulk) OutputSize() int { return outSize(bulkOperations[b.Operation], b.Scheme) }

const bulkStatusSize = 4

// seedAt returns where in an input row the seed is, of which size; 0 for none.
func (b *Bulk) seedAt() (offset, size int) {
	switch b.Operation {
	case BulkGenerateKeys:
		return 0, ctruprime.KeySeedSize
	case BulkEncapsulate:
		return b.InputSize() - ctruprime.SeedSize, ctruprime.SeedSize
	}
	return 0, 0
}

func row(rows []byte, size, i int) []byte { return rows[i*size : (i+1)*size : (i+1)*size] }

func (b *Bulk) status(i int) uint32 {
	return binary.LittleEndian.Uint32(row(b.Status, bulkStatusSize, i))
}

// check says what is wrong with b.
func (b *Bulk) check(p *Provider) error {
	if err := p.known(b.Scheme); err != nil {
		return err
	}
	if b.Operation > BulkDecapsulate || b.Rows < 1 {
		return errors.New("provider: a Bulk needs one of the BulkOperations and a row at least")
	}
	if b.Keys != nil && (b.Keys.scheme != b.Scheme || b.Keys.operation != b.Operation) {
		return errors.New("provider: a Bulk has Keys for another parameter set or operation")
	}
	index := 0
	if b.Keys != nil && b.Operation == BulkDecapsulate {
		index = bulkStatusSize
	}
	for _, f := range []struct {
		name  string
		bytes []byte
		size  int
	}{{"Input", b.Input, b.InputSize()}, {"Output", b.Output, b.OutputSize()}, {"Status", b.Status, bulkStatusSize}, {"Index", b.Index, index}} {
		if len(f.bytes) != b.Rows*f.size {
			return fmt.Errorf("provider: a Bulk's %s has %d bytes, want %d for each of %d rows", f.name, len(f.bytes), f.size, b.Rows)
		}
	}
	return nil
}

// RunBulk carries a Bulk out and returns when every row has its status. Where
// there are GPUs they do it, all of them together, and several Bulks take turns;
// rows that a GPU fails to do the others do, or the CPU. The error is about the Bulk as a
// whole, the context's cause among them, and leaves rows undone. After
// ErrMemoryLost the memory must not be touched any more.
func (p *Provider) RunBulk(ctx context.Context, b *Bulk) error {
	if err := b.check(p); err != nil {
		return err
	}
	if !p.begin() {
		return ErrClosed
	}
	defer p.end()
	s := b.newSeeder()
	defer s.stop()
	rows, err := p.engine.bulk(ctx, b, s)
	if err != nil {
		return err
	}
	n := &p.stats[b.Scheme][bulkOperations[b.Operation]]
	n.byGPU.Add(uint64(rows.byGPU))
	n.served.Add(uint64(b.Rows - rows.invalid))
	if b.Operation == BulkEncapsulate {
		n.peerFaults.Add(uint64(rows.invalid))
	} else {
		n.failures.Add(uint64(rows.invalid))
	}
	return nil
}

// bulkCounts counts rows of a Bulk that was carried out.
type bulkCounts struct {
	byGPU   int // that devices have computed
	invalid int // with BulkInvalidKey
}

// ErrMemoryLost is what RunBulk reports when a GPU hangs with a Bulk's memory in
// its hands, to which it may still write.
var ErrMemoryLost = errors.New("provider: a GPU hangs and may still write to the Bulk's memory; don't use it for anything else, and restart the process")

// Pinned is memory for Bulks: page-locked where there are GPUs. It is then not
// Go's memory.
type Pinned struct {
	// Bytes is the memory. It must not be used after Free.
	Bytes []byte
	free  func() error
}

// AllocPinned returns n > 0 bytes for Bulks, zeroed. Only Free gives them back.
// While there are any, a GPU that needs a reset after a fault stays closed, since
// a reset takes such memory away.
func (p *Provider) AllocPinned(n int) (*Pinned, error) {
	if n < 1 {
		return nil, fmt.Errorf("provider: %d bytes of pinned memory; ask for one at least", n)
	}
	if !p.begin() {
		return nil, ErrClosed
	}
	defer p.end()
	return p.engine.pin(n)
}

// Free wipes the memory and gives it back; no Bulk may be using it. Later calls
// do nothing. It may be called after the Provider's Close.
func (m *Pinned) Free() error {
	if m.Bytes == nil {
		return nil
	}
	clear(m.Bytes)
	m.Bytes = nil
	return m.free()
}

// BulkKeys are keys that many Bulks use, which lie on the GPUs meanwhile.
type BulkKeys struct {
	scheme    *ctruprime.Scheme
	operation BulkOperation
	keys      []byte
	size      int                        // of a key
	table     interface{ Close() error } // on the devices; nil without
}

// MaxBulkKeys is the most secret keys that BulkKeys can have.
const MaxBulkKeys = 1 << 19

// NewBulkKeys copies packed keys, one after another: one public key to
// encapsulate to, or up to MaxBulkKeys secret keys to decapsulate by. Whether they
// are valid the status of the rows that use them says.
func (p *Provider) NewBulkKeys(s *ctruprime.Scheme, op BulkOperation, keys []byte) (*BulkKeys, error) {
	if err := p.known(s); err != nil {
		return nil, err
	}
	k := &BulkKeys{scheme: s, operation: op}
	most := 1
	switch op {
	case BulkEncapsulate:
		k.size = s.PublicKeySize()
	case BulkDecapsulate:
		k.size, most = s.PrivateKeySize(), MaxBulkKeys
	default:
		return nil, errors.New("provider: BulkKeys are for BulkEncapsulate or BulkDecapsulate")
	}
	if n := len(keys) / k.size; len(keys)%k.size != 0 || n < 1 || n > most {
		return nil, fmt.Errorf("provider: BulkKeys have 1 to %d keys of %d bytes, not %d bytes", most, k.size, len(keys))
	}
	if !p.begin() {
		return nil, ErrClosed
	}
	defer p.end()
	k.keys = slices.Clone(keys)
	return k, p.engine.install(k)
}

// Close wipes the keys, on the GPUs too; no Bulk may be using them. Later calls do
// nothing.
func (k *BulkKeys) Close() (err error) {
	clear(k.keys)
	k.keys = nil
	if k.table != nil {
		err = k.table.Close()
		k.table = nil
	}
	return err
}

// seedBlock is how many rows' seeds are drawn at once.
const seedBlock = 1024

// A seeder fills a Bulk's seeds in from crypto/rand, on several processors, in
// the order of the rows.
type seeder struct {
	bulk    *Bulk
	blocks  []chan struct{} // each closed when its rows' seeds are there; nil: nothing to do
	next    atomic.Int64
	stopped atomic.Bool
	running sync.WaitGroup
}

func (b *Bulk) newSeeder() *seeder {
	s := &seeder{bulk: b}
	if _, size := b.seedAt(); size == 0 || b.Seeded {
		return s
	}
	s.blocks = make([]chan struct{}, (b.Rows+seedBlock-1)/seedBlock)
	for i := range s.blocks {
		s.blocks[i] = make(chan struct{})
	}
	// Not all processors: a device's thread must find one that is free when its device is.
	for range min((runtime.GOMAXPROCS(0)+1)/2, len(s.blocks)) {
		s.running.Go(s.fill)
	}
	return s
}

func (s *seeder) fill() {
	b := s.bulk
	offset, size := b.seedAt()
	seeds := make([]byte, seedBlock*size)
	defer clear(seeds)
	for i := int(s.next.Add(1)) - 1; i < len(s.blocks) && !s.stopped.Load(); i = int(s.next.Add(1)) - 1 {
		rand.Read(seeds)
		first := i * seedBlock
		for r := first; r < min(first+seedBlock, b.Rows); r++ {
			copy(row(b.Input, b.InputSize(), r)[offset:], row(seeds, size, r-first))
		}
		close(s.blocks[i])
	}
}

// await waits for the seeds of rows first to first+n-1.
func (s *seeder) await(first, n int) {
	if s.blocks == nil {
		return
	}
	for i := first / seedBlock; i <= (first+n-1)/seedBlock; i++ {
		<-s.blocks[i]
	}
}

// stop ends the work and waits for it. Nobody may be waiting for seeds.
func (s *seeder) stop() {
	s.stopped.Store(true)
	s.running.Wait()
}

// request returns a row as a request.
func (b *Bulk) request(i int) request {
	r := request{op: bulkOperations[b.Operation], scheme: b.Scheme, out: row(b.Output, b.OutputSize(), i)}
	in := row(b.Input, b.InputSize(), i)
	switch {
	case b.Operation == BulkGenerateKeys:
		r.own = in
	case b.Operation == BulkEncapsulate && b.Keys == nil:
		n := b.Scheme.PublicKeySize()
		r.peer, r.own = in[:n], in[n:]
	case b.Operation == BulkEncapsulate:
		r.peer, r.own = b.Keys.keys, in
	case b.Keys == nil:
		n := b.Scheme.PrivateKeySize()
		r.own, r.peer = in[:n], in[n:]
	default:
		key := int(binary.LittleEndian.Uint32(row(b.Index, bulkStatusSize, i)))
		if key*b.Keys.size < len(b.Keys.keys) {
			r.own = row(b.Keys.keys, b.Keys.size, key)
		}
		r.peer = in
	}
	return r
}

// bulkPiece is how many rows the CPU takes at a time.
const bulkPiece = 1024

// bulk implements engine.
func (e *cpuEngine) bulk(ctx context.Context, b *Bulk, s *seeder) (bulkCounts, error) {
	invalid, err := e.rows(ctx, b, s, func(int) bool { return true })
	return bulkCounts{invalid: invalid}, err
}

// rows carries out those rows of a Bulk that wanted names, and counts those with
// an invalid key.
func (e *cpuEngine) rows(ctx context.Context, b *Bulk, s *seeder, wanted func(i int) bool) (invalid int, err error) {
	batch, indices := make([]request, 0, bulkPiece), make([]int, 0, bulkPiece)
	for i := range b.Rows {
		if wanted(i) {
			s.await(i, 1)
			batch, indices = append(batch, b.request(i)), append(indices, i)
		}
		if len(batch) == bulkPiece || i == b.Rows-1 && len(batch) > 0 {
			e.serve(ctx, batch)
			n, err := b.finish(batch, indices)
			if err != nil {
				return 0, err
			}
			invalid += n
			batch, indices = batch[:0], indices[:0]
		}
	}
	return invalid, nil
}

// finish turns requests' errors into their rows' statuses, or into the Bulk's error,
// and counts invalid keys.
func (b *Bulk) finish(batch []request, indices []int) (invalid int, err error) {
	for j := range batch {
		status := uint32(BulkDone)
		if err := batch[j].err; err != nil {
			if !isKeyError(err) {
				return 0, err
			}
			invalid++
			status = BulkInvalidKey
			clear(batch[j].out)
		}
		binary.LittleEndian.PutUint32(row(b.Status, bulkStatusSize, indices[j]), status)
	}
	return invalid, nil
}

// isKeyError says whether an error is that of an invalid key, or of none.
func isKeyError(err error) bool {
	return errors.Is(err, ctruprime.ErrPublicKey) || errors.Is(err, ctruprime.ErrPrivateKey) || errors.Is(err, ctruprime.ErrPrivateKeySize)
}

// pin implements engine.
func (*cpuEngine) pin(n int) (*Pinned, error) {
	return &Pinned{Bytes: make([]byte, n), free: func() error { return nil }}, nil
}

// install implements engine.
func (*cpuEngine) install(*BulkKeys) error { return nil }

package kernels

import (
	"fmt"
	"math/bits"
)

// A Buffer is a piece of device memory that a plan's launches use. Its address is aligned to 256 bytes.
type Buffer uint8

const (
	Input   Buffer = iota // rows of Set.InputSize, unless Options.Input says otherwise
	Output                // rows of Set.OutputSize, in the same way
	Status                // a uint32 an operation
	Scratch               // Plan.ScratchSize bytes, wiped by the launches
	Table                 // Options.Table rows of Set.KeySize
	Index                 // with a table of secret keys, a uint32 an operation: the row of its key
)

// statusSize is the size in bytes of a status.
const statusSize = 4

// maxArgs is the most arguments a kernel takes: decaps_select's.
const maxArgs = 14

// An Arg is a kernel's argument: an address in a buffer (64 bits) or a number (32 bits).
type Arg struct {
	Pointer bool
	Buffer  Buffer
	Offset  int    // bytes into the buffer, if a pointer
	Value   uint32 // if a number
}

// A Launch is one kernel launch.
type Launch struct {
	Module Module
	Kernel string // the entry in Module
	Grid   [2]uint32
	Block  uint32 // threads
	Shared int    // dynamic shared memory a block, bytes; may be more than the 48 KiB that need no permission
	args   [maxArgs]Arg
	count  int
}

// Args returns the arguments in order.
func (l *Launch) Args() []Arg { return l.args[:l.count] }

func (l *Launch) pointer(b Buffer, offset int) *Launch {
	l.args[l.count] = Arg{Pointer: true, Buffer: b, Offset: offset}
	l.count++
	return l
}

func (l *Launch) number(v int) *Launch {
	l.args[l.count] = Arg{Value: uint32(v)}
	l.count++
	return l
}

// A Plan is a batch's launches, in order. A Plan that is filled again reuses its memory.
type Plan struct {
	Operation      Operation
	Multiplication Multiplication
	Shape          Shape
	Batch          int
	InputSize      int // bytes of the batch's input rows, and so on
	OutputSize     int
	StatusSize     int
	ScratchSize    int
	Launches       []Launch
	// Beside are launches that depend on none of Launches, nor those on them: they may run at the same time, in order among themselves.
	Beside []Launch
}

// Device is what a plan has to know of a card.
type Device struct {
	Multiprocessors int
	Shared          int // bytes of shared memory that a block may have, if it asks; 0 says no more than the 48 KiB that need no asking
}

// Options choose among the ways to run a batch. The zero value leaves every choice to Plan.
type Options struct {
	Multiplication Multiplication
	Shape          Shape
	// Table is the number of secret keys in the table from which Decaps takes them by Index, or 1 for Encaps with one public
	// key; 0 means that each input row begins with its own key.
	Table int
	// Matrix has Encaps to the one public key of a Table multiply by the paper's matrix form, eight operations a warp. It is there to be
	// compared: the form for distinct keys, the default, is faster on an H200 (docs/performance/gpu-2026-11-30.md).
	Matrix bool
	// Group is the number of keys that share an inversion, a power of two; 0 chooses.
	Group int
	// Blocks is how many blocks of the products' kernels each multiprocessor is given, at most 3; 0 chooses.
	// Fewer leave room for another stream's hashes.
	Blocks int
	// Input and Output say where the rows lie, if not one after another.
	Input, Output Place
}

// A Place is where rows lie that are parts of wider ones. The zero value stands for rows without anything before or between them.
type Place struct {
	Offset int // bytes from the beginning of the wider row
	Stride int // bytes of the wider row
}

// ready returns the place of rows of so many bytes, or says why they cannot lie there.
func (p Place) ready(what string, size int) (Place, error) {
	if p == (Place{}) {
		p.Stride = size
	}
	if p.Offset < 0 || p.Offset+size > p.Stride {
		return p, fmt.Errorf("kernels: %s rows of %d bytes do not lie at %d in rows of %d", what, size, p.Offset, p.Stride)
	}
	return p, nil
}

// MaxBatch is the most operations a plan can have. It keeps every size in bytes below 2^31.
const MaxBatch = 1 << 19

const (
	warpSize      = 32
	productWarps  = 4 // of a block whose warps multiply on their own
	productBlocks = 3 // that a multiprocessor's registers hold
	// Below so many operations a multiprocessor, a block an operation is done soonest, and then hashes a warp a state: six times as
	// much work as a thread a state, but four times as fast while the card is not full. Measured on an H200
	// (docs/performance/gpu-2026-11-30.md).
	oneEncaps     = 12
	oneDecaps     = 4
	warpHashBatch = 10
	// From so many operations a multiprocessor on, Decaps's rejected keys are made beside the first products or, where blocks cannot
	// have the shared memory for that, in a launch of their own. With fewer, the two hashes are sooner done side by side.
	manyDecaps = 96
)

// Plan fills p with the launches that run n operations, or says what cannot be.
func (s *Set) Plan(p *Plan, op Operation, n int, dev Device, o Options) error {
	if n < 1 || n > MaxBatch {
		return fmt.Errorf("kernels: a batch has 1 to %d operations, not %d", MaxBatch, n)
	}
	if dev.Multiprocessors < 1 {
		return fmt.Errorf("kernels: a device has at least one multiprocessor, not %d", dev.Multiprocessors)
	}
	if most := map[Operation]int{Encaps: 1, Decaps: MaxBatch}[op]; o.Table < 0 || o.Table > most {
		return fmt.Errorf("kernels: a table for %s has at most %d keys, not %d", op, most, o.Table)
	}
	if o.Group < 0 || o.Group == 1 || o.Group&(o.Group-1) != 0 || o.Group > maxGroup {
		return fmt.Errorf("kernels: %d keys cannot share an inversion: a group is a power of two from 2 to %d", o.Group, maxGroup)
	}
	if o.Blocks < 0 || o.Blocks > productBlocks {
		return fmt.Errorf("kernels: a multiprocessor holds at most %d blocks of products, not %d", productBlocks, o.Blocks)
	}
	if o.Blocks == 0 {
		o.Blocks = productBlocks
	}
	if o.Multiplication == DefaultMultiplication {
		o.Multiplication = MMA
	}
	if o.Shape == DefaultShape {
		o.Shape = defaultShape(op, n, dev, o.Multiplication)
		if o.Matrix && o.Shape == One {
			o.Shape = SplitWarp
		}
	}
	if o.Matrix && (op != Encaps || o.Table != 1 || o.Multiplication != MMA || o.Shape == One) {
		return fmt.Errorf("kernels: the matrix form is for encaps with a table of one key, multiplication mma, in launches of its own")
	}
	if o.Multiplication != MMA && o.Shape == One {
		return fmt.Errorf("kernels: shape %s is for multiplication mma only, not %s", o.Shape, o.Multiplication)
	}
	if op == KeyGen && o.Shape == One {
		return fmt.Errorf("kernels: keygen has no shape %s", o.Shape)
	}
	var err error
	if o.Input, err = o.Input.ready("input", s.InputSize(op, o.Table > 0)); err != nil {
		return err
	}
	if o.Output, err = o.Output.ready("output", s.OutputSize(op)); err != nil {
		return err
	}
	*p = Plan{
		Operation:      op,
		Multiplication: o.Multiplication,
		Shape:          o.Shape,
		Batch:          n,
		InputSize:      n * o.Input.Stride,
		OutputSize:     n * o.Output.Stride,
		StatusSize:     statusSize * n,
		Launches:       p.Launches[:0],
		Beside:         p.Beside[:0],
	}
	b := builder{set: s, plan: p, dev: dev, options: o}
	switch op {
	case Encaps:
		b.encaps()
	case Decaps:
		b.decaps()
	case KeyGen:
		b.keygen()
	default:
		return fmt.Errorf("kernels: there is no operation %s", op)
	}
	return nil
}

// defaultShape chooses by the batch's size.
func defaultShape(op Operation, n int, dev Device, mul Multiplication) Shape {
	each := n / dev.Multiprocessors
	switch {
	case mul == MMA && each < map[Operation]int{Encaps: oneEncaps, Decaps: oneDecaps}[op]:
		return One
	case each < warpHashBatch:
		return SplitWarp
	default:
		return Split
	}
}

// builder appends a plan's launches.
type builder struct {
	set     *Set
	plan    *Plan
	dev     Device
	options Options
}

// scratch reserves bytes of scratch memory, and returns their offset.
func (b *builder) scratch(bytes int) int {
	const align = 256 // of allocations, so also of what lies in them
	at := b.plan.ScratchSize
	b.plan.ScratchSize = (at + bytes + align - 1) &^ (align - 1)
	return at
}

// launch appends a launch of a kernel of the base module. The pointer is good until the next one is appended.
func (b *builder) launch(kernel string, grid [2]uint32, block, shared int) *Launch {
	return b.launchBy("", kernel, grid, block, shared)
}

// launchBy is launch for a kernel whose name says by which product it works.
func (b *builder) launchBy(product, kernel string, grid [2]uint32, block, shared int) *Launch {
	b.plan.Launches = append(b.plan.Launches, Launch{
		Module: Module{N: b.set.n, Multiplication: MMA},
		Kernel: name{kernel, product, b.set.n}.String(),
		Grid:   grid,
		Block:  uint32(block),
		Shared: shared,
	})
	return &b.plan.Launches[len(b.plan.Launches)-1]
}

// hash appends a launch for n operations, one a thread, in as small blocks as give every multiprocessor some.
func (b *builder) hash(kernel string, n int, rows uint32) *Launch {
	block := 4 * warpSize
	for block > warpSize && n < block*b.dev.Multiprocessors {
		block /= 2
	}
	return b.launch(kernel, [2]uint32{uint32(ceilDiv(n, block)), rows}, block, 0)
}

// product appends a launch for n products; warpShared is a warp's shared memory with the Tensor Cores.
func (b *builder) product(kernel string, n, warpShared int) *Launch {
	s := b.set
	switch b.options.Multiplication {
	case NTT:
		return b.blocks("_ntt", kernel, n, s.nttThreads, s.nttBlock)
	case Tiled:
		return b.blocks("_tiled", kernel, n, s.tiledThreads, s.tiledBlock)
	}
	warps := b.productWarps(n)
	grid := min(ceilDiv(n, warps), b.dev.Multiprocessors*b.options.Blocks*productWarps/warps)
	return b.launchBy("_mma", kernel, [2]uint32{uint32(grid), 1}, warps*warpSize, warps*warpShared)
}

// productWarps returns the warps of a block for n products: fewer while there are multiprocessors without work.
func (b *builder) productWarps(n int) int {
	warps := productWarps
	for warps > 1 && n < warps*b.dev.Multiprocessors*b.options.Blocks {
		warps /= 2
	}
	return warps
}

// blocks appends a launch for n products of a block each. The grid is bounded: blocks take several.
func (b *builder) blocks(product, kernel string, n, threads, shared int) *Launch {
	const resident = 12 // blocks of a multiprocessor at most, by threads
	l := b.launchBy(product, kernel, [2]uint32{uint32(min(n, b.dev.Multiprocessors*resident)), 1}, threads, shared)
	l.Module.Multiplication = b.options.Multiplication
	return l
}

// rows are the scratch arrays of Encaps and Decaps.
type rows struct{ messages, coins, keys, rejects int }

func (b *builder) rows(n int, rejects bool) rows {
	s := b.set
	r := rows{messages: b.scratch(n * s.messageRow), coins: b.scratch(n * s.coinRow), keys: b.scratch(n * SeedSize)}
	if rejects {
		r.rejects = b.scratch(n * SeedSize)
	}
	return r
}

// input appends where a part of the input rows lies, so many bytes into each.
func (b *builder) input(l *Launch, offset int) *Launch {
	return l.pointer(Input, b.options.Input.Offset+offset).number(b.options.Input.Stride)
}

// output appends where the output rows and the statuses lie.
func (b *builder) output(l *Launch) *Launch {
	return l.pointer(Output, b.options.Output.Offset).number(b.options.Output.Stride).pointer(Status, 0)
}

func (l *Launch) scratch(r rows) *Launch {
	return l.pointer(Scratch, r.messages).pointer(Scratch, r.coins).pointer(Scratch, r.keys)
}

// public appends where Encaps's public keys lie, and seeds where its seeds do.
func (b *builder) public(l *Launch) *Launch {
	if b.options.Table > 0 {
		return l.pointer(Table, 0).number(0)
	}
	return b.input(l, 0)
}

func (b *builder) seeds(l *Launch) *Launch {
	if b.options.Table > 0 {
		return b.input(l, 0)
	}
	return b.input(l, b.set.public)
}

func (b *builder) encaps() {
	s, n := b.set, b.plan.Batch
	switch b.plan.Shape {
	case One:
		b.output(b.seeds(b.public(b.launch("encaps_one", [2]uint32{uint32(n), 1}, 4*warpSize, s.encapsOne))))
	default:
		r := b.rows(n, false)
		var hash *Launch
		if b.plan.Shape == SplitWarp {
			hash = b.launch("encaps_hash_warp", [2]uint32{uint32(n), 1}, warpSize, 0)
		} else {
			hash = b.hash("encaps_hash", n, 1)
		}
		b.seeds(b.public(hash)).scratch(r).number(n)
		if b.options.Matrix {
			b.output(b.sharedKey(n).pointer(Table, 0).scratch(r)).number(n)
			return
		}
		b.output(b.public(b.product("encaps_product", n, s.encryptor)).scratch(r)).number(n)
	}
}

// sharedKey appends a launch for n products by one public key, eight a warp.
func (b *builder) sharedKey(n int) *Launch {
	const operations = 8
	tasks := ceilDiv(n, operations)
	warps := b.productWarps(tasks)
	grid := min(ceilDiv(tasks, warps), b.dev.Multiprocessors*b.options.Blocks*productWarps/warps)
	return b.launch("encaps_shared", [2]uint32{uint32(grid), 1}, warps*warpSize, b.set.sharedKeyMatrix+warps*b.set.sharedKeyWarp)
}

// secrets appends what Decaps's kernels begin with: where secret keys and ciphertexts lie.
func (b *builder) secrets(l *Launch) *Launch {
	s := b.set
	if b.options.Table > 0 {
		return b.input(l.pointer(Table, 0).number(s.secret).pointer(Index, 0).number(b.options.Table), 0)
	}
	return b.input(b.input(l, 0).pointer(Input, 0).number(0), s.secret)
}

func (b *builder) decaps() {
	s, n := b.set, b.plan.Batch
	switch b.plan.Shape {
	case One:
		b.output(b.secrets(b.launch("decaps_one", [2]uint32{uint32(n), 1}, 5*warpSize, s.decapsOne)))
	default:
		r := b.rows(n, true)
		b.decapsHashes(r, b.decapsOpen(r))
		b.output(b.secrets(b.product("decaps_select", n, s.selector)).scratch(r).pointer(Scratch, r.rejects)).number(n)
	}
}

// decapsOpen appends Decaps's first step, and says whether it makes the rejected keys too: a block does that which fills a
// multiprocessor, if it can have the shared memory.
func (b *builder) decapsOpen(r rows) (rejects bool) {
	const warps = productWarps * productBlocks
	s, n := b.set, b.plan.Batch
	if b.plan.Multiplication != MMA || b.plan.Shape != Split || b.options.Blocks < productBlocks || n < manyDecaps*b.dev.Multiprocessors || warps*s.decryptor > b.dev.Shared {
		b.secrets(b.product("decaps_decrypt", n, s.decryptor)).pointer(Scratch, r.messages).pointer(Status, 0).number(n)
		return false
	}
	open := b.launch("decaps_open", [2]uint32{uint32(b.dev.Multiprocessors), 1}, warps*warpSize, warps*s.decryptor)
	b.secrets(open).pointer(Scratch, r.messages).pointer(Scratch, r.rejects).pointer(Status, 0).number(n)
	return true
}

// decapsHashes appends Decaps's second step: K' with the coins, and the rejected key unless it is made.
func (b *builder) decapsHashes(r rows, made bool) {
	n := b.plan.Batch
	hash := func(l *Launch) *Launch { return b.secrets(l).scratch(r).pointer(Scratch, r.rejects).number(n) }
	const first = 0 // of the rows of blocks: 0 for K', 1 for the rejected key
	switch {
	case made:
		hash(b.hash("decaps_hash", n, 1)).number(first)
	case b.plan.Shape == SplitWarp:
		hash(b.launch("decaps_hash_warp", [2]uint32{uint32(n), 2}, warpSize, 0))
	case n < manyDecaps*b.dev.Multiprocessors:
		hash(b.hash("decaps_hash", n, 2)).number(first)
	default:
		hash(b.hash("decaps_hash", n, 1)).number(first + 1)
		hash(b.hash("decaps_hash", n, 1)).number(first)
	}
}

const (
	maxLevels = 10
	maxGroup  = 1 << maxLevels
	// An inversion takes as long as about a hundred keys' products on the multiprocessor it runs on, and a card has many:
	// groups are as large as leave each multiprocessor an inversion of its own.
	minGroup = 2
)

// group returns how many keys share an inversion: a power of two, such that there is about one group a multiprocessor.
func (b *builder) group() int {
	if b.options.Group != 0 {
		return b.options.Group
	}
	each := max(b.plan.Batch/b.dev.Multiprocessors, 1)
	return min(max(1<<bits.Len(uint(each-1)), minGroup), maxGroup)
}

func (b *builder) keygen() {
	s, n, group := b.set, b.plan.Batch, b.group()
	levels := bits.Len(uint(group)) - 1
	padded := ceilDiv(n, group) * group // operations past n count as f = 1
	coins := b.scratch(n * s.keyCoinRow)
	var level [maxLevels + 1]int // offset of level t, which has padded >> t rows
	for t := 1; t <= levels; t++ {
		level[t] = b.scratch(padded >> t * s.residueRow)
	}
	if b.plan.Shape == SplitWarp {
		b.input(b.launch("keygen_hash_warp", [2]uint32{uint32(n), 1}, warpSize, 0), 0).pointer(Scratch, coins).number(n)
	} else {
		b.input(b.hash("keygen_hash", n, 1), 0).pointer(Scratch, coins).number(n)
	}
	b.product("keygen_pairs", padded/2, s.keyPairs).pointer(Scratch, coins).pointer(Scratch, level[1]).number(padded / 2).number(n)
	for t := 2; t <= levels; t++ {
		b.product("keygen_up", padded>>t, s.keyUp).pointer(Scratch, level[t-1]).pointer(Scratch, level[t]).number(padded >> t)
	}
	b.launch("keygen_inverse", [2]uint32{uint32(padded >> levels), 1}, s.inversionThreads, 0).pointer(Scratch, level[levels])
	for t := levels; t >= 2; t-- {
		b.product("keygen_down", padded>>t, s.keyDown).pointer(Scratch, level[t]).pointer(Scratch, level[t-1]).number(padded >> t)
	}
	b.output(b.input(b.product("keygen_finish", ceilDiv(n, 2), s.keyFinish), 0).pointer(Scratch, coins).pointer(Scratch, level[1])).number(n)
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

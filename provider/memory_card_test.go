//go:build (sim || gputest) && linux && !nogpu

package provider

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/internal/bench"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

// A usage is what the process holds at a moment, and how much it has done by then.
// Sizes are in bytes.
type usage struct {
	resident, heap, device          int
	goroutines, threads, open, done int

	pause time.Duration // the longest since the sample before
}

// A held is one thing of a usage, and by how much more of it there may be at the end
// of a long run: a share, or so much, whichever is more.
type held struct {
	name  string
	of    func(u *usage) int
	share float64
	slack int
}

// What a long run must not hold more and more of. The collector, the scheduler and
// CUDA, which loads a kernel with its first launch, have some play; what each of many
// thousands of operations left behind would be far beyond it.
var allHeld = []held{
	{"resident", func(u *usage) int { return u.resident }, 0.05, 16 << 20},
	{"heap", func(u *usage) int { return u.heap }, 0.05, 16 << 20},
	{"device", func(u *usage) int { return u.device }, 0, 8 << 20},
	{"goroutines", func(u *usage) int { return u.goroutines }, 0, 8},
	{"threads", func(u *usage) int { return u.threads }, 0, 8},
	{"descriptors", func(u *usage) int { return u.open }, 0, 4},
}

// growth says what there is more of in the last quarter of the samples than in the
// second: of the least of each, since what is held for a moment is no leak.
func growth(samples []usage) (grown []string) {
	quarter := len(samples) / 4
	for _, h := range allHeld {
		least := func(part []usage) int {
			low := h.of(&part[0])
			for i := range part {
				low = min(low, h.of(&part[i]))
			}
			return low
		}
		before, after := least(samples[quarter:2*quarter]), least(samples[len(samples)-quarter:])
		if after-before > max(int(h.share*float64(before)), h.slack) {
			grown = append(grown, fmt.Sprintf("%s: %d, and %d in the end", h.name, before, after))
		}
	}
	return grown
}

// TestGrowth: what grows is found, and what comes and goes is not.
func TestGrowth(t *testing.T) {
	steady := func(i int) usage {
		spike := i % 3 / 2
		return usage{resident: 200<<20 + spike<<26, heap: 50<<20 + spike<<25, device: 1<<30 + spike<<25,
			goroutines: 300 + 100*spike, threads: 20 + 20*spike, open: 9 + 9*spike, done: i}
	}
	for name, leak := range map[string]func(u *usage, i int){
		"":            func(*usage, int) {},
		"resident":    func(u *usage, i int) { u.resident += i << 20 * 2 },
		"heap":        func(u *usage, i int) { u.heap += i << 20 * 2 },
		"device":      func(u *usage, i int) { u.device += i << 20 },
		"goroutines":  func(u *usage, i int) { u.goroutines += i },
		"threads":     func(u *usage, i int) { u.threads += i },
		"descriptors": func(u *usage, i int) { u.open += i },
	} {
		samples := make([]usage, memorySamples)
		for i := range samples {
			samples[i] = steady(i)
			leak(&samples[i], i)
		}
		got := growth(samples)
		if name == "" && got != nil || name != "" && (len(got) != 1 || !strings.HasPrefix(got[0], name+":")) {
			t.Errorf("a leak of %q: found %q", name, got)
		}
	}
}

const memorySamples = 24

// TestCardMemory looks at what the process and the device hold over a long mixed load,
// -card.soak: exchanges of all sets by many callers, Bulks of all operations of one,
// and signatures. None of it may grow.
func TestCardMemory(t *testing.T) {
	cfg := cardConfig(t)
	cfg.GPU.Sign = true
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	p := openTest(t, cfg)
	w := watch(t, p)
	defer w.end()
	l := &mixedLoad{t: t, p: p, schemes: cardSchemes(cfg)}
	l.start(onCardElse(256, 4), onCardElse(16, 1), onCardElse(200_000, 2))
	defer l.end()

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	card, err := bench.OpenCard(cfg.GPU.Library, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := card.Close(); err != nil {
			t.Error(err)
		}
	}()
	await(t, "every kind of work has been done", func() bool { return t.Failed() || l.warm() })
	var samples []usage
	for range memorySamples {
		before := l.done()
		time.Sleep(*cardSoak / memorySamples)
		await(t, "something has been done", func() bool { return t.Failed() || l.done() > before })
		samples = append(samples, use(t, card, l))
		samples[len(samples)-1].pause = w.longest()
	}
	l.end()
	w.end()
	t.Logf("%12s %12s %12s %10s %8s %11s %12s %12s", "resident", "heap", "device", "goroutines", "threads", "descriptors", "operations", "pause")
	for _, u := range samples {
		t.Logf("%12d %12d %12d %10d %8d %11d %12d %12v", u.resident, u.heap, u.device, u.goroutines, u.threads, u.open, u.done, u.pause.Round(time.Millisecond))
	}
	st := p.Stats().GPU
	t.Logf("%d exchanges, %d signatures, %d rows of Bulks; by the device %d calls, %d late", l.exchanges.Load(), l.signatures.Load(), l.bulkRows.Load(), st.Served, st.Late)
	for _, g := range growth(samples) {
		t.Error(g)
	}
	if st.Mismatches != 0 || st.Faulted != 0 {
		t.Errorf("%+v", st)
	}
}

// use looks at what there is, once the garbage is gone.
func use(t *testing.T, card *bench.Card, l *mixedLoad) usage {
	t.Helper()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	free, total, err := card.API.MemInfo()
	if err != nil {
		t.Fatal(err)
	}
	return usage{resident: resident(t), heap: int(m.HeapAlloc), device: int(total - free), goroutines: runtime.NumGoroutine(),
		threads: entries(t, "/proc/self/task"), open: entries(t, "/proc/self/fd"), done: l.done()}
}

// A watcher tells when the machine lets the process wait, and what everybody does when
// a device stands still.
type watcher struct {
	stop    chan struct{}
	once    sync.Once
	done    sync.WaitGroup
	pause   atomic.Int64 // the longest
	stacked bool
}

const (
	watchEvery = 20 * time.Millisecond
	standstill = 500 * time.Millisecond
)

func watch(t *testing.T, p *Provider) *watcher {
	w := &watcher{stop: make(chan struct{})}
	w.done.Go(func() {
		ticks := time.NewTicker(watchEvery)
		defer ticks.Stop()
		e := p.engine.(*gpuEngine)
		served := time.Now() // when a device took requests last
		for last := served; ; {
			select {
			case <-ticks.C:
			case <-w.stop:
				return
			}
			pause := time.Since(last)
			last = time.Now()
			if pause > time.Duration(w.pause.Load()) {
				w.pause.Store(int64(pause))
			}
			if e.available() {
				served = last
			} else if still := last.Sub(served); still > standstill && !w.stacked {
				w.stacked = true
				stacks := make([]byte, 1<<20)
				t.Logf("no device has taken anything for %v, after a pause of %v:\n%s", still, pause, stacks[:runtime.Stack(stacks, true)])
			}
		}
	})
	return w
}

func (w *watcher) longest() time.Duration { return time.Duration(w.pause.Swap(0)) }

func (w *watcher) end() {
	w.once.Do(func() { close(w.stop) })
	w.done.Wait()
}

// resident returns the bytes of this process that are in memory.
func resident(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// entries returns how many there are in a folder.
func entries(t *testing.T, folder string) int {
	t.Helper()
	all, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// A mixedLoad is all that a Provider does, at once and without a pause, and checked.
type mixedLoad struct {
	t                               *testing.T
	p                               *Provider
	schemes                         []*ctruprime.Scheme
	stop                            atomic.Bool
	work                            sync.WaitGroup
	exchanges, signatures, bulkRows atomic.Int64
}

func (l *mixedLoad) done() int {
	return int(l.exchanges.Load() + l.signatures.Load() + l.bulkRows.Load())
}

// warm says whether what is made once has been made: a round of Bulks is the longest
// of all that is done.
func (l *mixedLoad) warm() bool {
	return l.exchanges.Load() >= int64(len(l.schemes)) && l.signatures.Load() > 0 && l.bulkRows.Load() > 0
}

func (l *mixedLoad) start(callers, signers, rows int) {
	bulks := l.newBulks(rows)
	var clients []client
	for _, s := range l.schemes {
		clients = append(clients, ownClient(l.t, s))
	}
	for i := range callers {
		l.repeat(func() error { i++; return l.exchange(l.schemes[i%len(l.schemes)], clients[i%len(l.schemes)]) })
	}
	key := p256Key(l.t)
	signer := newSigner(l.t, l.p, key)
	for range signers {
		l.repeat(func() error { return l.sign(signer, &key.PublicKey) })
	}
	l.repeat(bulks.round)
}

// repeat has a goroutine do the same until the load ends, or it fails.
func (l *mixedLoad) repeat(what func() error) {
	l.work.Go(func() {
		for !l.stop.Load() {
			if err := what(); err != nil {
				l.t.Error(err)
				return
			}
		}
	})
}

// end returns when all that is under way is done.
func (l *mixedLoad) end() {
	l.stop.Store(true)
	l.work.Wait()
}

func (l *mixedLoad) exchange(s *ctruprime.Scheme, c client) error {
	ctx, cancel := context.WithCancel(context.Background()) // as a handshake's
	defer cancel()
	share, secret, err := l.p.ServerExchange(ctx, s, c.share)
	if err != nil {
		return err
	}
	got, err := l.p.ClientFinish(ctx, s, c.x, c.sk, share)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, secret) {
		return fmt.Errorf("an exchange of %s: the two sides differ", s.Name())
	}
	l.exchanges.Add(1)
	return nil
}

func (l *mixedLoad) sign(signer *Signer, key *ecdsa.PublicKey) error {
	digest := random(digestSize)
	signature, err := signer.Sign(rand.Reader, digest, crypto.SHA256)
	if err != nil {
		return err
	}
	if !ecdsa.VerifyASN1(key, digest, signature) {
		return fmt.Errorf("digest %x: %x is no signature", digest, signature)
	}
	l.signatures.Add(1)
	return nil
}

// bulkLoad is Bulks of the three operations of a set, each of which has its input from
// the ones before.
type bulkLoad struct {
	*mixedLoad
	scheme             *ctruprime.Scheme
	generate, enc, dec *Bulk
}

func (l *mixedLoad) newBulks(rows int) *bulkLoad {
	s := l.schemes[len(l.schemes)/2]
	return &bulkLoad{l, s, newBulk(l.t, l.p, s, BulkGenerateKeys, rows, nil), newBulk(l.t, l.p, s, BulkEncapsulate, rows, nil), newBulk(l.t, l.p, s, BulkDecapsulate, rows, nil)}
}

// round makes keys, encapsulates to them and decapsulates, in memory that stays, then
// once more by keys that are installed, in memory that goes.
func (l *bulkLoad) round() error {
	ctx := context.Background()
	if err := l.p.RunBulk(ctx, l.generate); err != nil {
		return err
	}
	secrets := func(i int) []byte { return row(l.generate.Output, l.generate.OutputSize(), i) }
	outputs := func(i int) []byte { return row(l.enc.Output, l.enc.OutputSize(), i) }
	for i := range l.enc.Rows {
		copy(row(l.enc.Input, l.enc.InputSize(), i), l.scheme.PublicKeyOf(secrets(i)))
	}
	if err := l.p.RunBulk(ctx, l.enc); err != nil {
		return err
	}
	for i := range l.dec.Rows {
		in := row(l.dec.Input, l.dec.InputSize(), i)
		copy(in[copy(in, secrets(i)):], outputs(i)[:l.scheme.CiphertextSize()])
	}
	if err := l.p.RunBulk(ctx, l.dec); err != nil {
		return err
	}
	for i := range l.dec.Rows {
		if l.dec.status(i) != BulkDone || !bytes.Equal(row(l.dec.Output, 32, i), outputs(i)[l.scheme.CiphertextSize():]) {
			return fmt.Errorf("decapsulation %d: status %d, or a wrong key", i, l.dec.status(i))
		}
	}
	if err := l.installed(secrets(0)); err != nil {
		return err
	}
	l.bulkRows.Add(int64(3*l.dec.Rows + 1))
	return nil
}

// installed encapsulates to one key, in memory of its own.
func (l *bulkLoad) installed(sk []byte) (err error) {
	keys, err := l.p.NewBulkKeys(l.scheme, BulkEncapsulate, l.scheme.PublicKeyOf(sk))
	if err != nil {
		return err
	}
	b := &Bulk{Scheme: l.scheme, Operation: BulkEncapsulate, Rows: 1, Keys: keys}
	sizes := []int{b.InputSize(), b.OutputSize(), 4}
	memory, err := l.p.AllocPinned(sizes[0] + sizes[1] + sizes[2])
	if err != nil {
		return err
	}
	b.Input, b.Output, b.Status = memory.Bytes[:sizes[0]], memory.Bytes[sizes[0]:][:sizes[1]], memory.Bytes[sizes[0]+sizes[1]:]
	if err := l.p.RunBulk(context.Background(), b); err != nil {
		return err
	}
	ss := make([]byte, 32)
	if err := l.scheme.DecapsulateBytes(ss, sk, b.Output[:l.scheme.CiphertextSize()]); err != nil {
		return err
	}
	if !slices.Equal(ss, b.Output[l.scheme.CiphertextSize():]) {
		return fmt.Errorf("an encapsulation to an installed key gave a wrong secret")
	}
	if err := keys.Close(); err != nil {
		return err
	}
	return memory.Free()
}

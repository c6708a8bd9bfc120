//go:build sim

package bench_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/ctrutls/ctrutls/gpu/driver"
	"github.com/ctrutls/ctrutls/internal/bench"
	"github.com/ctrutls/ctrutls/kernels"
	"github.com/ctrutls/ctrutls/kernels/sim/simctl"
)

// The measurements run on the simulator, check their results there, and leave nothing behind. What they measure is not looked at.
func TestMeasurements(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	sim, path, err := simctl.Fresh(simctl.Library())
	check(err)
	card, err := bench.OpenCard(path, 0)
	check(err)
	set, err := kernels.NewSet(761)
	check(err)
	for op, table := range map[kernels.Operation]int{kernels.Encaps: 0, kernels.Decaps: 3} {
		k, err := bench.NewCase(set, op, 4, bench.CaseOptions{Table: table}, 1)
		check(err)
		for _, copies := range []bool{true, false} {
			o := bench.EndToEndOptions{Options: kernels.Options{Shape: kernels.One, Table: table}, Chunk: 8, Rings: 2, Copies: copies}
			if rate, err := card.EndToEnd(k, 1, o); err != nil || rate <= 0 {
				t.Fatal(rate, err)
			}
		}
		if d, name, err := card.Resident(k, 4, kernels.Options{Shape: kernels.Split, Table: table}, 0, 0); err != nil || d <= 0 || name == "" {
			t.Fatal(d, name, err)
		}
	}
	k, err := bench.NewCase(set, kernels.Encaps, 1, bench.CaseOptions{}, 1)
	check(err)
	for _, mapped := range []bool{false, true} {
		if middle, high, err := card.Latency(k, kernels.Options{}, mapped, 20, 0); err != nil || middle <= 0 || high < middle {
			t.Fatal(middle, high, err)
		}
	}
	check(card.Close())
	if stats := sim.Stats(0); stats.Leaks() {
		t.Errorf("left behind: %+v", stats)
	}
}

// Several devices measured at once take part alike, and a device that is not there is an error, not a wait.
func TestEndToEndOn(t *testing.T) {
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	sim, path, err := simctl.Fresh(simctl.Library())
	check(err)
	sim.SetDeviceCount(3)
	set, err := kernels.NewSet(653)
	check(err)
	k, err := bench.NewCase(set, kernels.Encaps, 2, bench.CaseOptions{}, 1)
	check(err)
	o := bench.EndToEndOptions{Options: kernels.Options{Shape: kernels.One}, Chunk: 2, Rings: 2}
	if rate, err := bench.EndToEndOn(path, []int{0, 2}, k, 1, o); err != nil || rate <= 0 {
		t.Fatal(rate, err)
	}
	if a, b, c := sim.Stats(0), sim.Stats(1), sim.Stats(2); a.Launches == 0 || b.Launches != 0 || c.Launches != a.Launches {
		t.Errorf("%d, %d and %d launches", a.Launches, b.Launches, c.Launches)
	}
	if _, err := bench.EndToEndOn(path, []int{0, 3}, k, 1, o); !errors.Is(err, driver.ErrInvalidDevice) {
		t.Errorf("a device that is not there: %v", err)
	}
	for _, o := range []bench.CopyOptions{{In: true}, {Out: true}, {In: true, Out: true}} {
		o.Set, o.Size, o.Total = 4<<10, 1<<10, 10<<10
		before := sim.Stats(2)
		if rate, err := bench.CopyOn(path, []int{0, 2}, o); err != nil || rate <= 0 {
			t.Fatal(rate, err)
		}
		after := sim.Stats(2)
		if in, out := after.BytesToDevice > before.BytesToDevice, after.BytesToHost > before.BytesToHost; in != o.In || out != o.Out || after.PageableCopies != before.PageableCopies {
			t.Errorf("%+v: copied to the device: %v, to the host: %v", o, in, out)
		}
	}
	for device := range 3 {
		if stats := sim.Stats(device); stats.Leaks() {
			t.Errorf("left behind on device %d: %+v", device, stats)
		}
	}
}

func TestHostCopy(t *testing.T) {
	if rate := bench.HostCopy(1<<16, 2); rate <= 0 {
		t.Error(rate)
	}
}

// A wrong result is found, and said where.
func TestCheck(t *testing.T) {
	set, err := kernels.NewSet(653)
	if err != nil {
		t.Fatal(err)
	}
	k, err := bench.NewCase(set, kernels.KeyGen, 3, bench.CaseOptions{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Check(make([]byte, 3*set.SecretKeySize()), make([]byte, 12)); err == nil {
		t.Error("zeros pass for keys")
	}
	if err := k.CheckKeys(1); err != nil {
		t.Error(err)
	}
	zeros := bench.GivenCase(set, kernels.KeyGen, make([]byte, 3*2*kernels.SeedSize), bytes.Repeat([]byte{1}, 3*set.SecretKeySize()))
	if err := zeros.CheckKeys(1); err == nil {
		t.Error("anything passes for keys")
	}
	if err := k.Check(nil, nil); err == nil {
		t.Error("nothing passes for keys")
	}
}

// Modules come from a folder where one is named, and what is wrong with one is said by the module's name.
func TestUsePTX(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, path, err := simctl.Fresh(simctl.Library())
	check(err)
	card, err := bench.OpenCard(path, 0)
	check(err)
	defer func() { check(card.Close()) }()
	there, broken, missing := kernels.Module{N: 653, Multiplication: kernels.NTT}, kernels.Module{Curve: kernels.Curve25519}, kernels.Module{N: 653, Multiplication: kernels.MMA}
	text, err := there.PTX()
	check(err)
	folder := t.TempDir()
	check(os.WriteFile(filepath.Join(folder, "ctruprime653_ntt.ptx"), text, 0o600))
	check(os.WriteFile(filepath.Join(folder, "curve25519.ptx"), []byte("no PTX"), 0o600))
	card.UsePTX(folder)
	check(card.Load(there))
	if err := card.Load(broken); err == nil || !strings.HasPrefix(err.Error(), "bench: module curve25519: ") {
		t.Errorf("broken module: %v", err)
	}
	if err := card.Load(missing); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "ctruprime653.ptx") {
		t.Errorf("missing module: %v", err)
	}
	card.UsePTX("")
	check(card.Load(missing))
}

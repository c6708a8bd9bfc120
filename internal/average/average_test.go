package average

import (
	"math"
	"sync"
	"testing"
)

func TestAverage(t *testing.T) {
	var a Average
	if v := a.Value(); v != 0 {
		t.Errorf("an average of nothing is %v", v)
	}
	a.Add(100)
	if v := a.Value(); v != 100 {
		t.Errorf("the first value gives %v", v)
	}
	a.Add(116)
	if v := a.Value(); v != 101 {
		t.Errorf("%v, want 101", v)
	}
	for range 400 {
		a.Add(10)
	}
	if v := a.Value(); math.Abs(v-10) > 0.01 {
		t.Errorf("%v after many tens", v)
	}
	before := a.Value()
	a.Add(1e9)
	if v, most := a.Value(), before*(1+Weight*(outlier-1)); v > most {
		t.Errorf("an outlier gives %v, want at most %v", v, most)
	}
	for range 10_000 {
		a.Add(0)
	}
	if v := a.Value(); v <= 0 {
		t.Errorf("%v after zeros: as if nothing had been added", v)
	}
}

func TestConcurrent(t *testing.T) {
	var a Average
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				a.Add(7)
			}
		})
	}
	wg.Wait()
	if v := a.Value(); v != 7 {
		t.Errorf("%v of sevens", v)
	}
}

func TestLevel(t *testing.T) {
	var l Level
	if got := l.Add(0); got != 0 {
		t.Errorf("%v of a zero", got)
	}
	if got := l.Add(16); got != 1 || l.Value() != 1 {
		t.Errorf("%v, want 1", got)
	}
	if got := l.Add(0); got != 1-Weight {
		t.Errorf("%v, want %v", got, 1-Weight)
	}
	for range 300 {
		l.Add(1000)
	}
	if got := l.Value(); math.Abs(got-1000) > 0.01 {
		t.Errorf("%v after many thousands", got)
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*(1+math.Abs(b)) }

func TestLine(t *testing.T) {
	var l Line
	check := func(what string, base, slope float64) {
		t.Helper()
		if b, s := l.Value(); !near(b, base) || !near(s, slope) {
			t.Errorf("%s: %v + %v x, want %v + %v x", what, b, s, base, slope)
		}
	}
	check("nothing", 0, 0)
	l.Add(1, 30)
	check("one point", 30, 0)
	for range 300 {
		l.Add(1, 30)
	}
	check("one size", 30, 0)
	for i := range 300 {
		x := float64(1 + i%50)
		l.Add(x, 28+2*x)
	}
	check("many sizes", 28, 2)
	for range 300 {
		l.Add(10, 48)
	}
	check("the slope stays", 28, 2)
	if m := l.Mean(); !near(m, 48) {
		t.Errorf("mean %v, want 48", m)
	}
	for i := range 300 { // a line that would begin below zero
		x := float64(5 + i%3)
		l.Add(x, 10*x-20)
	}
	if b, s := l.Value(); b < 0 || !near(b+6*s, l.Mean()) && b != 0 {
		t.Errorf("%v + %v x", b, s)
	}
	before := l.Mean()
	l.Add(6, 1e12)
	if l.Mean() > 3*before {
		t.Errorf("an outlier gives %v after %v", l.Mean(), before)
	}
	for i := range 300 { // the larger the sooner
		x := float64(1 + i%3)
		l.Add(x, 100-x)
	}
	if _, s := l.Value(); s != 0 {
		t.Errorf("a falling line: slope %v", s)
	}
}

package backend

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
)

// noted is a Tracer that keeps what it is told.
type noted struct {
	backends []string
	retries  []int
	statuses []int
	errs     []error
}

func (n *noted) Try(backend string, retries int, header http.Header) func(int, error) {
	n.backends, n.retries = append(n.backends, backend), append(n.retries, retries)
	header.Set("Traceparent", backend)
	return func(status int, err error) {
		n.statuses, n.errs = append(n.statuses, status), append(n.errs, err)
	}
}

// TestTracer is told of each try, and what it adds to the header reaches that backend
// alone.
func TestTracer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, nil)
		c.listeners["b0"].SetDown(true)
		r, _ := newRequest()
		var n noted
		response, err := c.pool.RoundTrip(r.WithContext(WithTracer(r.Context(), &n)))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if !slices.Equal(n.backends, []string{"b0", "b1"}) || !slices.Equal(n.retries, []int{0, 1}) || !slices.Equal(n.statuses, []int{0, 200}) {
			t.Errorf("%+v", n)
		}
		var connect *ConnectError
		if len(n.errs) != 2 || !errors.As(n.errs[0], &connect) || n.errs[1] != nil {
			t.Errorf("%v", n.errs)
		}
		if r.Header.Get("Traceparent") != "" {
			t.Error("the request itself was changed")
		}
	})
}

// TestUntraced: without a Tracer there is no cost.
func TestUntraced(t *testing.T) {
	r, _ := newRequest()
	b := new(backend)
	if n := testing.AllocsPerRun(100, func() {
		out, ended := b.traced(r, 0)
		if ended(nil, nil); out != r {
			t.Error("the request was copied")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

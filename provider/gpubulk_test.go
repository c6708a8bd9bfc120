//go:build !nogpu

package provider

import "testing"

// One status of a chunk that is not zero is seen, wherever it is.
func TestAllZero(t *testing.T) {
	b := make([]byte, 4*(1<<16)) // the statuses of the largest chunk
	if !allZero(b) || !allZero(b[:5]) || !allZero(nil) {
		t.Error("zeros are not all zero")
	}
	for _, at := range []int{0, 4, len(zeros) - 1, len(zeros), 3*len(zeros) + 4, len(b) - 4, len(b) - 1} {
		b[at] = 1
		if allZero(b) {
			t.Errorf("a one at %d is not seen", at)
		}
		b[at] = 0
	}
}

//go:build sim && !nogpu

package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// The demonstration on a simulated GPU: every exchange with our group is the
// GPU's, and none fails.
func TestDemoOnSimulatedGPU(t *testing.T) {
	if status, _, errText := tlsproxy("demo", "--gpu", "sim"); status != exitFailure || !strings.Contains(errText, "make sim") {
		t.Errorf("status %d: %s, want the word of make sim", status, errText)
	}
	t.Chdir("../..")
	status, out, errText := tlsproxy("demo", "--gpu", "sim", "--json", "--rounds", "1", "--duration", "200ms", "--concurrency", "8", "--groups", "X25519,X25519CTRUPrime761")
	if status != 0 {
		t.Fatalf("status %d: %s", status, errText)
	}
	var report struct {
		Handshakes   []struct{ Completed, Failed int }
		KeyExchanges struct {
			Engine  string
			Served  int
			ByGPU   int `json:"by_gpu"`
			Devices []struct {
				Name, State         string
				Operations, Batches int
			}
		} `json:"key_exchanges"`
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	k := report.KeyExchanges
	if k.Engine != "gpu" || k.Served == 0 || k.ByGPU != k.Served || len(k.Devices) != 1 {
		t.Fatalf("%+v", k)
	}
	if d := k.Devices[0]; d.State != "open" || d.Operations != k.ByGPU || d.Batches > d.Operations || d.Name != "ctrutls simulator 0" {
		t.Errorf("%+v", d)
	}
	if h := report.Handshakes[1]; h.Failed != 0 || h.Completed == 0 {
		t.Errorf("%+v", h)
	}
	status, out, errText = tlsproxy("demo", "--gpu", "sim", "--rounds", "1", "--duration", "5ms", "--concurrency", "1", "--groups", "X25519CTRUPrime761")
	if status != 0 || !strings.Contains(out, "GPUs computed") || !strings.Contains(out, "\nThe GPU was simulated") {
		t.Errorf("status %d: %s%s", status, out, errText)
	}
}

// Without a GPU the same demonstration is the CPU's.
func TestDemoWithoutGPU(t *testing.T) {
	t.Setenv("CTRUTLS_LIBCUDA", "/no/such/libcuda.so.1")
	status, out, errText := tlsproxy("demo", "--gpu", "auto", "--rounds", "1", "--duration", "5ms", "--concurrency", "1")
	if status != 0 || strings.Contains(out, "GPUs computed") || !strings.Contains(out, "\nNo GPU took part") {
		t.Errorf("status %d: %s%s", status, out, errText)
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/comparison"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logtest"
)

// benchServer is a proxy in a process of its own: its address, its certificate's file
// and its process.
func benchServer(t *testing.T) (address, ca, pid string) {
	t.Helper()
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	t.Cleanup(backend.Close)
	file := files(t, selfSigned(t), "listen: ['127.0.0.1:0']\nbackends: {urls: '"+backend.URL+"'}\n")
	log := new(logtest.Buffer)
	process := exec.Command(os.Args[0], "run", "-c", file)
	process.Stderr = log
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		process.Process.Signal(syscall.SIGTERM)
		if err := process.Wait(); err != nil {
			t.Errorf("%v: %s", err, log)
		}
	})
	return log.Find(`msg=listening address=(\S+)`), filepath.Join(filepath.Dir(file), "cert.pem"), strconv.Itoa(process.Process.Pid)
}

// TestBench compares groups, full and resumed, and with requests.
func TestBench(t *testing.T) {
	address, ca, pid := benchServer(t)
	common := []string{"bench", address, "--ca", ca, "--server-name", "localhost", "--groups", "X25519,X25519MLKEM768,X25519CTRUPrime761",
		"--concurrency", "1,2", "--count", "4", "--rounds", "2", "--warm-up", "1ms", "--key-pool", "64", "--json"}
	for _, extra := range [][]string{{"--server-pid", pid}, {"--resume", "--source", "127.0.0.2"}, {"--requests", "3", "--rate", "1000"}} {
		status, out, errText := tlsproxy(append(common, extra...)...)
		if status != 0 {
			t.Fatalf("%v: status %d: %s", extra, status, errText)
		}
		var r comparison.Report
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(r.Program, "tlsproxy ") || r.Machine.Go != runtime.Version() || len(r.Levels) != 2 || len(r.Levels[0]) != 3 {
			t.Fatalf("%+v", r)
		}
		for _, level := range r.Levels {
			for _, row := range level {
				requests := 0
				if extra[0] == "--requests" {
					requests = 3 * 8
				}
				if row.Completed != 8 || row.Failed != 0 || row.Requests != requests || (row.ServerCPU > 0) != (extra[0] == "--server-pid") ||
					len(row.Ratios) != 1 || row.Ratios[0].Base != "X25519" {
					t.Errorf("%v: %+v", extra, row)
				}
			}
		}
	}
}

// TestBenchPlan compares the rows of a file.
func TestBenchPlan(t *testing.T) {
	address, ca, pid := benchServer(t)
	plan := filepath.Join(t.TempDir(), "plan.yaml")
	text := fmt.Sprintf("- {name: one, addresses: ['%s'], server_pid: %s, group: x25519, base: true}\n- {name: two, addresses: ['%s'], group: CurveP256, requests: 2, resume: true}\n", address, pid, address)
	if err := os.WriteFile(plan, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	saved := filepath.Join(t.TempDir(), "report.json")
	status, out, errText := tlsproxy("bench", "--plan", plan, "--ca", ca, "--server-name", "localhost", "--count", "3", "--duration", "0", "--key-pool", "64", "--save", saved)
	if status != 0 {
		t.Fatalf("status %d: %s", status, errText)
	}
	for _, want := range []string{"one ", "CurveP256", "CPU to one", "requests/s", "One round of 3 connections"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	var r comparison.Report
	if text, err := os.ReadFile(saved); err != nil {
		t.Error(err)
	} else if err := json.Unmarshal(text, &r); err != nil || len(r.Levels) != 1 || r.Levels[0][1].Requests != 6 {
		t.Errorf("%v: %s", err, text)
	}
}

// TestBenchFailures: the report is printed all the same, and the status tells.
func TestBenchFailures(t *testing.T) {
	address, _, _ := benchServer(t)
	status, out, errText := tlsproxy("bench", address, "--server-name", "localhost", "--count", "2", "--warm-up", "0s")
	if status != exitFailure || !strings.Contains(out, "X25519 failed: certificate not accepted: 2\n") || !strings.Contains(out, "Warning: X25519, concurrency 16: certificate not accepted: name the authorities with --ca") ||
		!strings.HasPrefix(errText, "tlsproxy: bench: not everything worked:\nX25519, concurrency 16: 2 failed, such as: tls: failed to verify certificate") {
		t.Errorf("status %d\n%s\n%s", status, out, errText)
	}
}

// TestBenchInterrupted prints what there is.
func TestBenchInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	var out, errOut bytes.Buffer
	if s := execute(ctx, []string{"bench", "127.0.0.1:1", "--insecure"}, nil, &out, &errOut); s != 0 || !strings.Contains(out.String(), "Interrupted: ") {
		t.Errorf("status %d\n%s%s", s, &out, &errOut)
	}
}

func TestBenchUsage(t *testing.T) {
	dir := t.TempDir()
	file := func(text string) string {
		name := filepath.Join(dir, "plan.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, test := range []struct {
		args []string
		plan string
		want string
	}{
		{nil, "", "bench: no server; give its host:port"},
		{[]string{"a:1"}, "- {}", "bench: addresses are given both"},
		{nil, "[]", "plan.yaml: no rows"},
		{nil, "- {name: a}", "plan.yaml: row 1 needs a name, addresses and a group"},
		{nil, "- {name: a,\n   adresses: b}", "plan.yaml:"},
		{nil, "- {name: a, addresses: ['a:1'], group: X}", `bench: a: unknown group "X"; there are X25519CTRUPrime653`},
		{[]string{"a"}, "", `bench: X25519: loadgen: the address "a" is not host:port`},
		{[]string{"a:1", "--key-pool", "0"}, "", "bench: a pool of 0 key pairs"},
		{[]string{"a:1", "--ca", "/no/such/file"}, "", "bench: --ca: open /no/such/file"},
		{[]string{"a:1", "--duration", "0"}, "", "bench: comparison: neither a duration nor a count"},
	} {
		args := append([]string{"bench"}, test.args...)
		if test.plan != "" {
			args = append(args, "--plan", file(test.plan))
		}
		if status, _, errText := tlsproxy(args...); status != exitFailure || !strings.Contains(errText, test.want) {
			t.Errorf("%v %s: status %d: %s, want %s", test.args, test.plan, status, errText, test.want)
		}
	}
	if status, out, _ := tlsproxy("bench", "--plan-help"); status != 0 || out != planText {
		t.Errorf("--plan-help: status %d: %s", status, out)
	}
}

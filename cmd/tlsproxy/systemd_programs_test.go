//go:build programs

package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logtest"
)

// units copies the units, as installed beside this test binary, and the drop-in for GPUs.
func units(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	unit := strings.ReplaceAll(deployed(t, "systemd", "tlsproxy.service"), "/usr/local/bin/tlsproxy", self)
	dropIn := filepath.Join(dir, "tlsproxy.service.d")
	if err := os.Mkdir(dropIn, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		filepath.Join(dir, "tlsproxy.service"): unit,
		filepath.Join(dir, "tlsproxy.socket"):  deployed(t, "systemd", "tlsproxy.socket"),
		filepath.Join(dropIn, "gpu.conf"):      deployed(t, "systemd", "gpu.conf"),
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestUnitsInSystemd: systemd finds no fault with the units.
func TestUnitsInSystemd(t *testing.T) {
	dir := units(t)
	process := exec.Command("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", filepath.Join(dir, "tlsproxy.service"), filepath.Join(dir, "tlsproxy.socket"))
	process.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":")
	if out, err := process.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestExposureInSystemd: by systemd's own measure, of 0 to 10, the service is exposed to
// less than 2.
func TestExposureInSystemd(t *testing.T) {
	out, err := exec.Command("systemd-analyze", "security", "--offline=yes", "--no-pager", "--threshold=19", filepath.Join(units(t), "tlsproxy.service")).CombinedOutput()
	if err != nil || !regexp.MustCompile(`Overall exposure level for tlsproxy.service: [01]\.\d OK`).Match(out) {
		t.Errorf("%v\n%s", err, out)
	}
}

// systemCalls lists those of a set of systemd's.
func systemCalls(t *testing.T, set string) map[string]bool {
	t.Helper()
	out, err := exec.Command("systemd-analyze", "syscall-filter", "--no-pager", set).Output()
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]bool{}
	for _, word := range strings.Fields(regexp.MustCompile(`(?m)^ *#.*$`).ReplaceAllString(string(out), ""))[1:] {
		if strings.HasPrefix(word, "@") {
			for call := range systemCalls(t, word) {
				calls[call] = true
			}
		} else {
			calls[word] = true
		}
	}
	return calls
}

// childOf returns the one child of a process.
func childOf(t *testing.T, pid int) (child int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(text), &child); err != nil {
		t.Fatalf("%v: %q", err, text)
	}
	return child
}

// TestUnitAllowsWhatStraceSees: a proxy that starts, serves, reloads, is upgraded and drains
// makes no system call that the unit forbids, and has no memory that is both writable and executable.
func TestUnitAllowsWhatStraceSees(t *testing.T) {
	allowed := systemCalls(t, "@system-service")
	for call := range systemCalls(t, "@privileged") {
		delete(allowed, call)
	}
	if !allowed["openat"] || allowed["chown"] || allowed["reboot"] {
		t.Fatalf("systemd allows %v", allowed)
	}
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }))
	defer backend.Close()
	file := files(t, selfSigned(t), "listen: ['127.0.0.1:0']\nbackends: {urls: '"+backend.URL+"', health: {check: http}}\nadmin: {listen: ':0'}\n")
	trace, log := filepath.Join(filepath.Dir(file), "trace"), new(logtest.Buffer)
	process := exec.Command("strace", "-f", "-qq", "-o", trace, os.Args[0], "run", "-c", file)
	process.Stderr = log
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for _, url := range []string{"https://" + log.Find(`msg=listening address=(\S+)`), "http://" + log.Find(`msg="admin listener" address=(\S+)`) + "/metrics"} {
		response, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	traced := childOf(t, process.Process.Pid)
	syscall.Kill(traced, syscall.SIGHUP)
	log.Find(`msg=reloaded (because=SIGHUP)`)
	syscall.Kill(traced, syscall.SIGUSR2)
	successor, err := strconv.Atoi(log.Find(`msg="a new process serves in place of this one" process=(\d+)`))
	if err != nil {
		t.Fatal(err)
	}
	syscall.Kill(successor, syscall.SIGTERM)
	if err := process.Wait(); err != nil {
		t.Fatalf("%v: %s", err, log)
	}
	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, call := range regexp.MustCompile(`(?m)^\d+ +(\w+)\(`).FindAllSubmatch(text, -1) {
		seen[string(call[1])] = true
	}
	for call := range seen {
		if !allowed[call] {
			t.Errorf("the unit forbids %s", call)
		}
	}
	if !seen["accept4"] || !seen["exit_group"] || bytes.Contains(text, []byte("PROT_WRITE|PROT_EXEC")) {
		t.Errorf("%v", seen)
	}
}

// TestSocketActivation has systemd's own program open the socket, under the name that the
// unit gives it, and start the proxy at the first connection.
func TestSocketActivation(t *testing.T) {
	name := regexp.MustCompile(`(?m)^FileDescriptorName=(\S+)$`).FindStringSubmatch(deployed(t, "systemd", "tlsproxy.socket"))[1]
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }))
	defer backend.Close()
	file := files(t, selfSigned(t), "listen: ['systemd:"+name+"']\nbackends: {urls: '"+backend.URL+"'}\n")
	free := listenOn(t, "tcp", "127.0.0.1:0")
	address := free.Addr().String()
	free.Close()
	log := new(logtest.Buffer)
	process := exec.Command("systemd-socket-activate", "--listen="+address, "--fdname="+name, os.Args[0], "run", "-c", file)
	process.Stderr = log
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	log.Find(`(?m)^Listening on .* as 3(\.)`)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := client.Get("https://" + address + "/")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil || string(body) != "hello" || log.Find(`msg=listening address=(\S+)`) != address {
		t.Errorf("%q, %v: %s", body, err, log)
	}
	process.Process.Signal(syscall.SIGTERM)
	if err := process.Wait(); err != nil {
		t.Errorf("%v: %s", err, log)
	}
}

//go:build programs

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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
	process := exec.Command("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", filepath.Join(dir, "tlsproxy.service"))
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

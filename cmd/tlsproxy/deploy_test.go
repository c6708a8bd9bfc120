package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/tickets"
)

// deployed returns a file of the folder deploy.
func deployed(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{repository, "deploy"}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestConfigurationsForKubernetes load as they stand in their ConfigMaps, without a
// warning but for the test's own certificate.
func TestConfigurationsForKubernetes(t *testing.T) {
	for _, folder := range []string{"base", "gpu"} {
		plan, err := loadExample(t, selfSigned(t), deployed(t, "kubernetes", folder, "tlsproxy.yaml"))
		if err != nil {
			t.Errorf("%s: %v", folder, err)
			continue
		}
		for _, w := range plan.Warnings() {
			if !strings.Contains(w, "certificates[0] ") && !strings.Contains(w, "file descriptors") {
				t.Errorf("%s: %s", folder, w)
			}
		}
	}
}

// TestPlaceholderIsNoSecret: the manifest's ticket secret cannot be used as it is.
func TestPlaceholderIsNoSecret(t *testing.T) {
	_, placeholder, found := strings.Cut(deployed(t, "kubernetes", "base", "ticket-secrets.yaml"), "ticket-secrets: |\n")
	file := filepath.Join(t.TempDir(), "ticket-secrets")
	if err := os.WriteFile(file, []byte(placeholder), 0o600); err != nil || !found {
		t.Fatal(err, found)
	}
	if _, err := tickets.LoadSecrets(file); err == nil || !strings.Contains(err.Error(), "openssl rand -base64 32 makes one") {
		t.Error(err)
	}
}

// TestDockerfile: base images have versions and no registry's host, the program is built
// with the hook by a Go that go.mod allows, and does not run as root.
func TestDockerfile(t *testing.T) {
	text := deployed(t, "docker", "Dockerfile")
	arguments := regexp.MustCompile(`(?m)^ARG (\w+)=(\d+\.\S+)$`).FindAllStringSubmatch(text, -1)
	for _, a := range arguments {
		text = strings.ReplaceAll(text, "${"+a[1]+"}", a[2])
	}
	stages := regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(text, -1)
	if len(stages) != 2 {
		t.Errorf("%d stages", len(stages))
	}
	for _, stage := range stages {
		if !regexp.MustCompile(`^[a-z]+:\d+\.\d+\S*$`).MatchString(stage[1]) {
			t.Errorf("base image %s", stage[1])
		}
	}
	module, err := os.ReadFile(filepath.Join(repository, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	release := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(module))[1]
	if !strings.HasPrefix(stages[0][1], "golang:"+release+".") {
		t.Errorf("it is built by %s, go.mod says %s", stages[0][1], release)
	}
	for _, line := range []string{" go tool gotls build ", "grep -x 'crypto/tls hook present'", "\nUSER 65532:65532\n", "\nCMD [\"run\", \"-c\", \"/etc/tlsproxy/tlsproxy.yaml\"]\n"} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q", line)
		}
	}
	_, version, _ := tlsproxy("version")
	if !strings.Contains(version, "\ncrypto/tls hook present\n") {
		t.Errorf("the line that the build looks for is not in\n%s", version)
	}
}

// TestServiceUnit: what the unit sets fits the defaults of the configuration.
func TestServiceUnit(t *testing.T) {
	unit, defaults := deployed(t, "systemd", "tlsproxy.service"), config.Default()
	setting := func(name string) string {
		match := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(unit)
		if match == nil {
			t.Fatalf("no %s", name)
		}
		return match[1]
	}
	if stop, err := time.ParseDuration(setting("TimeoutStopSec")); err != nil || stop <= time.Duration(defaults.Timeouts.Drain) {
		t.Errorf("%v: it is killed after %v, drains for %v", err, stop, time.Duration(defaults.Timeouts.Drain))
	}
	var files int
	if fmt.Sscan(setting("LimitNOFILE"), &files); files < defaults.Limits.Connections+defaults.Limits.Requests+1024 {
		t.Errorf("%d file descriptors are too few", files)
	}
	commands := regexp.MustCompile(`(?m)^Exec\w+=/usr/local/bin/tlsproxy (.*) -c /etc/tlsproxy/tlsproxy.yaml$`).FindAllStringSubmatch(unit, -1)
	if len(commands) != 2 {
		t.Errorf("%d commands", len(commands))
	}
	for _, command := range commands {
		if status, _, errText := tlsproxy(append(strings.Fields(command[1]), "--help")...); status != 0 {
			t.Errorf("%s: %s", command[0], errText)
		}
	}
}

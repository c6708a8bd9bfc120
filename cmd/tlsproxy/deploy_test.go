package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logtest"
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

// volume is a folder as Kubernetes mounts a ConfigMap or a Secret: links to files in
// ..data, which is a link itself and swapped when something changes.
type volume struct {
	dir     string
	version int
}

// swap has the volume hold some files.
func (v *volume) swap(t *testing.T, files map[string][]byte) {
	t.Helper()
	v.version++
	now := fmt.Sprint("..", v.version)
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	do(os.MkdirAll(filepath.Join(v.dir, now), 0o700))
	for name, data := range files {
		do(os.WriteFile(filepath.Join(v.dir, now, name), data, 0o600))
		if v.version == 1 {
			do(os.Symlink(filepath.Join("..data", name), filepath.Join(v.dir, name)))
		}
	}
	do(os.Symlink(now, filepath.Join(v.dir, "..tmp")))
	do(os.Rename(filepath.Join(v.dir, "..tmp"), filepath.Join(v.dir, "..data")))
}

// TestVolumesOfKubernetes: a proxy with the manifests' configuration takes up a changed
// certificate and a changed configuration, and keeps to the old one where the new has a
// mistake.
func TestVolumesOfKubernetes(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {}))
	defer backend.Close()
	dir := t.TempDir()
	configuration, certificates, secrets := &volume{dir: filepath.Join(dir, "configuration")}, &volume{dir: filepath.Join(dir, "certificates")}, &volume{dir: filepath.Join(dir, "tickets")}
	text := strings.NewReplacer("/etc/tlsproxy", dir, "http://app.default.svc.cluster.local:8080", backend.URL, ":8443", "127.0.0.1:0", "0.0.0.0:9443", "127.0.0.1:0",
		"poll: 10s", "poll: 100ms").Replace(deployed(t, "kubernetes", "base", "tlsproxy.yaml"))
	pair := func() map[string][]byte {
		from, all := filepath.Dir(files(t, selfSigned(t), "")), map[string][]byte{}
		for name, file := range map[string]string{"tls.crt": "cert.pem", "tls.key": "key.pem"} {
			var err error
			if all[name], err = os.ReadFile(filepath.Join(from, file)); err != nil {
				t.Fatal(err)
			}
		}
		return all
	}
	certificates.swap(t, pair())
	secrets.swap(t, map[string][]byte{"ticket-secrets": []byte(strings.Repeat("5a", 32))})
	configuration.swap(t, map[string][]byte{"tlsproxy.yaml": []byte(text)})

	log := new(logtest.Buffer)
	ctx, stop := context.WithCancel(context.Background())
	status := start(ctx, log, "run", "-c", filepath.Join(configuration.dir, "tlsproxy.yaml"))
	log.Take(`"msg":"admin listener"`)
	certificates.swap(t, pair())
	log.Take(`"msg":"reloaded","because":"changed files","changes":0,"certificates":1,"new":1,"gone":1`)
	configuration.swap(t, map[string][]byte{"tlsproxy.yaml": []byte(strings.Replace(text, "drain: 30s", "drain: 20s", 1))})
	log.Take(`"msg":"changed","key":"timeouts.drain","from":"30s","to":"20s"`)
	configuration.swap(t, map[string][]byte{"tlsproxy.yaml": []byte("mistake: 1\n" + text)})
	log.Take(`"msg":"reloading failed; everything stays as it was"`)
	stop()
	if s := <-status; s != 0 {
		t.Errorf("status %d", s)
	}
	log.Take(`"within":20000000000`)
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

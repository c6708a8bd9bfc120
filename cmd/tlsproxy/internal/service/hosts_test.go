package service

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
)

// TestManyHosts reads a configuration of 20,000 hosts (see manyHosts), each with a policy of its
// own, and bounds the memory of what comes of it. Another reading with one host more
// finds that one difference.
func TestManyHosts(t *testing.T) {
	const hosts = manyHosts
	file := filepath.Join(t.TempDir(), "c.yaml")
	write := func(hosts int) {
		var b strings.Builder
		b.WriteString("certificates: [{cert: a, key: b}]\nbackends: {urls: 'http://127.0.0.1:1'}\ntls: {groups: [X25519MLKEM768, X25519]}\nlisten: '127.0.0.1:0'\nhosts:\n")
		for i := range hosts {
			fmt.Fprintf(&b, "- {names: [host-%d.example], tls: {min_version: 1.%d}}\n", i, 2+i%2)
		}
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := certificates.SelfSigned("*.example")
	if err != nil {
		t.Fatal(err)
	}
	read := func() *Plan {
		c, err := config.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := LoadWith(c, cert)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	write(hosts)
	before, start := heapInUse(), time.Now()
	p := read()
	s, err := p.Start(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	each := (heapInUse() - before) / hosts
	t.Logf("%d hosts read and started in %v; %d bytes each", hosts, time.Since(start), each)
	if each > 8192 {
		t.Errorf("%d bytes of memory for each host", each)
	}
	write(hosts + 1)
	next := read()
	changes := config.Diff(p.Config, next.Config)
	if len(changes) != 1 || changes[0].Key != fmt.Sprintf("hosts[%d]", hosts) {
		t.Errorf("%d changes: %.3v", len(changes), changes)
	}
	start = time.Now()
	if err := s.apply(p, next); err != nil {
		t.Error(err)
	}
	t.Logf("applied in %v", time.Since(start))
	if warnings := next.Warnings(); len(warnings) > 10 {
		t.Errorf("%d warnings: %.3q", len(warnings), warnings)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx, nil); err != nil {
		t.Error(err)
	}
}

// heapInUse is in bytes.
func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

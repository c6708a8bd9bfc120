package service

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// documented checks that docs/metrics.md lists all that a Service exports, and that
// the metrics of those names are among it.
func (s *Service) documented(t *testing.T, names ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	families, err := s.operation.metrics.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	exported := map[string]bool{}
	for _, family := range families {
		exported[family.GetName()] = true
		if strings.HasPrefix(family.GetName(), "tlsproxy_") && !strings.Contains(string(text), "\n| `"+family.GetName()+"` |") {
			t.Errorf("docs/metrics.md lists no %s", family.GetName())
		}
	}
	for _, name := range names {
		if !exported[name] {
			t.Errorf("no %s is exported", name)
		}
	}
}

func TestMetrics(t *testing.T) {
	s, err := plan(t, nil).Start(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- s.Run(t.Context(), nil) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	s.documented(t, "tlsproxy_build_info", "tlsproxy_certificate_expiry_timestamp_seconds", "tlsproxy_backend_up", "tlsproxy_backend_response_duration_seconds",
		"tlsproxy_connections_accepted_total", "tlsproxy_kem_operations_total", "go_goroutines", "process_cpu_seconds_total")
}

package tracing

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/logging"
)

// queue bounds the spans that wait and counts what becomes of them. The SDK's batch
// processor, which it stands in front of and behind, has a bound too but tells nobody
// what it drops, so it is never let come to that.
type queue struct {
	batches  sdk.SpanProcessor
	exporter sdk.SpanExporter
	most     int64
	limiter  *logging.Limiter

	waiting                   atomic.Int64
	exported, failed, dropped atomic.Uint64

	mu     sync.Mutex
	closed bool // what was waiting has been dropped
}

func newQueue(exporter sdk.SpanExporter, most int, logger *slog.Logger) *queue {
	q := &queue{exporter: exporter, most: int64(most), limiter: failures(logger)}
	q.batches = sdk.NewBatchSpanProcessor(sending{q}, sdk.WithMaxQueueSize(most), sdk.WithMaxExportBatchSize(min(most, batchSpans)),
		sdk.WithBatchTimeout(batchEvery), sdk.WithExportTimeout(exportTimeout))
	return q
}

// OnStart implements sdk.SpanProcessor.
func (q *queue) OnStart(ctx context.Context, s sdk.ReadWriteSpan) { q.batches.OnStart(ctx, s) }

// OnEnd implements sdk.SpanProcessor. It never waits.
func (q *queue) OnEnd(s sdk.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if q.waiting.Add(1) > q.most {
		q.waiting.Add(-1)
		q.dropped.Add(1)
		return
	}
	q.batches.OnEnd(s)
}

// Shutdown implements sdk.SpanProcessor.
func (q *queue) Shutdown(ctx context.Context) error { return q.batches.Shutdown(ctx) }

// ForceFlush implements sdk.SpanProcessor.
func (q *queue) ForceFlush(ctx context.Context) error { return q.batches.ForceFlush(ctx) }

// abandon gives up what is still waiting once Shutdown has returned, and says how
// much that was.
func (q *queue) abandon() (left int64) {
	q.mu.Lock()
	q.closed = true
	if left = q.waiting.Load(); left > 0 {
		q.dropped.Add(uint64(left))
	}
	q.mu.Unlock()
	q.exporter.Shutdown(context.Background()) // ends a request that is under way
	q.limiter.Close()
	return left
}

func (q *queue) stats() *Stats {
	return &Stats{Exported: q.exported.Load(), Failed: q.failed.Load(), Dropped: q.dropped.Load()}
}

// sending is the exporter of the batch processor.
type sending struct{ *queue }

// ExportSpans implements sdk.SpanExporter. Errors end here: the SDK would print them.
func (s sending) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := s.exporter.ExportSpans(ctx, spans)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil // abandon has counted them
	}
	s.waiting.Add(-int64(len(spans)))
	if err == nil {
		s.exported.Add(uint64(len(spans)))
		return nil
	}
	s.failed.Add(uint64(len(spans)))
	s.limiter.Log(slog.LevelWarn, "traces could not be sent", func() []slog.Attr {
		return []slog.Attr{slog.Int("spans", len(spans)), slog.String("err", logging.Peer(err.Error(), 512))}
	})
	return nil
}

// Shutdown implements sdk.SpanExporter.
func (s sending) Shutdown(ctx context.Context) error { return s.exporter.Shutdown(ctx) }

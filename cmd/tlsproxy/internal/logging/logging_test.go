package logging

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNew(t *testing.T) {
	var out bytes.Buffer
	l, level := New(&out, config.Log{Format: config.FormatJSON, Level: config.LevelWarn})
	l.Info("not this")
	l.Warn("this")
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line["msg"] != "this" || line["level"] != "WARN" {
		t.Errorf("%s: %v", &out, err)
	}
	level.Set(slog.LevelInfo)
	l.Info("now this")
	if !strings.Contains(out.String(), "now this") {
		t.Errorf("%s", &out)
	}
	out.Reset()
	l, _ = New(&out, config.Log{Format: config.FormatText, Level: config.LevelDebug})
	l.Debug("this too")
	if !strings.Contains(out.String(), `level=DEBUG msg="this too"`) {
		t.Errorf("%s", &out)
	}
}

func TestPeer(t *testing.T) {
	for _, test := range []struct {
		text  string
		limit int
		want  string
	}{
		{"example.com", 255, "example.com"},
		{"", 10, ""},
		{"a\nlevel=ERROR msg=forged", 100, `a\x0alevel=ERROR msg=forged`},
		{"\x1b[31mred\x00", 100, `\x1b[31mred\x00`},
		{"b\u202eidi \xff", 100, `b\xe2\x80\xaeidi \xff`},
		{`\x0a`, 100, `\x5cx0a`},
		{"abcdef", 3, "abc..."},
		{"ab\u00e9", 3, `ab\xc3...`},
		{"abc", 3, "abc"},
	} {
		if got := Peer(test.text, test.limit); got != test.want {
			t.Errorf("Peer(%q, %d) = %q, want %q", test.text, test.limit, got, test.want)
		}
	}
}

// lines returns a logger without times, and its output.
func lines() (*slog.Logger, *bytes.Buffer) {
	var out bytes.Buffer
	return slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})), &out
}

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, out := lines()
		l := NewLimiter(logger, "tests", 2)
		say := func(level slog.Level, n int) {
			l.Log(level, fmt.Sprint(n), func() []slog.Attr { return []slog.Attr{slog.Int("n", n)} })
		}
		for n := range 5 {
			say(slog.LevelInfo, n)
		}
		say(slog.LevelWarn, 5)
		say(slog.LevelDebug, 6) // not enabled: neither written nor counted
		time.Sleep(time.Second)
		synctest.Wait()
		say(slog.LevelInfo, 7)
		say(slog.LevelInfo, 8)
		say(slog.LevelInfo, 9)
		l.Close()
		say(slog.LevelInfo, 10)
		want := `level=INFO msg=0 n=0
level=INFO msg=1 n=1
level=WARN msg="log lines suppressed" about=tests suppressed=4 limit_per_second=2
level=INFO msg=7 n=7
level=INFO msg=8 n=8
level=INFO msg="log lines suppressed" about=tests suppressed=1 limit_per_second=2
level=INFO msg=10 n=10
`
		if out.String() != want {
			t.Errorf("got\n%s", out)
		}
	})
}

func TestLimiterAsWriter(t *testing.T) {
	logger, out := lines()
	l := NewLimiter(logger, "server errors", 1)
	log.New(l, "", 0).Print("http: panic\nserving")
	l.Close()
	if want := `level=WARN msg="http: panic\\x0aserving"` + "\n"; out.String() != want {
		t.Errorf("got %s want %s", out, want)
	}
}

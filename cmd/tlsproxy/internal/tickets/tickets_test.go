package tickets

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a time that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// at is Keys whose time starts on the hour.
func at(t *testing.T, o Options) (*Keys, *clock) {
	t.Helper()
	c := &clock{now: time.Unix(1_800_000_000, 0).Truncate(time.Hour)}
	k := &Keys{now: c.Now}
	if err := k.Set(o); err != nil {
		t.Fatal(err)
	}
	return k, c
}

func secret() []byte {
	s := make([]byte, MinSecretSize)
	rand.Read(s)
	return s
}

func seal(t *testing.T, k *Keys, scope Scope, session string) []byte {
	t.Helper()
	ticket, err := k.Seal(&scope, []byte(session))
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

// TestSeal opens tickets in their scope only, and no ticket that was changed.
func TestSeal(t *testing.T) {
	k, _ := at(t, Options{Period: time.Hour, Lifetime: time.Hour})
	for _, session := range []string{"", "session", strings.Repeat("x", maxSessionBytes)} {
		a, b := Scope{1}, Scope{2}
		ticket := seal(t, k, a, session)
		if len(ticket) != Overhead+len(session) {
			t.Errorf("%d bytes for a session of %d", len(ticket), len(session))
		}
		if got := k.Open(&a, ticket); got == nil && session != "" || string(got) != session {
			t.Errorf("opened to %d bytes, not to %d", len(got), len(session))
		}
		if k.Open(&b, ticket) != nil {
			t.Error("opened in another scope")
		}
		if bytes.Equal(ticket, seal(t, k, a, session)) {
			t.Error("two tickets are equal")
		}
		for _, i := range []int{0, idSize - 1, idSize, idSize + saltSize, len(ticket) - tagSize, len(ticket) - 1} {
			changed := bytes.Clone(ticket)
			changed[i] ^= 0x80
			if k.Open(&a, changed) != nil {
				t.Errorf("opened with byte %d changed", i)
			}
		}
		for _, n := range []int{0, 1, idSize, Overhead - 1, len(ticket) - 1} {
			if k.Open(&a, ticket[:n]) != nil {
				t.Errorf("opened with %d bytes", n)
			}
		}
	}
	large := seal(t, k, Scope{}, strings.Repeat("x", maxSessionBytes+1))
	if len(large) != Overhead || k.Open(&Scope{}, large) != nil {
		t.Errorf("a session that is too large gets a ticket of %d bytes", len(large))
	}
}

// TestRotation: a ticket opens for a lifetime, rounded up to periods, and for a period
// longer at most; and it is sealed by another key in each period.
func TestRotation(t *testing.T) {
	const period, lifetime = time.Hour, 2*time.Hour + time.Minute
	for name, secrets := range map[string][][]byte{"random": nil, "derived": {secret()}} {
		k, c := at(t, Options{Period: period, Lifetime: lifetime, Secrets: secrets})
		c.pass(time.Minute)
		ticket := seal(t, k, Scope{}, "session")
		ids := map[string]bool{string(ticket[:idSize]): true}
		for passed := time.Minute; passed < 6*period; passed += time.Minute {
			opens := k.Open(&Scope{}, ticket) != nil
			if age := passed - time.Minute; age <= 3*period && !opens || age >= 4*period && opens {
				t.Fatalf("%s: opens after %v: %v", name, age, opens)
			}
			ids[string(seal(t, k, Scope{}, "")[:idSize])] = true
			c.pass(time.Minute)
		}
		if len(ids) != 6 {
			t.Errorf("%s: %d keys in 6 periods", name, len(ids))
		}
		if r, err := k.ring(); err != nil || len(r.keys) > 5 {
			t.Errorf("%s: %d keys are held (%v)", name, len(r.keys), err)
		}
		c.pass(100 * period)
		again := seal(t, k, Scope{}, "session")
		if k.Open(&Scope{}, again) == nil || k.Open(&Scope{}, ticket) != nil {
			t.Errorf("%s: after a long pause", name)
		}
	}
}

// TestSharedSecret has two proxies, whose clocks differ, open each other's tickets,
// also while the secret is replaced at one and then at the other.
func TestSharedSecret(t *testing.T) {
	first, second := secret(), secret()
	o := func(secrets ...[]byte) Options {
		return Options{Period: time.Hour, Lifetime: time.Hour, Secrets: secrets}
	}
	a, _ := at(t, o(first))
	b, ahead := at(t, o(first))
	ahead.pass(59 * time.Minute)
	both := func(when string, aOpens, bOpens bool) {
		t.Helper()
		if got := b.Open(&Scope{}, seal(t, a, Scope{}, "session")) != nil; got != bOpens {
			t.Errorf("%s: b opens a's ticket: %v", when, got)
		}
		if got := a.Open(&Scope{}, seal(t, b, Scope{}, "session")) != nil; got != aOpens {
			t.Errorf("%s: a opens b's ticket: %v", when, got)
		}
	}
	both("one secret", true, true)
	ahead.pass(time.Hour)
	both("b's clock nearly two periods ahead", true, true)
	ahead.pass(-time.Hour)
	for _, step := range []struct {
		when           string
		a, b           Options
		aOpens, bOpens bool
	}{
		{"the new one to open with", o(first, second), o(first), true, true},
		{"at both", o(first, second), o(first, second), true, true},
		{"the new one to seal with", o(second, first), o(first, second), true, true},
		{"at both", o(second, first), o(second, first), true, true},
		{"without the old one", o(second), o(second, first), true, true},
		{"different ones", o(second), o(first), false, false},
	} {
		if err := a.Set(step.a); err != nil {
			t.Fatal(err)
		}
		if err := b.Set(step.b); err != nil {
			t.Fatal(err)
		}
		both(step.when, step.aOpens, step.bOpens)
	}
}

// TestSetKeeps the random keys if nothing is different.
func TestSetKeeps(t *testing.T) {
	o := Options{Period: time.Hour, Lifetime: time.Hour}
	k, _ := at(t, o)
	ticket := seal(t, k, Scope{}, "session")
	if err := k.Set(o); err != nil || k.Open(&Scope{}, ticket) == nil {
		t.Errorf("the keys are gone (%v)", err)
	}
	o.Secrets = [][]byte{secret()}
	if err := k.Set(o); err != nil || k.Open(&Scope{}, ticket) != nil {
		t.Errorf("a ticket of before opens with other keys (%v)", err)
	}
}

func TestOptions(t *testing.T) {
	for _, test := range []struct {
		o    Options
		want string
	}{
		{Options{Period: time.Millisecond}, "tickets: a period of less than a second"},
		{Options{Period: time.Second, Lifetime: -1}, "tickets: a lifetime of -1ns is not from 0 to 1000 periods of 1s"},
		{Options{Period: time.Second, Lifetime: time.Hour}, "tickets: a lifetime of 1h0m0s is not from 0 to 1000 periods of 1s"},
		{Options{Period: time.Second, Secrets: [][]byte{make([]byte, 31)}}, "tickets: a secret of 31 bytes; the least is 32"},
		{Options{Period: time.Second, Secrets: make([][]byte, 17)}, "tickets: 17 secrets; the most is 16"},
	} {
		if _, err := New(test.o); err == nil || err.Error() != test.want {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
}

// TestConcurrentRotation seals and opens while keys are replaced (-race), which
// tls.Config.SetSessionTicketKeys does not allow as well (go.dev/issue/79862).
func TestConcurrentRotation(t *testing.T) {
	shared := secret()
	o := Options{Period: time.Hour, Lifetime: 3 * time.Hour}
	k, c := at(t, o)
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for range 500 {
				ticket, err := k.Seal(&Scope{}, []byte("session"))
				if err != nil || len(ticket) != Overhead+len("session") {
					t.Error(err)
				}
				k.Open(&Scope{}, ticket)
			}
		})
	}
	workers.Go(func() {
		for i := range 100 {
			c.pass(time.Hour)
			o.Secrets = nil
			if i%2 == 0 {
				o.Secrets = [][]byte{shared}
			}
			if err := k.Set(o); err != nil {
				t.Error(err)
			}
		}
	})
	workers.Wait()
}

func TestLoadSecrets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secrets")
	a, b := secret(), secret()
	good := "# of two proxies\n\n" + base64.StdEncoding.EncodeToString(a) + "\n  " + hex.EncodeToString(b) + "\r\n"
	for _, test := range []struct{ text, want string }{
		{good, ""},
		{"", file + " holds no secret; openssl rand -base64 32 makes one"},
		{good + "c2hvcnQ=\n", file + ":5: not a secret of at least 32 bytes in base64 or hexadecimal; openssl rand -base64 32 makes one"},
		{good + "not/base64!\n", file + ":5: not a secret of at least 32 bytes in base64 or hexadecimal; openssl rand -base64 32 makes one"},
		{strings.Repeat(good, 9), file + ":35: more than 16 secrets"},
		{strings.Repeat("#", maxSecretsBytes+1), fmt.Sprintf("%s is larger than %d bytes", file, maxSecretsBytes)},
	} {
		if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := LoadSecrets(file)
		switch {
		case test.want != "" && (err == nil || err.Error() != test.want):
			t.Errorf("got %v, want %s", err, test.want)
		case test.want == "" && (err != nil || len(got) != 2 || !bytes.Equal(got[0], a) || !bytes.Equal(got[1], b)):
			t.Errorf("%d secrets, %v", len(got), err)
		}
	}
	if _, err := LoadSecrets(file + ".absent"); err == nil {
		t.Error("no file: no error")
	}
}

func BenchmarkSeal(b *testing.B) {
	k, err := New(Options{Period: time.Hour, Lifetime: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	session := make([]byte, 128)
	for b.Loop() {
		ticket, err := k.Seal(&Scope{}, session)
		if err != nil || k.Open(&Scope{}, ticket) == nil {
			b.Fatal(err)
		}
	}
}

package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func parse2(t *testing.T, file string) *Config {
	t.Helper()
	c, err := Parse("/etc/c.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestDiff pins what is told of each kind of change.
func TestDiff(t *testing.T) {
	base := "certificates: [{cert: a.pem, key: a.key}]\n"
	back := base + "backends: {urls: 'http://a'}\n"
	host := func(names ...string) string {
		text := back + "hosts:\n"
		for _, n := range names {
			text += "- {names: " + n + "}\n"
		}
		return text
	}
	for _, test := range []struct {
		name, from, to string
		want           []string
	}{
		{"nothing", back, back + "timeouts: {idle: 120s}\n", nil},
		{"value", back, back + "timeouts: {write: 30s}\n", []string{"timeouts.write: 1m -> 30s"}},
		{"restart", back, back + "timeouts: {idle: 30s}\nlisten: ':443'\nprovider: {gpu: {workers: 3}}\n",
			[]string{`listen[0].address: "localhost:8443" -> ":443" (restart)`, "timeouts.idle: 2m -> 30s (restart)", "provider.gpu.workers: 2 -> 3 (restart)"}},
		{"ACME begins", back, back + "acme: {names: a.example, agree_terms: true}\n",
			[]string{"acme.names: [] -> [a.example] (restart)", "acme.agree_terms: false -> true (restart)", "acme.storage: acme -> /etc/acme (restart)"}},
		{"ACME goes on", back + "acme: {names: a.example, agree_terms: true, email: a}\n", back + "acme: {names: b.example, agree_terms: true}\n",
			[]string{"acme.names: [a.example] -> [b.example]", `acme.email: a -> "" (restart)`}},
		{"list of values", back, back + "tls: {groups: [X25519]}\n",
			[]string{"tls.groups: " + textOf(reflect.ValueOf(Default().TLS.Groups)) + " -> [X25519]"}},
		{"backend", back, base + "backends: {urls: ['http://a', 'http://b']}\n", []string{"backends.urls: [http://a] -> [http://a, http://b]"}},
		{"host added", host("a.example", "c.example"), host("a.example", "b.example", "c.example"),
			[]string{"hosts[1]:  -> " + textOf(reflect.ValueOf(parse2(t, host("b.example")).Hosts[0]))}},
		{"host changed", host("a.example", "c.example"), host("a.example", "d.example"), []string{"hosts[1].names: [c.example] -> [d.example]"}},
		{"host removed", host("a.example", "c.example"), host("c.example"),
			[]string{"hosts[0]: " + textOf(reflect.ValueOf(parse2(t, host("a.example")).Hosts[0])) + " -> "}},
		{"pools", back + "pools: {p: {urls: 'http://p'}}\n", back + "pools: {p: {urls: 'http://p', retries: 1}}\n", []string{"pools.p.retries: 2 -> 1"}},
		{"pool added", back, back + "pools: {p: {urls: 'http://p'}}\n",
			[]string{"pools.p:  -> " + textOf(reflect.ValueOf(parse2(t, back+"pools: {p: {urls: 'http://p'}}\n").Pools["p"]))}},
	} {
		var got []string
		for _, c := range Diff(parse2(t, test.from), parse2(t, test.to)) {
			line := fmt.Sprintf("%s: %s -> %s", c.Key, c.From, c.To)
			if c.Restart {
				line += " (restart)"
			}
			got = append(got, line)
		}
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", test.name, strings.Join(got, "\n"), strings.Join(test.want, "\n"))
		}
	}
	long := base + "backends: {urls: ['http://" + strings.Repeat("a", 2*maxChangeText) + "']}\n"
	if c := Diff(parse2(t, back), parse2(t, long)); len(c) != 1 || len(c[0].To) != maxChangeText+len("...") {
		t.Errorf("a long value: %+v", c)
	}
}

// TestKeepUntilRestart: what is kept is exactly what Diff marks.
func TestKeepUntilRestart(t *testing.T) {
	running := parse2(t, smallest)
	next := parse2(t, smallest+"listen: ':1'\nadmin: {listen: ':2'}\nlimits: {streams: 5, requests: 6}\ntimeouts: {idle: 7s, write: 8s}\n")
	next.KeepUntilRestart(running)
	var got []string
	for _, c := range Diff(running, next) {
		if c.Restart {
			t.Errorf("%s is not kept", c.Key)
		}
		got = append(got, c.Key)
	}
	if want := []string{"timeouts.write", "limits.requests"}; !reflect.DeepEqual(got, want) {
		t.Errorf("changed: %v, want %v", got, want)
	}
	next = parse2(t, smallest+"acme: {names: a.example, agree_terms: true, directory: 'https://a.example'}\n")
	if next.KeepUntilRestart(running); len(next.ACME.Names) > 0 {
		t.Errorf("names for ACME are taken up without the rest: %+v", next.ACME)
	}
}

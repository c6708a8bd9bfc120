package service

import (
	"strings"
	"testing"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
)

func TestGPUSchemes(t *testing.T) {
	for rest, want := range map[string]string{
		"":                          "CTRU-Prime-761",
		"tls: {groups: [X25519]}\n": "CTRU-Prime-761", // for a GPU that only signs
		"tls: {groups: [X25519, X25519CTRUPrime1277, X25519CTRUPrime653]}\n":                                  "CTRU-Prime-653 CTRU-Prime-1277",
		"tls: {groups: [X25519]}\nhosts: [{names: a.example, tls: {groups: [X25519CTRUPrime653, X25519]}}]\n": "CTRU-Prime-653",
		"pools: {web: {urls: 'https://127.0.0.1:2', tls: {groups: [X25519CTRUPrime1277, X25519]}}}\n":         "CTRU-Prime-761 CTRU-Prime-1277",
	} {
		c, err := config.Parse("c.yaml", []byte("certificates: [{cert: a, key: b}]\nbackends: {urls: http://127.0.0.1:1}\n"+rest))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range gpuSchemes(c) {
			names = append(names, s.Name())
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q: %s, want %s", rest, got, want)
		}
	}
}

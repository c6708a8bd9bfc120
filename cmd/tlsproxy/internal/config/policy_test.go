package config

import (
	"crypto/tls"
	"reflect"
	"testing"
)

// TestPolicyFor has hosts that differ from the whole proxy, and one that does not.
func TestPolicyFor(t *testing.T) {
	c := parse2(t, smallest+`tls:
  groups: [X25519MLKEM768, X25519, SecP256r1MLKEM768]
  require_hybrid: true
  client_auth: {mode: require, ca: /ca.pem}
pools: {raw: {urls: 'tcp://a:1'}}
hosts:
- names: a.example
- {names: b.example, tls: {require_hybrid: false, alpn: http/1.1, client_auth: {mode: none}, min_version: 1.3, groups: X25519}}
- {names: c.example, mode: tcp, pool: raw}
- {names: d.example, mode: tcp, pool: raw, tls: {alpn: [mqtt], client_auth: {mode: request, ca: /d.pem, allow: 'cn:d'}}}
`)
	hybrid := []tls.CurveID{tls.X25519MLKEM768, tls.SecP256r1MLKEM768}
	both := []string{"h2", "http/1.1"}
	require := ClientAuth{Mode: ClientAuthRequire, CA: "/ca.pem"}
	for index, want := range map[int]Policy{
		-1: {hybrid, tls.VersionTLS13, both, true, require},
		0:  {hybrid, tls.VersionTLS13, both, true, require},
		1:  {[]tls.CurveID{tls.X25519}, tls.VersionTLS13, []string{"http/1.1"}, false, ClientAuth{Mode: ClientAuthNone}},
		2:  {hybrid, tls.VersionTLS13, nil, true, require},
		3:  {hybrid, tls.VersionTLS13, []string{"mqtt"}, true, ClientAuth{Mode: ClientAuthRequest, CA: "/d.pem", Allow: []ClientName{"cn:d"}}},
	} {
		if got := c.PolicyFor(index); !reflect.DeepEqual(got, want) {
			t.Errorf("%d: %+v, want %+v", index, got, want)
		}
	}
}

// TestNoCertificates are needed where each host has its own or passes TLS on.
func TestNoCertificates(t *testing.T) {
	parse2(t, `pools: {raw: {urls: 'tcp://a:1'}}
hosts:
- {names: a.example, mode: passthrough, pool: raw}
- {names: b.example, mode: tcp, pool: raw, certificates: {folder: b}}
unknown_host: refuse
`)
}

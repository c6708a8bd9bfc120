package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// smallest is the shortest valid file.
const smallest = `certificates: [{cert: a.pem, key: a.key}]
backends: {urls: http://127.0.0.1:8080}
`

// TestErrors pins the message of every class of fault.
func TestErrors(t *testing.T) {
	tests := []struct{ name, file, want string }{
		{"unknown key", "listne: localhost:1\n" + smallest,
			`1:1: unknown key "listne"; did you mean "listen"?`},
		{"unknown nested key", smallest + "timeouts:\n  handshak: 5s\n",
			`4:3: unknown key "handshak"; did you mean "handshake"?`},
		{"key of another section", smallest + "handshake: 5s\n",
			`3:1: unknown key "handshake"; did you mean "timeouts.handshake"?`},
		{"key like no other", smallest + "log:\n  zzzzzz: 1\n",
			`4:3: unknown key "zzzzzz"; valid are format, level, requests, failures_per_second`},
		{"key in a list", "certificates:\n- cret: a\n  cert: a\n  key: b\nbackends: {urls: 'http://b'}\n",
			`2:3: unknown key "cret"; did you mean "cert"?`},
		{"duplicate key", "listen: a:1\nlisten: b:1\n",
			`2:1: mapping key "listen" already defined at [1:1]`},
		{"merge key", smallest + "<<: {a: b}\n",
			`3:1: unknown key "<<"; valid are listen, certificates, acme, tls, backends, pools, hosts, unknown_host, headers, reload, timeouts, limits, log, admin, tracing, provider`},
		{"anchor", "listen: &here localhost:1\n" + smallest,
			`1:9: anchors and aliases are not supported; write the value out`},
		{"tag", "listen: !!str localhost:1\n" + smallest,
			`1:9: tags are not supported; remove !!str`},
		{"null", "listen:\n" + smallest,
			`1:8: listen has no value; give it one, or remove the key to have its default`},
		{"syntax: brackets", "listen: [a:1\n" + smallest,
			`2:1: ',' or ']' must be specified`},
		{"syntax: tab", "tls:\n\tgroups: X25519\n",
			`2:1: found character '	' that cannot start any token`},
		{"second document", smallest + "---\nlisten: localhost:1\n",
			`4:1: a second document starts here; a configuration is one document`},
		{"not a mapping", "- a\n",
			"1:1: the file is a list; it must be a mapping of keys to values\n" +
				`1:1: missing key "certificates"; name the PEM files of at least one certificate: a list of {cert: FILE, key: FILE} or {folder: FOLDER}` + "\n" +
				`1:1: missing key "backends.urls"; name at least one backend, such as http://127.0.0.1:8080`},
		{"empty", "", `1:1: missing key "certificates"; name the PEM files of at least one certificate: a list of {cert: FILE, key: FILE} or {folder: FOLDER}` + "\n" +
			`1:1: missing key "backends.urls"; name at least one backend, such as http://127.0.0.1:8080`},
		{"section is a value", smallest + "limits: 5\n",
			`3:9: limits is a single value; it must be a mapping of keys to values`},
		{"value is a list", smallest + "timeouts:\n  idle: [1s, 2s]\n",
			`4:9: timeouts.idle is a list; it must be a single value`},
		{"value is a mapping", smallest + "tls:\n  min_version: {a: b}\n",
			`4:16: tls.min_version is a mapping; it must be a single value`},
		{"missing key of a certificate", "certificates:\n- cert: a.pem\nbackends: {urls: 'http://b'}\n",
			`2:3: missing key "key" in certificates[0]; each certificate needs cert and key, or folder`},
		{"certificate without anything", "certificates: [{}]\nbackends: {urls: 'http://b'}\n",
			`1:16: missing key "cert" in certificates[0]; each certificate needs cert and key, or folder` + "\n" +
				`1:16: missing key "key" in certificates[0]; each certificate needs cert and key, or folder`},
		{"no certificates", "certificates: []\nbackends: {urls: 'http://b'}\n",
			`1:15: certificates is empty; name the PEM files of at least one certificate: a list of {cert: FILE, key: FILE} or {folder: FOLDER}`},
		{"no urls", "certificates: [{cert: a.pem, key: a.key}]\nbackends:\n  eject_after: 2\n",
			`3:3: missing key "backends.urls"; name at least one backend, such as http://127.0.0.1:8080`},
		{"empty file name", "certificates: [{cert: '', key: a.key}]\nbackends: {urls: 'http://b'}\n",
			`1:23: certificates[0].cert: the value is empty`},
		{"empty list", smallest + "tls:\n  groups: []\n",
			`4:11: tls.groups is an empty list; remove the key to have its default`},
		{"address without port", "listen: localhost\n" + smallest,
			`1:9: listen[0]: "localhost" is not an address; write host:port, such as localhost:8443`},
		{"address with a bad port", "listen: [localhost:1, 'localhost:https']\n" + smallest,
			`1:23: listen[1]: port "https" of "localhost:https" is not a number from 0 to 65535`},
		{"address with a large port", "listen: localhost:65536\n" + smallest,
			`1:9: listen[0]: port "65536" of "localhost:65536" is not a number from 0 to 65535`},
		{"address with a path", "listen: 'http://localhost:1'\n" + smallest,
			`1:9: listen[0]: "http://localhost:1" is not an address; write host:port, such as localhost:8443`},
		{"address twice", "listen: [localhost:1, localhost:1]\n" + smallest,
			`1:23: listen names localhost:1 twice`},
		{"address of a socket", "listen: unix:run/a\n" + smallest,
			`1:9: listen[0]: "unix:run/a" names no Unix socket; write its absolute path, as in unix:/run/tlsproxy.sock, 107 bytes at most`},
		{"name of a socket", "listen: 'systemd:a:b'\n" + smallest,
			`1:9: listen[0]: "systemd:a:b" names no socket of systemd's; write what FileDescriptorName= says in its unit, as in systemd:https`},
		{"listener without address", "listen: {reuse_port: true}\n" + smallest,
			`1:9: missing key "address" in listen[0]; write host:port, unix:PATH or systemd:NAME`},
		{"listener's key", "listen: {adress: ':1'}\n" + smallest,
			`1:9: missing key "address" in listen[0]; write host:port, unix:PATH or systemd:NAME` + "\n" + `1:10: unknown key "adress"; did you mean "address"?`},
		{"list in listen", "listen: [[':1']]\n" + smallest,
			`1:10: listen[0] is a list; it must be a single value`},
		{"mode", "listen: {address: unix:/a, mode: '0899'}\n" + smallest,
			`1:34: listen[0].mode: "0899" is not the mode of a socket; write three or four octal digits in quotes, such as "0660"`},
		{"reuse_port of a socket", "listen: {address: unix:/a, reuse_port: true}\n" + smallest,
			`1:40: listen[0].reuse_port is for host:port, and unix:/a is none`},
		{"nobody in front", "listen:\n- address: ':1'\n  proxy_protocol: {mode: optional}\n" + smallest,
			`3:19: missing key "listen[0].proxy_protocol.from"; list the networks that proxies connect from, such as 10.0.0.0/8; they say who clients are, so name no others`},
		{"networks", "listen: {address: ':1', proxy_protocol: {from: [10.0.0.1/8, 10.0.0.0, 10.0.0.0/32, lan]}}\n" + smallest,
			`1:49: listen[0].proxy_protocol.from[0]: "10.0.0.1/8" has bits behind its length; the network is 10.0.0.0/8` + "\n" +
				`1:71: listen[0].proxy_protocol.from names 10.0.0.0/32 twice` + "\n" +
				`1:84: listen[0].proxy_protocol.from[3]: "lan" is not a network; write one such as 10.0.0.0/8, 2001:db8::/32 or 192.0.2.1, or unix`},
		{"networks of a socket", "listen: {address: unix:/a, proxy_protocol: {from: 10.0.0.0/8}}\n" + smallest,
			`1:51: listen[0].proxy_protocol.from: what connects to a Unix socket has no address; write from: unix`},
		{"unix at a port", "listen: {address: ':1', proxy_protocol: {from: unix}}\n" + smallest,
			`1:48: listen[0].proxy_protocol.from: unix is for Unix sockets; list the networks that proxies connect from`},
		{"mode of the PROXY protocol", "listen: {address: ':1', proxy_protocol: {from: 10.0.0.0/8, mode: require}}\n" + smallest,
			`1:66: listen[0].proxy_protocol.mode: unknown mode "require"; did you mean "required"?`},
		{"version of the PROXY protocol", smallest + "pools: {p: {urls: 'http://b', proxy_protocol: v3}}\n",
			`3:47: pools.p.proxy_protocol: unknown version of the PROXY protocol "v3"; valid are none, v1, v2`},
		{"unknown group", smallest + "tls:\n  groups:\n  - X25519CTRUPrime716\n",
			`5:5: tls.groups[0]: unknown group "X25519CTRUPrime716"; did you mean "X25519CTRUPrime761"?`},
		{"group twice", smallest + "tls:\n  groups: [X25519, x25519]\n",
			`4:20: tls.groups names X25519 twice`},
		{"version", smallest + "tls:\n  min_version: 1.1\n",
			`4:16: tls.min_version: "1.1" is not a version of TLS that is served; write 1.2 or 1.3`},
		{"protocol", smallest + "tls:\n  alpn: [h2, http/1.0]\n",
			`4:14: tls.alpn[1]: unknown protocol "http/1.0"; did you mean "http/1.1"?`},
		{"too many", smallest + "tls:\n  alpn: [h2, http/1.1, h2]\n",
			`4:9: tls.alpn has 3 entries; the most is 2`},
		{"URL without scheme", "certificates: [{cert: a.pem, key: a.key}]\nbackends:\n  urls: localhost:8080\n",
			`3:9: backends.urls[0]: "localhost:8080" does not start with http://, https://, tcp://, tls://, http+unix:// or unix://`},
		{"URL that is none", "certificates: [{cert: a.pem, key: a.key}]\nbackends:\n  urls: 'http://[::1'\n",
			`3:9: backends.urls[0]: "http://[::1" is not a URL; write one such as http://127.0.0.1:8080`},
		{"URL without host", "certificates: [{cert: a.pem, key: a.key}]\nbackends:\n  urls: 'http://:80'\n",
			`3:9: backends.urls[0]: "http://:80" names no host`},
		{"URL with a password", "certificates: [{cert: a.pem, key: a.key}]\nbackends:\n  urls: 'http://me:secret@b'\n",
			`3:9: backends.urls[0]: a backend's URL cannot hold a user or password`},
		{"URL with a query", "certificates: [{cert: a.pem, key: a.key}]\nbackends:\n  urls: 'http://b/?q'\n",
			`3:9: backends.urls[0]: "http://b/?q": a backend's URL cannot hold a query or fragment`},
		{"URL with a bad port", "certificates: [{cert: a.pem, key: a.key}]\nbackends:\n  urls: 'http://b:70000'\n",
			`3:9: backends.urls[0]: port "70000" of "http://b:70000" is not a number from 1 to 65535`},
		{"URL twice", "certificates: [{cert: a.pem, key: a.key}]\nbackends:\n  urls: ['http://b', 'http://B']\n",
			`3:22: backends.urls names http://b twice`},
		{"tcp URL without port", "certificates: [{cert: a.pem, key: a.key}]\nbackends:\n  urls: 'tcp://b'\n",
			`3:9: backends.urls[0]: "tcp://b" names no port; write one such as tcp://127.0.0.1:5432`},
		{"tcp URL with a path", "certificates: [{cert: a.pem, key: a.key}]\nbackends:\n  urls: 'tls://b:1/'\n",
			`3:9: backends.urls[0]: "tls://b:1/": the URL of a tls backend cannot hold a path`},
		{"socket that is relative", "certificates: [{cert: a.pem, key: a.key}]\nbackends:\n  urls: 'http+unix://run/app.sock'\n",
			`3:9: backends.urls[0]: "http+unix://run/app.sock" names no Unix socket; write its absolute path after three slashes, as in http+unix:///run/app.sock, 107 bytes at most`},
		{"socket with TLS", smallest + "pools:\n  p: {urls: 'http+unix:///run/b', protocol: h2}\n",
			`4:13: pools.p: protocol h2 needs https backends; for http backends write protocol: h2c`},
		{"pool of two kinds", smallest + "pools:\n  p: {urls: ['http://b', 'tcp://b:1']}\n",
			`4:26: pools.p has both http and tcp backends; a pool speaks HTTP or it does not`},
		{"pool without urls", smallest + "pools:\n  p: {retries: 1}\n",
			`4:6: missing key "pools.p.urls"; name at least one backend, such as http://127.0.0.1:8080`},
		{"pools is a list", smallest + "pools: [a]\n",
			`3:8: pools is a list; it must be a mapping of names to values`},
		{"name of a pool", smallest + "pools: {a.b: {urls: 'http://b'}}\n",
			`3:9: "a.b" is not a name for an entry of pools; write letters, digits, - and _, 64 at most`},
		{"pool named default", smallest + "pools:\n  default: {urls: 'http://b'}\n",
			`4:12: the pool "default" is described by the key backends; choose another name`},
		{"key of a pool", smallest + "pools:\n  p: {urls: 'http://b', balanse: hash}\n",
			`4:25: unknown key "balanse"; did you mean "balance"?`},
		{"backend protocol", smallest + "pools: {p: {urls: 'http://b', protocol: http2}}\n",
			`3:41: pools.p.protocol: unknown protocol "http2"; did you mean "http1"?`},
		{"h2 without TLS", smallest + "pools:\n  p: {urls: 'http://b', protocol: h2}\n",
			`4:13: pools.p: protocol h2 needs https backends; for http backends write protocol: h2c`},
		{"h2c with TLS", smallest + "pools:\n  p: {urls: 'https://b', protocol: h2c}\n",
			`4:13: pools.p: protocol h2c needs http backends; for https backends write protocol: h2`},
		{"balance", smallest + "pools: {p: {urls: 'http://b', balance: random}}\n",
			`3:40: pools.p.balance: unknown way to balance "random"; valid are round_robin, least_connections, hash`},
		{"hash key", smallest + "pools: {p: {urls: 'http://b', hash_key: cookie}}\n",
			`3:41: pools.p.hash_key: "cookie" is not a key to hash; write source, header NAME or cookie NAME`},
		{"half a client certificate", smallest + "pools: {p: {urls: 'https://b', tls: {cert: a.pem}}}\n",
			`3:37: pools.p.tls needs both cert and key, or neither`},
		{"classical retry without a classical group", smallest + "pools: {p: {urls: 'https://b', tls: {groups: X25519MLKEM768, classical_retry: true}}}\n",
			`3:79: pools.p.tls.classical_retry needs a classical group, such as X25519, in pools.p.tls.groups`},
		{"health without check", smallest + "pools: {p: {urls: 'http://b', health: {path: /up}}}\n",
			`3:39: pools.p.health does nothing without its key check; add check: http, grpc or connect`},
		{"health path", smallest + "pools: {p: {urls: 'http://b', health: {check: http, path: up}}}\n",
			`3:59: pools.p.health.path: "up" does not start with /`},
		{"health of tcp", smallest + "pools: {p: {urls: 'tcp://b:1', health: {check: http}}}\n",
			`3:48: pools.p.health.check: tcp backends can be checked by connect only`},
		{"health of gRPC", smallest + "pools: {p: {urls: 'http://b', health: {check: grpc}}}\n",
			`3:47: pools.p.health.check: grpc needs protocol: h2 or h2c`},
		{"host without names", smallest + "hosts:\n- pool: default\n",
			`4:3: missing key "hosts[0].names"; list the host names, such as www.example.org or *.example.org`},
		{"host name", smallest + "hosts: [{names: [a.example, 'b_c.example', 'a..b']}]\n",
			`3:44: hosts[0].names[2]: "a..b" is not a host name; write one such as www.example.org, *.example.org or *, without a port, and other scripts as xn-- names`},
		{"wildcard within", smallest + "hosts: [{names: a.*.example}]\n",
			`3:17: hosts[0].names[0]: "a.*.example" is not a host name; write one such as www.example.org, *.example.org or *, without a port, and other scripts as xn-- names`},
		{"host name that is an address", smallest + "hosts: [{names: 192.0.2.1}]\n",
			`3:17: hosts[0].names[0]: "192.0.2.1" is an address; clients name no host when they connect to one, so use the name *`},
		{"host name twice", smallest + "hosts: [{names: a.example}, {names: [b.example, A.example]}]\n",
			`3:49: hosts names a.example twice`},
		{"unknown pool", smallest + "pools: {web: {urls: 'http://b'}}\nhosts: [{names: a.example, pool: wbe}]\n",
			`4:34: hosts[0].pool: unknown pool "wbe"; did you mean "web"?`},
		{"unknown pool of a route", smallest + "hosts: [{names: a.example, routes: [{path: /a, pool: b}]}]\n",
			`3:54: hosts[0].routes[0].pool: unknown pool "b"; valid are default`},
		{"route without pool", smallest + "hosts: [{names: a.example, routes: [{path: /a}]}]\n",
			`3:37: missing key "pool" in hosts[0].routes[0]; each route needs path and pool`},
		{"route path", smallest + "hosts: [{names: a.example, routes: [{path: 'a/*', pool: default}]}]\n",
			`3:44: hosts[0].routes[0].path: "a/*" is not a path; write one such as /api/, without wildcards, percent signs or a query`},
		{"route path with dots", smallest + "hosts: [{names: a.example, routes: [{path: /a/.., pool: default}]}]\n",
			`3:44: hosts[0].routes[0].path: "/a/.." has an empty or dot segment, without which requests are compared; remove it`},
		{"route twice", smallest + "hosts: [{names: a.example, routes: [{path: /a, pool: default}, {path: /a, pool: default}]}]\n",
			`3:64: hosts[0].routes names /a twice`},
		{"mode", smallest + "hosts: [{names: a.example, mode: tls}]\n",
			`3:34: hosts[0].mode: unknown mode "tls"; valid are http, tcp, passthrough`},
		{"routes without HTTP", smallest + "pools: {p: {urls: 'tcp://b:1'}}\nhosts: [{names: a.example, mode: tcp, pool: p, routes: [{path: /, pool: default}]}]\n",
			`4:56: hosts[0].routes needs mode: http; in mode tcp no path is seen`},
		{"HTTP to a tcp pool", smallest + "pools: {p: {urls: 'tcp://b:1'}}\nhosts: [{names: a.example, pool: p}]\n",
			`4:34: hosts[0].pool: the pool "p" has tcp backends; mode http needs http or https backends`},
		{"bytes to an http pool", smallest + "hosts: [{names: a.example, mode: tcp}]\n",
			`3:9: hosts[0].pool: the pool "default" has http backends; mode tcp needs tcp or tls backends`},
		{"passthrough to a tls pool", smallest + "pools: {p: {urls: 'tls://b:1'}}\nhosts: [{names: a.example, mode: passthrough, pool: p}]\n",
			`4:53: hosts[0].pool: the pool "p" has tls backends; mode passthrough needs tcp backends, as TLS is theirs`},
		{"default pool of tcp", "certificates: [{cert: a.pem, key: a.key}]\nbackends: {urls: 'tcp://b:1'}\n",
			`2:18: backends.urls: the pool "default" has tcp backends; mode http needs http or https backends`},
		{"default pool is needed", "certificates: [{cert: a.pem, key: a.key}]\npools: {p: {urls: 'http://b'}}\nhosts: [{names: a.example, pool: p}]\n",
			`1:1: missing key "backends.urls"; name at least one backend, such as http://127.0.0.1:8080`},
		{"unknown host", smallest + "unknown_host: reject\n",
			`3:15: unknown_host: unknown treatment "reject"; valid are default, refuse`},
		{"unknown host beside any", smallest + "hosts: [{names: '*'}]\nunknown_host: refuse\n",
			`4:15: unknown_host has no effect beside a host named *; remove one of them`},
		{"key in the singular", smallest + "host: [{names: a}]\n",
			`3:1: unknown key "host"; did you mean "hosts"?`},
		{"duration without unit", smallest + "timeouts: {handshake: 10}\n",
			`3:23: timeouts.handshake: "10" is not a duration; write a number with a unit, such as 500ms, 10s or 2m`},
		{"duration too short", smallest + "timeouts: {handshake: 1ms}\n",
			`3:23: timeouts.handshake: 1ms is outside 10ms to 5m`},
		{"duration below none", smallest + "timeouts: {drain: -1s}\n",
			`3:19: timeouts.drain: -1s is outside 0 to 24h`},
		{"size", smallest + "limits: {header_bytes: 64kb}\n",
			`3:24: limits.header_bytes: "64kb" is not a size; write a whole number of bytes, such as 4096, 64KiB or 1MiB`},
		{"size beyond int64", smallest + "limits: {header_bytes: 9223372036854775807GiB}\n",
			`3:24: limits.header_bytes: "9223372036854775807GiB" is not a size; write a whole number of bytes, such as 4096, 64KiB or 1MiB`},
		{"size too large", smallest + "limits: {header_bytes: 17MiB}\n",
			`3:24: limits.header_bytes: 17MiB is outside 1KiB to 16MiB`},
		{"number", smallest + "limits: {connections: many}\n",
			`3:23: limits.connections: "many" is not a whole number`},
		{"number out of range", smallest + "limits: {streams: 0}\n",
			`3:19: limits.streams: 0 is outside 1 to 10000`},
		{"limits contradict", smallest + "limits: {connections: 10, handshakes: 11}\n",
			`3:39: limits.handshakes (11) is more than limits.connections (10); a connection in its handshake counts as one`},
		{"one limit is out of range", smallest + "limits: {connections: -5}\n",
			`3:23: limits.connections: -5 is outside 1 to 1000000`},
		{"URL that needs quotes", "certificates: [{cert: a.pem, key: a.key}]\nbackends: {urls: [http://a, http://127.0.0.1:8080]}\n",
			`2:29: backends.urls[1] is a mapping; it must be a single value; put quotes around a value that holds a colon, as in ["http://127.0.0.1:8080"]`},
		{"mapping in a list", smallest + "tls: {groups: [{a: b}]}\n",
			`3:16: tls.groups[0] is a mapping; it must be a single value`},
		{"client certificates without authorities", smallest + "tls: {client_auth: {mode: require}}\n",
			`3:20: missing key "ca" in tls.client_auth; name the PEM file of the authorities that vouch for clients`},
		{"authorities without a mode", smallest + "hosts: [{names: a.example, tls: {client_auth: {ca: c.pem}}}]\n",
			`3:47: missing key "mode" in hosts[0].tls.client_auth; write request or require`},
		{"authorities that nobody asks", smallest + "tls: {client_auth: {ca: c.pem}}\n",
			`3:20: tls.client_auth names certificates, but its mode is none; write request or require`},
		{"client mode", smallest + "tls: {client_auth: {mode: optional}}\n",
			`3:27: tls.client_auth.mode: unknown mode "optional"; valid are none, request, require`},
		{"client name", smallest + "tls: {client_auth: {mode: require, ca: c.pem, allow: ['a.example', 'dns:a.*', 'uri:*/a', 'dns:*.*.a']}}\n",
			`3:55: tls.client_auth.allow[0]: "a.example" is not a name; write cn:NAME, dns:NAME, email:ADDRESS or uri:URI` + "\n" +
				`3:68: tls.client_auth.allow[1]: "dns:a.*": a * can stand at the end of a uri, and as *. before a dns name` + "\n" +
				`3:79: tls.client_auth.allow[2]: "uri:*/a": a * can stand at the end of a uri, and as *. before a dns name` + "\n" +
				`3:90: tls.client_auth.allow[3]: "dns:*.*.a": a * can stand at the end of a uri, and as *. before a dns name`},
		{"hybrid without a group", smallest + "tls: {groups: X25519}\nhosts: [{names: a.example, tls: {require_hybrid: true}}]\n",
			`4:50: hosts[0].tls.require_hybrid is true, but none of the groups is post-quantum; add one, such as X25519MLKEM768`},
		{"hybrid with a version that has none", smallest + "tls: {require_hybrid: true}\nhosts: [{names: a.example, tls: {min_version: '1.2'}}]\n",
			`4:47: hosts[0].tls.min_version has no effect with require_hybrid, for which TLS 1.3 is needed; remove it`},
		{"choice", smallest + "hosts: [{names: a.example, tls: {require_hybrid: perhaps}}]\n",
			`3:50: hosts[0].tls.require_hybrid: "perhaps" is neither true nor false`},
		{"protocol of a host", smallest + "hosts: [{names: a.example, tls: {alpn: [h2, h3]}}]\n",
			`3:45: hosts[0].tls.alpn: "h3" is not spoken in mode http; h2 and http/1.1 are`},
		{"policy of another's TLS", smallest + "pools: {p: {urls: 'tcp://a:1'}}\nhosts: [{names: a.example, mode: passthrough, pool: p, tls: {alpn: h2}, certificates: {folder: c}}]\n",
			`4:61: hosts[0].tls has no effect in mode passthrough, in which TLS is the backend's; remove it` + "\n" +
				`4:87: hosts[0].certificates has no effect in mode passthrough, in which TLS is the backend's; remove it`},
		{"certificate of a host", smallest + "hosts: [{names: a.example, certificates: {cert: a.pem}}]\n",
			`3:42: missing key "key" in hosts[0].certificates[0]; each certificate needs cert and key, or folder`},
		{"no certificates for a host", "backends: {urls: 'http://b'}\nunknown_host: refuse\nhosts: [{names: a.example, certificates: {folder: a}}, {names: b.example}]\n",
			`1:1: missing key "certificates"; name the PEM files of at least one certificate: a list of {cert: FILE, key: FILE} or {folder: FOLDER}`},
		{"store", smallest + "tls: {tickets: {store: {url: 'http://a'}}}\n",
			`3:30: tls.tickets.store.url: not a URL of a store; write redis://HOST:PORT/DATABASE, or rediss:// for TLS`},
		{"store with a password", smallest + "tls: {tickets: {store: {url: 'redis://:secret@a'}}}\n",
			`3:30: tls.tickets.store.url: a store's URL cannot hold a user, a password or a query; there are the keys username and password_file`},
		{"store's database", smallest + "tls: {tickets: {store: {url: 'redis://a/b'}}}\n",
			`3:30: tls.tickets.store.url: "b" is not the number of a database`},
		{"store without secrets", smallest + "tls: {tickets: {store: {url: 'redis://a'}}}\n",
			`3:24: tls.tickets.store needs tls.tickets.secrets, under which keys are sealed in the store`},
		{"ticket lifetime", smallest + "tls: {tickets: {rotate: 1m, lifetime: 168h}}\n",
			`3:39: tls.tickets.lifetime (168h) is more than 1000 times tls.tickets.rotate (1m)`},
		{"ticket rotation", smallest + "tls: {tickets: {rotate: 0s}}\n",
			`3:25: tls.tickets.rotate: 0s is outside 1m to 168h`},
		{"terms", smallest + "acme: {names: a.example}\n",
			`3:7: acme.agree_terms is not true; read the terms of the authority at https://acme-v02.api.letsencrypt.org/directory, and if you agree to them write agree_terms: true`},
		{"wildcard by ACME", smallest + "acme: {agree_terms: true, names: [a.example, '*.example', a.example]}\n",
			`3:46: acme.names: *.example is a wildcard, for which authorities want a challenge by DNS; list the names themselves` + "\n" +
				`3:59: acme.names names a.example twice`},
		{"directory", smallest + "acme: {names: [], directory: 'http://a.example'}\n",
			`3:30: acme.directory: "http://a.example" is not a URL that begins with https://`},
		{"lifetime", smallest + "timeouts: {lifetime: 9s}\n",
			`3:22: timeouts.lifetime: 9s is less than 10s; 0 is no bound`},
		{"poll", smallest + "reload: {poll: 1ms}\n",
			`3:16: reload.poll: 1ms is less than 100ms; 0 is never`},
		{"folder and file", "certificates: [{folder: a, cert: b}]\nbackends: {urls: 'http://b'}\n",
			`1:16: certificates[0] has folder beside cert or key; make them two entries`},
		{"bool", smallest + "log: {requests: yes}\n",
			`3:17: log.requests: "yes" is neither true nor false`},
		{"format", smallest + "log: {format: jsno}\n",
			`3:15: log.format: unknown format "jsno"; did you mean "json"?`},
		{"level", smallest + "log: {level: verbose}\n",
			`3:14: log.level: unknown level "verbose"; valid are debug, info, warn, error`},
		{"engine", smallest + "provider: {engine: cuda}\n",
			`3:20: provider.engine: unknown engine "cuda"; valid are cpu, gpu, auto`},
		{"capacity", smallest + "provider: {gpu: {capacity: 0}}\n",
			`3:28: provider.gpu.capacity: 0 is outside 1 to 65536`},
		{"devices", smallest + "provider: {engine: auto, gpu: {devices: [0, 2, 0, -1]}}\n",
			`3:48: provider.gpu.devices names 0 twice` + "\n" + `3:51: provider.gpu.devices: -1 is no GPU's number; they count from 0`},
		{"key pool", smallest + "provider: {key_pool: 65537}\n",
			`3:22: provider.key_pool: 65537 is outside 0 to 65536`},
		{"traces to nowhere", smallest + "tracing: {endpoint: 'localhost:4318'}\n",
			`3:21: tracing.endpoint: "localhost:4318" is not the URL of a receiver of OTLP over HTTP; write one such as http://localhost:4318/v1/traces`},
		{"traces without an end", smallest + "tracing: {ratio: 1}\n",
			`3:10: tracing does nothing without its key endpoint; add one such as http://localhost:4318/v1/traces`},
		{"more than all traces", smallest + "tracing: {endpoint: 'http://t', ratio: 10%}\n",
			`3:40: tracing.ratio: "10%" is not a share; write a number from 0 to 1, such as 0.01`},
		{"traces' trust", smallest + "tracing: {endpoint: 'http://t', trust: [10.1.0.0/8, here]}\n",
			`3:41: tracing.trust[0]: "10.1.0.0/8" has bits behind its length; the network is 10.0.0.0/8` + "\n" +
				`3:53: tracing.trust[1]: "here" is not a network; write one such as 10.0.0.0/8, 2001:db8::/32 or 192.0.2.1, or unix`},
		{"traces' authority", smallest + "tracing: {endpoint: 'http://t', ca: x.pem}\n",
			`3:37: tracing.ca needs an endpoint that begins with https://`},
		{"mode of a port", "listen: [{address: ':1', mode: '0660'}, {address: systemd:https, mode: '0660'}]\n" + smallest,
			`1:32: listen[0].mode is for unix:PATH, and :1 is none; remove it, or where systemd opens a Unix socket write SocketMode= in its unit` + "\n" +
				`1:72: listen[1].mode is for unix:PATH, and systemd:https is none; remove it, or where systemd opens a Unix socket write SocketMode= in its unit`},
		{"burst without a rate", smallest + "limits: {handshake_burst_per_source: 7, sources: 8}\n",
			`3:38: limits.handshake_burst_per_source has no effect without limits.handshake_rate_per_source; set that too, or remove this` + "\n" +
				`3:50: limits.sources has no effect without limits.handshake_rate_per_source; set that too, or remove this`},
		{"file that is never looked at", smallest + "reload: {poll: 0s, every: 0s, configuration: true}\n",
			`3:46: reload.configuration has no effect while reload.poll and reload.every are 0; set one of them, or send SIGHUP when the file has changed`},
		{"access log below its level", smallest + "log: {requests: true, level: warn}\n",
			`3:17: log.requests has no effect at log.level warn, as its lines are at info; write level: info`},
		{"certificates of nobody", smallest + "headers: {client_cert: true}\nhosts: [{names: a.example, mode: tcp, pool: p, tls: {client_auth: {mode: request, ca: c}}}]\npools: {p: {urls: 'tcp://b:1'}}\n",
			`3:24: headers.client_cert has no effect as no client of HTTP is asked for a certificate; see tls.client_auth`},
		{"ACME without names", smallest + "acme: {agree_terms: true}\n",
			`3:7: acme has no effect without its key names; list the host names, or remove it`},
		{"store without a server", smallest + "tls: {tickets: {secrets: s, store: {username: u}}}\n",
			`3:36: tls.tickets.store has no effect without its key url; write one such as redis://127.0.0.1:6379/0, or remove it`},
		{"store's authority and user", smallest + "tls: {tickets: {secrets: s, store: {url: 'redis://a', ca: c, username: u}}}\n",
			`3:59: tls.tickets.store.ca needs a url that begins with rediss://` + "\n" +
				`3:72: tls.tickets.store.username needs tls.tickets.store.password_file, without which nobody logs in`},
		{"key without hash", smallest + "pools: {p: {urls: 'http://b', hash_key: cookie a}}\n",
			`3:41: pools.p.hash_key has no effect without balance: hash; write that too, or remove it`},
		{"health of no path", smallest + "pools: {p: {urls: 'http://b', health: {check: connect, path: /up, host: h}}}\n",
			`3:62: pools.p.health.path has no effect with check: connect, which asks for no path; remove it` + "\n" +
				`3:73: pools.p.health.host has no effect with check: connect, which asks for nothing; remove it`},
		{"retry without a first", smallest + "pools: {p: {urls: 'https://b', tls: {groups: X25519, classical_retry: true}}}\n",
			`3:71: pools.p.tls.classical_retry has no effect as no group of pools.p.tls.groups is post-quantum; remove it`},
		{"HTTP of bytes", smallest + "pools: {p: {urls: 'tcp://127.0.0.1:1', protocol: h2c, balance: hash, hash_key: header A, max_idle_connections: 7}}\n",
			`3:50: pools.p.protocol has no effect on tcp backends, which are not spoken to in HTTP; remove it` + "\n" +
				`3:80: pools.p.hash_key has no effect on tcp backends, for which there are no headers to look into; remove it` + "\n" +
				`3:112: pools.p.max_idle_connections has no effect on tcp backends, to which each client has a connection of its own; remove it`},
		{"TLS without TLS", smallest + "pools: {p: {urls: ['http://b', 'http+unix:///run/b'], ca: c, tls: {server_name: b}}}\n",
			`3:59: pools.p.ca has no effect as no URL begins with https:// or tls://; write that, or remove it` + "\n" +
				`3:67: pools.p.tls has no effect as no URL begins with https:// or tls://; write that, or remove it`},
		{"all at once", "listne: x\ntls:\n  min_version: 9\n  groups: [X]\nbackends: {urls: 'ftp://b'}\ncertificates: [{key: a}]\n",
			`1:1: unknown key "listne"; did you mean "listen"?` + "\n" +
				`3:16: tls.min_version: "9" is not a version of TLS that is served; write 1.2 or 1.3` + "\n" +
				`4:12: tls.groups[0]: unknown group "X"` + didYouMean("X", groups.Names(groups.All())) + "\n" +
				`5:18: backends.urls[0]: "ftp://b" does not start with http://, https://, tcp://, tls://, http+unix:// or unix://` + "\n" +
				`6:16: missing key "cert" in certificates[0]; each certificate needs cert and key, or folder`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("conf.yaml", []byte(test.file))
			if err == nil {
				t.Fatal("no error")
			}
			want := "tlsproxy: conf.yaml:" + strings.ReplaceAll(test.want, "\n", "\ntlsproxy: conf.yaml:")
			if err.Error() != want {
				t.Errorf("got\n%s\nwant\n%s", err, want)
			}
		})
	}
}

// TestManyErrors bounds what is printed.
func TestManyErrors(t *testing.T) {
	var file strings.Builder
	file.WriteString(smallest)
	for i := range maxErrorLines + 7 {
		fmt.Fprintf(&file, "qqqqqqqqqqqqqqq%d: 1\n", i)
	}
	_, err := Parse("c", []byte(file.String()))
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != maxErrorLines+1 || lines[maxErrorLines] != "tlsproxy: and 7 more" {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

// TestLoadErrors covers what goes wrong before there is a line to name.
func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, make([]byte, maxFileBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		filepath.Join(dir, "none.yaml"): "no such file or directory",
		dir:                             "is a directory",
		large:                           "the file is larger than 32MiB",
	} {
		_, err := Load(file)
		if err == nil || err.Error() != "tlsproxy: "+file+": "+want {
			t.Errorf("Load(%s) = %v, want %s", file, err, want)
		}
	}
}

func TestDefaults(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(file, []byte("\ufeff%YAML 1.2\n---\n"+smallest), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Certificates = []Certificate{{Cert: filepath.Join(dir, "a.pem"), Key: filepath.Join(dir, "a.key")}}
	want.Backends.URLs = c.Backends.URLs
	if got, want := string(c.YAML()), string(want.YAML()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if len(c.Backends.URLs) != 1 || c.Backends.URLs[0].Host != "127.0.0.1:8080" {
		t.Errorf("URLs: %v", c.Backends.URLs)
	}
}

// TestEverySettingIsRead sets every key to something that is not its default
// and expects to find it in the result.
func TestEverySettingIsRead(t *testing.T) {
	file := `listen: [":1", {address: "[::1]:2", reuse_port: true, proxy_protocol: {from: [10.1.0.0/16, "::ffff:192.0.2.1", "::ffff:10.2.0.0/112"], mode: optional, timeout: 2s}},
  {address: "unix:/run//a.sock", mode: "660", proxy_protocol: {from: unix}}, systemd:https]
certificates:
  - cert: /c/1.pem
    key: /c/1.key
  - folder: /c/more
acme: {names: [a.example, b.example], agree_terms: true, email: a@b.example, directory: "https://d.example/dir", directory_ca: /c/d.pem, storage: /c/acme}
tls:
  groups: [p-256, x25519mlkem768]
  min_version: "1.3"
  alpn: http/1.1
  require_hybrid: true
  client_auth: {mode: request, ca: /c/clients.pem, allow: ["uri:spiffe://a/*", "cn:b"]}
  tickets: {enabled: false, rotate: 2h, lifetime: 3h, secrets: /c/tickets, store: {url: "rediss://r:1/2", username: u, password_file: /c/p, ca: /c/r.pem, prefix: "x:"}}
backends:
  urls:
    - http://one:8080
    - https://two/base
  protocol: auto
  balance: hash
  hash_key: header  X-Key
  proxy_protocol: v2
  ca: /c/ca.pem
  tls: {cert: /c/c.pem, key: /c/c.key, server_name: b.example, groups: [X25519MLKEM768, X25519], min_version: "1.3", classical_retry: true}
  health: {check: http, path: /up, host: h.example, interval: 1s, timeout: 2s, healthy_after: 3, unhealthy_after: 4}
  retries: 6
  eject_after: 7
  eject_for: 1m30s
  max_idle_connections: 5
  resolve: 8s
pools:
  raw: {urls: "tcp://one:1"}
hosts:
  - names: [a.example, "*.B.example"]
    pool: default
    routes: [{path: /a/, pool: default}]
  - names: c.example
    mode: tcp
    pool: raw
    certificates: {cert: /c/2.pem, key: /c/2.key}
    tls: {groups: X25519MLKEM768, min_version: "1.2", alpn: postgresql, require_hybrid: false, client_auth: {mode: require, ca: /c/d.pem, allow: "dns:*.e"}}
    limits: {connections: 27}
unknown_host: refuse
headers: {forwarded: true, client_cert: true}
reload: {poll: 3s, every: 4h, configuration: true}
timeouts: {handshake: 1s, read_header: 2s, read_body: 3s, write: 4s, idle: 5s, tunnel: 6s, lifetime: 28m,
  backend_connect: 7s, backend_write: 18s, backend_response: 8s, backend_read: 19s, backend_idle: 9s, drain: 10s}
limits: {connections: 11, connections_per_source: 12, handshakes: 10, handshakes_per_source: 9, handshake_rate_per_source: 24, handshake_burst_per_source: 25,
  sources: 26, key_exchanges: 29, key_exchange_wait: 30ms, requests: 13, streams: 14, url_bytes: 2 KiB, header_bytes: 15 KiB, parsed_certificates: 23}
log: {format: json, level: debug, requests: true, failures_per_second: 16}
admin: {listen: [':9001', '[::1]:9002']}
tracing: {endpoint: 'https://otel.example', ca: /t/ca.pem, headers_file: /t/headers, service: edge, ratio: 0.25, trust: [10.0.0.0/8, '::1', '::ffff:192.0.2.1', unix], queue: 28}
provider: {key_pool: 17, engine: auto, gpu: {library: /l/cuda.so, devices: [2, 0], workers: 3, capacity: 19, max_wait: 20ms, hang: 21s, open_timeout: 22s, check_every: 0, sign: true}}
`
	want := `listen:
- address: :1
  mode: "0600"
  reuse_port: false
  proxy_protocol:
    from: []
    mode: required
    timeout: 5s
- address: "[::1]:2"
  mode: "0600"
  reuse_port: true
  proxy_protocol:
    from:
    - 10.1.0.0/16
    - 192.0.2.1/32
    - 10.2.0.0/16
    mode: optional
    timeout: 2s
- address: unix:/run/a.sock
  mode: "0660"
  reuse_port: false
  proxy_protocol:
    from:
    - unix
    mode: required
    timeout: 5s
- address: systemd:https
  mode: "0600"
  reuse_port: false
  proxy_protocol:
    from: []
    mode: required
    timeout: 5s
certificates:
- cert: /c/1.pem
  key: /c/1.key
- folder: /c/more
acme:
  names:
  - a.example
  - b.example
  agree_terms: true
  email: a@b.example
  directory: https://d.example/dir
  directory_ca: /c/d.pem
  storage: /c/acme
tls:
  groups:
  - CurveP256
  - X25519MLKEM768
  min_version: "1.3"
  alpn:
  - http/1.1
  require_hybrid: true
  client_auth:
    mode: request
    ca: /c/clients.pem
    allow:
    - uri:spiffe://a/*
    - cn:b
  tickets:
    enabled: false
    rotate: 2h
    lifetime: 3h
    secrets: /c/tickets
    store:
      url: rediss://r:1/2
      username: u
      password_file: /c/p
      ca: /c/r.pem
      prefix: "x:"
backends:
  urls:
  - http://one:8080
  - https://two/base
  protocol: auto
  balance: hash
  hash_key: header X-Key
  proxy_protocol: v2
  ca: /c/ca.pem
  tls:
    cert: /c/c.pem
    key: /c/c.key
    server_name: b.example
    groups:
    - X25519MLKEM768
    - X25519
    min_version: "1.3"
    classical_retry: true
  health:
    check: http
    path: /up
    host: h.example
    interval: 1s
    timeout: 2s
    healthy_after: 3
    unhealthy_after: 4
  retries: 6
  eject_after: 7
  eject_for: 1m30s
  max_idle_connections: 5
  resolve: 8s
pools:
  raw:
    urls:
    - tcp://one:1
    protocol: http1
    balance: round_robin
    hash_key: source
    proxy_protocol: none
    ca: ""
    tls:
      cert: ""
      key: ""
      server_name: ""
      groups:
      - X25519MLKEM768
      - SecP256r1MLKEM768
      - SecP384r1MLKEM1024
      - X25519
      - CurveP256
      - CurveP384
      - CurveP521
      min_version: "1.2"
      classical_retry: false
    health:
      check: none
      path: /
      host: ""
      interval: 10s
      timeout: 2s
      healthy_after: 2
      unhealthy_after: 3
    retries: 2
    eject_after: 3
    eject_for: 5s
    max_idle_connections: 256
    resolve: 0s
hosts:
- names:
  - a.example
  - "*.b.example"
  mode: http
  pool: default
  routes:
  - path: /a/
    pool: default
  tls: {}
  limits:
    connections: 0
- names:
  - c.example
  mode: tcp
  pool: raw
  routes: []
  certificates:
  - cert: /c/2.pem
    key: /c/2.key
  tls:
    groups:
    - X25519MLKEM768
    min_version: "1.2"
    alpn:
    - postgresql
    require_hybrid: false
    client_auth:
      mode: require
      ca: /c/d.pem
      allow:
      - dns:*.e
  limits:
    connections: 27
unknown_host: refuse
headers:
  forwarded: true
  client_cert: true
reload:
  poll: 3s
  every: 4h
  configuration: true
timeouts:
  handshake: 1s
  read_header: 2s
  read_body: 3s
  write: 4s
  idle: 5s
  tunnel: 6s
  lifetime: 28m
  backend_connect: 7s
  backend_write: 18s
  backend_response: 8s
  backend_read: 19s
  backend_idle: 9s
  drain: 10s
limits:
  connections: 11
  connections_per_source: 12
  handshakes: 10
  handshakes_per_source: 9
  handshake_rate_per_source: 24
  handshake_burst_per_source: 25
  sources: 26
  key_exchanges: 29
  key_exchange_wait: 30ms
  requests: 13
  streams: 14
  url_bytes: 2KiB
  header_bytes: 15KiB
  parsed_certificates: 23
log:
  format: json
  level: debug
  requests: true
  failures_per_second: 16
admin:
  listen:
  - localhost:9001
  - "[::1]:9002"
tracing:
  endpoint: https://otel.example/v1/traces
  ca: /t/ca.pem
  headers_file: /t/headers
  service: edge
  ratio: "0.25"
  trust:
  - 10.0.0.0/8
  - ::1/128
  - 192.0.2.1/32
  - unix
  queue: 28
provider:
  key_pool: 17
  engine: auto
  gpu:
    library: /l/cuda.so
    devices:
    - 2
    - 0
    workers: 3
    capacity: 19
    max_wait: 20ms
    hang: 21s
    open_timeout: 22s
    check_every: 0
    sign: true
`
	c, err := Parse("c", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(c.YAML()); got != want {
		t.Errorf("got\n%s", got)
	}
	// What YAML writes is itself a configuration, the same one.
	again, err := Parse("c", c.YAML())
	if err != nil {
		t.Fatal(err)
	}
	if string(again.YAML()) != want {
		t.Errorf("read back: %s", again.YAML())
	}
}

// TestYAMLIsRead: what YAML writes is read where a default would do nothing if it were
// set on purpose.
func TestYAMLIsRead(t *testing.T) {
	for _, lines := range []string{
		smallest + "hosts: [{names: '*'}]\n",
		smallest + "hosts: [{names: a.example, mode: passthrough, pool: p}, {names: b.example, mode: tcp, pool: p}]\npools: {p: {urls: 'tcp://127.0.0.1:1'}}\n",
		smallest + "listen: [':1', 'unix:/a', systemd:a]\nlog: {level: error}\nreload: {poll: 0s, every: 0s}\n",
		smallest + "provider: {engine: cpu, gpu: {sign: true}}\ntls: {tickets: {enabled: false, secrets: /s}}\n",
		smallest + "limits: {handshake_rate_per_source: 0, handshake_burst_per_source: 7, sources: 8}\n",
		"hosts: [{names: '*', mode: passthrough, pool: p}]\npools: {p: {urls: 'tcp://127.0.0.1:1'}}\n",
		"hosts: [{names: a.example, mode: passthrough, pool: p}]\npools: {p: {urls: 'tcp://127.0.0.1:1'}}\nunknown_host: refuse\n",
	} {
		c, err := Parse("c", []byte(lines))
		if err != nil {
			t.Error(err)
			continue
		}
		again, err := Parse("c", c.YAML())
		if err != nil {
			t.Errorf("%v\n%s", err, c.YAML())
		} else if string(again.YAML()) != string(c.YAML()) {
			t.Errorf("read back: %s", again.YAML())
		}
	}
}

func TestErrorfBlamesTheNearestPlace(t *testing.T) {
	c, err := Parse("c", []byte(smallest))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"certificates[0].key": "1:35",
		"certificates[0].pin": "1:16",
		"backends.ca":         "2:11",
		"listen[0]":           "1:1",
	} {
		if got := c.Errorf(path, "x").Error(); got != "tlsproxy: c:"+want+": x" {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// TestErrorfWithoutAFile: a configuration that was made in memory has no place.
func TestErrorfWithoutAFile(t *testing.T) {
	if got := Default().Errorf("listen[0]", "x").Error(); got != "tlsproxy: x" {
		t.Error(got)
	}
}

// TestPathsAreAbsolute: what YAML writes means the same anywhere.
func TestPathsAreAbsolute(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	c, err := Parse(filepath.Join("sub", "c.yaml"), []byte("certificates: [{cert: a.pem, key: ../a.key}]\nbackends: {urls: https://b, ca: /ca.pem}\npools: {p: {urls: https://b, ca: ca.pem, tls: {cert: c.pem, key: c.key}}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd() // with links resolved
	if err != nil {
		t.Fatal(err)
	}
	pool := c.Pools["p"]
	got := []string{c.Certificates[0].Cert, c.Certificates[0].Key, c.Backends.CA, pool.CA, pool.TLS.Cert, pool.TLS.Key}
	sub := func(name string) string { return filepath.Join(here, "sub", name) }
	if want := []string{sub("a.pem"), filepath.Join(here, "a.key"), "/ca.pem", sub("ca.pem"), sub("c.pem"), sub("c.key")}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// FuzzParse wants an error or a valid configuration from any bytes, and the
// configuration to survive being written and read.
func FuzzParse(f *testing.F) {
	f.Add([]byte(smallest))
	f.Add([]byte("a: &x [*x]\n"))
	f.Add([]byte("{{"))
	f.Add([]byte("? a\n: b\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("f", data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "tlsproxy: f:") {
				t.Fatalf("error without its place: %v", err)
			}
			return
		}
		again, err := Parse("f", c.YAML())
		if err != nil {
			t.Fatalf("%v\n%s", err, c.YAML())
		}
		if string(again.YAML()) != string(c.YAML()) {
			t.Fatalf("%s\n%s", c.YAML(), again.YAML())
		}
	})
}

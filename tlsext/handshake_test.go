package tlsext_test

import (
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
)

func TestEachGroup(t *testing.T) {
	for _, tc := range []struct {
		group        tls.CurveID
		name         string
		client, serv int // bytes of the shares
	}{
		{ctru653, "X25519CTRUPrime653", 32 + 1062, 32 + 898},
		{ctru761, "X25519CTRUPrime761", 32 + 1237, 32 + 952},
		{ctru1277, "X25519CTRUPrime1277", 32 + 2076, 32 + 1597},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var serverShare int
			hits := 0
			h := (&handshake{
				server: serverConfig(tc.group), client: clientConfig(tc.group),
				mangleServer: replaceShare(tc.group, &hits, func(b []byte) []byte { serverShare = len(b); return b }),
			}).succeeds(t, tc.group, false)
			if got := h.serverState.CurveID.String(); got != tc.name {
				t.Errorf("CurveID.String is %q, want %q", got, tc.name)
			}
			if got := len(h.hellos[0].shares[0].data); got != tc.client {
				t.Errorf("client's share is %d bytes, want %d", got, tc.client)
			}
			if serverShare != tc.serv {
				t.Errorf("server's share is %d bytes, want %d", serverShare, tc.serv)
			}
		})
	}
}

// Where a Config names one of our groups, its order counts, on either side.
func TestOrderIsHonoured(t *testing.T) {
	for _, tc := range []struct {
		server, client []tls.CurveID
		offered        []tls.CurveID // by the client; its list where nil
		want           tls.CurveID
		retry          bool
	}{
		{server: ids(ctru761, mlkem768, x25519), client: ids(ctru761, mlkem768, x25519), want: ctru761},
		{server: ids(mlkem768, ctru761, x25519), client: ids(ctru761, mlkem768, x25519), want: mlkem768},
		{server: ids(x25519, ctru761, mlkem768), client: ids(ctru761, mlkem768, x25519), want: x25519},
		{server: ids(ctru761, mlkem768, x25519), client: ids(x25519, mlkem768, ctru761), want: ctru761},
		{server: ids(ctru1277, ctru761, ctru653), client: ids(ctru653, ctru761, ctru1277), want: ctru1277, retry: true},
		{server: ids(ctru653, ctru761), client: ids(ctru1277, ctru761, ctru653), want: ctru653, retry: true},
		{server: ids(p384, ctru761, x25519), client: ids(ctru761, x25519, p384), want: p384, retry: true},
		{server: ids(p256, ctru761), client: ids(p256, ctru761, x25519), want: p256},
		// Groups named twice, and some that nobody knows.
		{server: ids(0x1234, ctru761, ctru761, 0xFE00, x25519), client: ids(0xFE01, ctru761, 0x2345, x25519, ctru761, x25519),
			offered: ids(ctru761, x25519), want: ctru761},
	} {
		t.Run(fmt.Sprint(tc.server, tc.client), func(t *testing.T) {
			h := (&handshake{server: serverConfig(tc.server...), client: clientConfig(tc.client...)}).succeeds(t, tc.want, tc.retry)
			want := tc.offered
			if want == nil {
				want = tc.client
			}
			if got := h.hellos[0].groups; !slices.Equal(got, want) {
				t.Errorf("the client offered %v, want %v", got, want)
			}
		})
	}
}

func ids(groups ...tls.CurveID) []tls.CurveID { return groups }

// A peer whose Config names none of our groups is crypto/tls as it always was:
// nothing that a client of ours adds costs a HelloRetryRequest there.
func TestStockPeers(t *testing.T) {
	ours := ids(ctru761, mlkem768, x25519, p256)
	for _, tc := range []struct {
		name           string
		server, client []tls.CurveID
		want           tls.CurveID
	}{
		{"stock server, defaults", nil, ours, mlkem768},
		{"stock server, X25519 and P-256", ids(p256, x25519), ours, x25519},
		{"stock server, MLKEM only", ids(mlkem768), ours, mlkem768},
		{"stock client, defaults", ours, nil, mlkem768},
		{"stock client, X25519", ours, ids(x25519), x25519},
		{"stock client, P-256", ours, ids(p256), p256},
		{"stock server, client without MLKEM", nil, ids(ctru761, x25519), x25519},
	} {
		t.Run(tc.name, func(t *testing.T) {
			(&handshake{server: serverConfig(tc.server...), client: clientConfig(tc.client...)}).succeeds(t, tc.want, false)
		})
	}
}

// The groups are TLS 1.3's; an older version is negotiated without them.
func TestTLS12(t *testing.T) {
	for name, older := range map[string]func(h *handshake){
		"server": func(h *handshake) { h.server.MaxVersion = tls.VersionTLS12 },
		"client": func(h *handshake) { h.client.MaxVersion = tls.VersionTLS12 },
	} {
		t.Run(name, func(t *testing.T) {
			h := &handshake{server: serverConfig(ctru761, x25519), client: clientConfig(ctru761, x25519)}
			older(h)
			h.succeeds(t, x25519, false)
			if v := h.serverState.Version; v != tls.VersionTLS12 {
				t.Errorf("negotiated %s", tls.VersionName(v))
			}
		})
	}
	t.Run("nothing but ours", func(t *testing.T) {
		h := &handshake{server: serverConfig(ctru761), client: clientConfig(ctru761, x25519)}
		h.client.MaxVersion = tls.VersionTLS12
		if h.run(t); h.serverErr == nil || h.clientErr == nil {
			t.Errorf("server: %v; client: %v; want both to fail", h.serverErr, h.clientErr)
		}
	})
}

func TestNoGroupInCommon(t *testing.T) {
	h := (&handshake{server: serverConfig(ctru761), client: clientConfig(ctru653, x25519)}).run(t)
	checkAlert(t, "server", h.serverAlerts, alertHandshakeFailure)
}

// A resumed session makes a key exchange of its own (psk_dhe_ke), also where the
// ticket comes from a connection with another group.
func TestResumption(t *testing.T) {
	for _, tc := range []struct {
		first, second tls.CurveID
		retry         bool
	}{
		{first: ctru761, second: ctru761},
		{first: mlkem768, second: ctru761},
		{first: ctru761, second: x25519},
		{first: ctru761, second: ctru653, retry: true},
	} {
		t.Run(fmt.Sprint(tc.first, " then ", tc.second), func(t *testing.T) {
			client := clientConfig(ctru761, mlkem768, x25519, ctru653)
			client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
			server := serverConfig(tc.first)
			server.SetSessionTicketKeys([][32]byte{{1}})
			(&handshake{server: server, client: client}).succeeds(t, tc.first, false)
			again := serverConfig(tc.second, ctru1277)
			again.SetSessionTicketKeys([][32]byte{{1}})
			h := (&handshake{server: again, client: client}).succeeds(t, tc.second, tc.retry)
			if !h.serverState.DidResume || !h.clientState.DidResume {
				t.Errorf("resumed: server %v, client %v", h.serverState.DidResume, h.clientState.DidResume)
			}
		})
	}
}

func TestClientCertificate(t *testing.T) {
	h := &handshake{server: serverConfig(ctru761), client: clientConfig(ctru761)}
	h.server.ClientAuth, h.server.ClientCAs = tls.RequireAndVerifyClientCert, ca.pool
	h.client.Certificates = []tls.Certificate{ca.issue("client.test")}
	h.succeeds(t, ctru761, false)
	if certs := h.serverState.PeerCertificates; len(certs) != 1 || certs[0].Subject.CommonName != "client.test" {
		t.Errorf("the server saw %v", certs)
	}
}

func TestEncryptedClientHello(t *testing.T) {
	key, list := echKey(t)
	for _, tc := range []struct {
		name   string
		server []tls.CurveID
		want   tls.CurveID
		retry  bool
	}{
		{"ours", ids(ctru761), ctru761, false},
		{"stock", nil, mlkem768, false},
		{"HelloRetryRequest for ours", ids(ctru653), ctru653, true},
		{"HelloRetryRequest for P-384", ids(p384), p384, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := &handshake{server: serverConfig(tc.server...), client: clientConfig(ctru761, mlkem768, x25519, ctru653, p384)}
			h.server.EncryptedClientHelloKeys = []tls.EncryptedClientHelloKey{key}
			h.client.EncryptedClientHelloConfigList = list
			h.succeeds(t, tc.want, tc.retry)
			if !h.serverState.ECHAccepted || !h.clientState.ECHAccepted {
				t.Errorf("ECH accepted: server %v, client %v", h.serverState.ECHAccepted, h.clientState.ECHAccepted)
			}
		})
	}
	t.Run("rejected", func(t *testing.T) {
		h := &handshake{server: serverConfig(ctru761), client: clientConfig(ctru761)}
		h.client.EncryptedClientHelloConfigList = list
		var rejected *tls.ECHRejectionError
		if h.run(t); !errors.As(h.clientErr, &rejected) {
			t.Errorf("the client ended with %v, want an ECHRejectionError", h.clientErr)
		}
	})
}

// echKey makes a key for Encrypted Client Hello and the config list that names
// it (RFC 9849, section 4).
func echKey(t *testing.T) (tls.EncryptedClientHelloKey, []byte) {
	t.Helper()
	k, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	const publicName = "public.test"
	u16 := binary.BigEndian.AppendUint16
	vector := func(b []byte) []byte { return append(u16(nil, uint16(len(b))), b...) }
	contents := slices.Concat(
		[]byte{7},      // config_id
		u16(nil, 0x20), // DHKEM(X25519, HKDF-SHA256)
		vector(k.PublicKey().Bytes()),
		vector(u16(u16(nil, 1), 1)), // HKDF-SHA256, AES-128-GCM
		[]byte{32},                  // maximum_name_length
		append([]byte{byte(len(publicName))}, publicName...),
		vector(nil), // extensions
	)
	config := append(u16(nil, 0xfe0d), vector(contents)...)
	return tls.EncryptedClientHelloKey{Config: config, PrivateKey: k.Bytes(), SendAsRetry: true}, vector(config)
}

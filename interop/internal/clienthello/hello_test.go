package clienthello

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"reflect"
	"slices"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRoundTrip(t *testing.T) {
	h := New("example.com", []uint16{0xfe76, 29}, []KeyShare{{0xfe76, make([]byte, 1300)}, {29, make([]byte, 32)}, {30, nil}})
	h.SetALPN("h2", "http/1.1")
	rand.Read(h.Random[:])
	msg, err := h.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(msg)
	if err != nil {
		t.Fatal(err)
	}
	again, err := got.Marshal()
	if err != nil || !bytes.Equal(again, msg) {
		t.Errorf("Marshal(Parse(m)) differs from m (%v)", err)
	}
	groups, err := got.Groups()
	if err != nil || !slices.Equal(groups, []uint16{0xfe76, 29}) {
		t.Errorf("groups %x, %v", groups, err)
	}
	shares, err := got.KeyShares()
	if err != nil || len(shares) != 3 || shares[0].Group != 0xfe76 || len(shares[0].Data) != 1300 || len(shares[2].Data) != 0 {
		t.Errorf("shares %v, %v", shares, err)
	}
}

// Every prefix of a message is refused, whichever field it ends in.
func TestParseCutOff(t *testing.T) {
	msg, err := New("example.com", []uint16{29}, []KeyShare{{29, make([]byte, 32)}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(msg) {
		if _, err := Parse(msg[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes were parsed", n, len(msg))
		}
	}
	for n := range len(msg) - 4 {
		short := slices.Clone(msg[:4+n])
		short[1], short[2], short[3] = 0, byte(n>>8), byte(n)
		h, err := Parse(short)
		if err == nil && len(h.Extensions) != 0 {
			t.Fatalf("a body of %d bytes out of %d was parsed", n, len(msg)-4)
		}
	}
}

func TestPad(t *testing.T) {
	h := New("a", []uint16{29}, nil)
	for _, size := range []int{4096, 5000, 16000} {
		if err := h.Pad(size); err != nil {
			t.Fatal(err)
		}
		if msg, _ := h.Marshal(); len(msg) != size {
			t.Errorf("%d bytes, want %d", len(msg), size)
		}
	}
	if h.Pad(10) == nil {
		t.Error("padded to less than the message has")
	}
}

func TestMarshalTooLong(t *testing.T) {
	h := New("a", []uint16{29}, nil)
	h.SessionID = make([]byte, 256)
	if _, err := h.Marshal(); err == nil {
		t.Error("a session ID of 256 bytes was marshalled")
	}
}

func TestReaderBound(t *testing.T) {
	msg := make([]byte, maxMessage+1)
	msg[1], msg[2], msg[3] = byte((len(msg)-4)>>16), byte((len(msg)-4)>>8), byte((len(msg)-4)&0xff)
	if _, err := NewReader(bytes.NewReader(Records(FirstVersion, msg, 0))).Message(); err == nil {
		t.Errorf("a message of %d bytes was read", len(msg))
	}
	msg = msg[:maxMessage]
	msg[1], msg[2], msg[3] = byte((len(msg)-4)>>16), byte((len(msg)-4)>>8), byte((len(msg)-4)&0xff)
	got, err := NewReader(bytes.NewReader(Records(FirstVersion, msg, 1000))).Message()
	if err != nil || !bytes.Equal(got, msg) {
		t.Errorf("a message of %d bytes: %v", len(msg), err)
	}
}

// What crypto/tls sends is understood, and what is built here crypto/tls
// understands: the two ends of the same message.
func TestAgainstCryptoTLS(t *testing.T) {
	t.Run("parse", func(t *testing.T) {
		a, b := net.Pipe()
		defer b.Close()
		client := tls.Client(a, &tls.Config{ServerName: "example.com", CurvePreferences: []tls.CurveID{tls.X25519MLKEM768, tls.X25519}})
		done := make(chan error, 1)
		go func() { done <- client.Handshake() }()
		msg, err := NewReader(b).Message()
		b.Close()
		<-done
		if err != nil {
			t.Fatal(err)
		}
		h, err := Parse(msg)
		if err != nil {
			t.Fatal(err)
		}
		shares, err := h.KeyShares()
		if err != nil || len(shares) != 2 || shares[0].Group != uint16(tls.X25519MLKEM768) || len(shares[0].Data) != 1216 || len(shares[1].Data) != 32 {
			t.Errorf("shares %v, %v", shares, err)
		}
	})
	t.Run("build", func(t *testing.T) {
		var seen *tls.ClientHelloInfo
		stop := errors.New("seen")
		h := New("example.com", []uint16{0xfe76, 29}, []KeyShare{{29, make([]byte, 32)}})
		h.SetALPN("h2")
		err := serve(t, h, &tls.Config{GetConfigForClient: func(i *tls.ClientHelloInfo) (*tls.Config, error) {
			seen = i
			return nil, stop
		}}, nil)
		if !errors.Is(err, stop) || seen == nil {
			t.Fatalf("the hello did not reach GetConfigForClient: %v", err)
		}
		if seen.ServerName != "example.com" || !reflect.DeepEqual(seen.SupportedCurves, []tls.CurveID{0xfe76, 29}) ||
			!slices.Equal(seen.SupportedProtos, []string{"h2"}) || !slices.Equal(seen.SupportedVersions, []uint16{tls.VersionTLS13}) {
			t.Errorf("crypto/tls saw %+v", seen)
		}
	})
	t.Run("retry", func(t *testing.T) {
		h := New("example.com", []uint16{29, 23}, []KeyShare{{29, make([]byte, 32)}})
		var answer *Answer
		_ = serve(t, h, &tls.Config{Certificates: []tls.Certificate{{}}, CurvePreferences: []tls.CurveID{tls.CurveP256}}, func(r *Reader) {
			msg, err := r.Message()
			if err != nil {
				t.Error(err)
				return
			}
			if answer, err = ParseAnswer(msg); err != nil {
				t.Error(err)
			}
		})
		if answer == nil || !answer.Retry || answer.Group != 23 || answer.Share != nil {
			t.Errorf("answer %+v, want a HelloRetryRequest for group 23", answer)
		}
	})
	t.Run("alert", func(t *testing.T) {
		h := New("example.com", []uint16{0xfe76}, nil)
		var alert *Alert
		_ = serve(t, h, &tls.Config{Certificates: []tls.Certificate{{}}}, func(r *Reader) {
			if _, err := r.Message(); !errors.As(err, &alert) {
				t.Errorf("%v, want an alert", err)
			}
		})
		if alert == nil || alert.Description != 40 || alert.Level != 2 {
			t.Errorf("alert %+v, want handshake_failure", alert)
		}
	})
}

// serve sends h in records of 100 bytes to a crypto/tls server and returns its
// error; read, if given, takes the answer.
func serve(t *testing.T, h *Hello, cfg *tls.Config, read func(*Reader)) error {
	t.Helper()
	msg, err := h.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	a, b := net.Pipe()
	done := make(chan error, 1)
	go func() {
		err := tls.Server(a, cfg).HandshakeContext(context.Background())
		a.Close()
		done <- err
	}()
	go b.Write(Records(FirstVersion, msg, 100)) // fails where the server has gone
	if read != nil {
		read(NewReader(b))
	} else {
		io.Copy(io.Discard, b)
	}
	b.Close()
	return <-done
}

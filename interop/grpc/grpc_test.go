package grpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"

	"github.com/ctrutls/ctrutls/interop/internal/certs"
	"github.com/ctrutls/ctrutls/provider"
	"github.com/ctrutls/ctrutls/tlsext"
)

// patience bounds each test; none comes near it unless it hangs.
const patience = time.Minute

// scratch is the folder of the program that the tests build.
var scratch string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		p, err := provider.Open(provider.Config{})
		if err == nil {
			defer p.Close()
			err = tlsext.Register(p)
		}
		if err == nil {
			scratch, err = os.MkdirTemp("", "interop-grpc")
			defer os.RemoveAll(scratch)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		code := m.Run()
		p.Close()
		if err := goleak.Find(); code == 0 && err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}())
}

// service is a gRPC server with the health service, and a client of it.
type service struct {
	client  grpc_health_v1.HealthClient
	health  *health.Server
	serving chan tls.ConnectionState // of each call, as the server sees it
}

// maxCalls is how many calls a test may make without reading service.serving.
const maxCalls = 8

// serve starts a service whose two ends prefer these groups.
func serve(t *testing.T, serverGroups, clientGroups []tls.CurveID) *service {
	t.Helper()
	serverTLS, clientTLS := configs(t)
	serverTLS.CurvePreferences, clientTLS.CurvePreferences = serverGroups, clientGroups
	s := &service{health: health.NewServer(), serving: make(chan tls.ConnectionState, maxCalls)}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(serverTLS)),
		grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			s.serving <- peerState(ctx)
			return handle(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			s.serving <- peerState(stream.Context())
			return handle(srv, stream)
		}))
	grpc_health_v1.RegisterHealthServer(server, s.health)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(clientTLS)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	s.client = grpc_health_v1.NewHealthClient(conn)
	return s
}

func configs(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	files, err := certs.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(files.ServerCert, files.ServerKey)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}, &tls.Config{RootCAs: pool(t, files.CA), ServerName: certs.ServerName}
}

// pool holds the authority in a file.
func pool(t *testing.T, file string) *x509.CertPool {
	t.Helper()
	ca, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return roots
}

// peerState is the TLS state that gRPC gives to handlers and interceptors.
func peerState(ctx context.Context) tls.ConnectionState {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return tls.ConnectionState{}
	}
	return state(p)
}

func state(p *peer.Peer) tls.ConnectionState {
	info, _ := p.AuthInfo.(credentials.TLSInfo)
	return info.State
}

// agreed checks one end's state.
func agreed(t *testing.T, end string, s tls.ConnectionState, group tls.CurveID) {
	t.Helper()
	if s.CurveID != group || s.Version != tls.VersionTLS13 || s.NegotiatedProtocol != "h2" || s.HelloRetryRequest {
		t.Errorf("%s: %v, %s, ALPN %q, HelloRetryRequest %v; want %v, TLS 1.3, h2, false",
			end, s.CurveID, tls.VersionName(s.Version), s.NegotiatedProtocol, s.HelloRetryRequest, group)
	}
}

func TestGroups(t *testing.T) {
	for _, group := range tlsext.Groups() {
		t.Run(tlsext.GroupName(group), func(t *testing.T) {
			if got, want := group.String(), tlsext.GroupName(group); got != want {
				t.Errorf("the group's name is %q, want %q", got, want)
			}
			preferences := []tls.CurveID{group, tls.X25519MLKEM768, tls.X25519}
			s := serve(t, preferences, preferences)
			t.Run("unary", func(t *testing.T) { unary(t, s, group) })
			t.Run("stream", func(t *testing.T) { stream(t, s, group) })
		})
	}
}

// A client whose configuration names none of our groups is served as ever.
func TestFallback(t *testing.T) {
	s := serve(t, []tls.CurveID{tlsext.X25519CTRUPrime761, tls.X25519MLKEM768, tls.X25519}, nil)
	unary(t, s, tls.X25519MLKEM768)
}

func unary(t *testing.T, s *service, group tls.CurveID) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var p peer.Peer
	answer, err := s.client.Check(ctx, &grpc_health_v1.HealthCheckRequest{}, grpc.Peer(&p))
	if err != nil {
		t.Fatal(err)
	}
	if answer.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("status %v", answer.Status)
	}
	agreed(t, "client", state(&p), group)
	agreed(t, "server", <-s.serving, group)
}

// stream watches the service's status change: messages of one call, some of
// them sent after the client has seen others.
func stream(t *testing.T, s *service, group tls.CurveID) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	watch, err := s.client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{Service: "watched"})
	if err != nil {
		t.Fatal(err)
	}
	agreed(t, "client", peerState(watch.Context()), group)
	agreed(t, "server", <-s.serving, group)
	for _, want := range []grpc_health_v1.HealthCheckResponse_ServingStatus{
		grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN,
		grpc_health_v1.HealthCheckResponse_SERVING,
		grpc_health_v1.HealthCheckResponse_NOT_SERVING,
	} {
		if want != grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN {
			s.health.SetServingStatus("watched", want)
		}
		got, err := watch.Recv()
		if err != nil || got.Status != want {
			t.Fatalf("status %v (%v), want %v", got.GetStatus(), err, want)
		}
	}
}

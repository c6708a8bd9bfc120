package grpc

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"github.com/ctrutls/ctrutls/interop/internal/certs"
	"github.com/ctrutls/ctrutls/tlsext"
)

// tlsproxy builds the proxy, once.
var tlsproxy = sync.OnceValues(func() (string, error) {
	file := filepath.Join(scratch, "tlsproxy")
	cmd := exec.Command("go", "tool", "gotls", "build", "-o", file, "./cmd/tlsproxy")
	cmd.Dir = filepath.Join("..", "..") // its module
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building tlsproxy: %w\n%s", err, out)
	}
	return file, nil
})

// startProxy runs tlsproxy with a configuration and returns its address.
func startProxy(t *testing.T, configuration string) string {
	t.Helper()
	program, err := tlsproxy()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "tlsproxy.yaml")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "run", "-c", file)
	output, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address, all := make(chan string, 1), make(chan string, 1)
	go func() {
		var written strings.Builder
		lines := bufio.NewScanner(io.TeeReader(output, &written))
		for lines.Scan() {
			var entry struct{ Msg, Address string }
			if json.Unmarshal(lines.Bytes(), &entry) == nil && entry.Msg == "listening" {
				address <- entry.Address
			}
		}
		close(address)
		all <- written.String()
	}()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		written := <-all
		if err := cmd.Wait(); err != nil || strings.Contains(written, `"level":"WARN"`) {
			t.Errorf("tlsproxy ended with %v and wrote:\n%s", err, written)
		}
	})
	at, ok := <-address
	if !ok {
		t.Fatal("tlsproxy did not start")
	}
	return at
}

// backend is gRPC's own server for interoperability tests, over TLS or not.
func backend(t *testing.T, options ...grpc.ServerOption) (address string, status *health.Server) {
	t.Helper()
	server, status := grpc.NewServer(options...), health.NewServer()
	testgrpc.RegisterTestServiceServer(server, interop.NewTestServer())
	grpc_health_v1.RegisterHealthServer(server, status)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return listener.Addr().String(), status
}

// TestThroughProxy runs gRPC's interoperability tests through tlsproxy, which
// speaks HTTP/2 with the backend over TLS, with a group of ours, or without. A
// test that fails ends the process with a line that names it.
func TestThroughProxy(t *testing.T) {
	files, err := certs.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	group := tlsext.X25519CTRUPrime761
	for protocol, scheme := range map[string]string{"h2c": "http", "h2": "https"} {
		t.Run(protocol, func(t *testing.T) {
			serverTLS, clientTLS := configs(t)
			var options []grpc.ServerOption
			var towards string
			if scheme == "https" {
				towards = fmt.Sprintf("  ca: %q\n  tls: {server_name: localhost, groups: [%s]}\n", files.CA, tlsext.GroupName(group))
				pair, err := tls.LoadX509KeyPair(files.ServerCert, files.ServerKey)
				if err != nil {
					t.Fatal(err)
				}
				serverTLS.Certificates = []tls.Certificate{pair}
				serverTLS.CurvePreferences = []tls.CurveID{group} // and no other
				options = append(options, grpc.Creds(credentials.NewTLS(serverTLS)))
			}
			at, _ := backend(t, options...)
			address := startProxy(t, fmt.Sprintf(`listen: "127.0.0.1:0"
certificates: [{cert: %q, key: %q}]
backends:
  urls: "%s://%s"
  protocol: %s
%s  health: {check: grpc, interval: 100ms}
limits: {connections: 100, handshakes: 100, requests: 100}
log: {format: json}
`, files.ServerCert, files.ServerKey, scheme, at, protocol, towards))
			clientTLS.RootCAs, clientTLS.CurvePreferences = pool(t, files.CA), []tls.CurveID{group}
			conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(clientTLS)))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			client := testgrpc.NewTestServiceClient(conn)
			for name, test := range map[string]func(context.Context, testgrpc.TestServiceClient, ...grpc.CallOption){
				"empty unary":           interop.DoEmptyUnaryCall,
				"large unary":           interop.DoLargeUnaryCall,
				"client streaming":      interop.DoClientStreaming,
				"server streaming":      interop.DoServerStreaming,
				"ping pong":             interop.DoPingPong,
				"empty stream":          interop.DoEmptyStream,
				"timeout":               interop.DoTimeoutOnSleepingServer,
				"cancel after begin":    interop.DoCancelAfterBegin,
				"cancel after response": interop.DoCancelAfterFirstResponse,
				"custom metadata":       interop.DoCustomMetadata,
				"status and message":    interop.DoStatusCodeAndMessage,
				"special message":       interop.DoSpecialStatusMessage,
			} {
				t.Run(name, func(t *testing.T) { test(ctx, client) })
			}
			interop.DoUnimplementedService(ctx, testgrpc.NewUnimplementedServiceClient(conn))
			interop.DoUnimplementedMethod(ctx, conn)
		})
	}
}

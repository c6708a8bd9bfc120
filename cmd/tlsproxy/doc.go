// Command tlsproxy terminates TLS 1.3 (and 1.2) in front of HTTP servers, with
// X25519CTRUPrime761 among its key exchange groups.
//
//	tlsproxy run -c FILE     serve as FILE says
//	tlsproxy check -c FILE   say what FILE would lead to
//	tlsproxy demo            handshakes through a proxy, three groups side by side
//	tlsproxy report          the measurements of this machine, as a page
//	tlsproxy version         what this binary is
//	tlsproxy completion zsh  what a shell reads to complete the command line
//	tlsproxy man             the manual page
//
// Build it with the hook in crypto/tls: go tool gotls build ./cmd/tlsproxy.
// tlsproxy.example.yaml names every key of the configuration.
//
// This package reads the command line and prints; what is done is done by the
// packages under internal.
package main

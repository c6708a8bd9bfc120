package main

import (
	_ "embed" // the example

	"github.com/alecthomas/kong"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/manual"
)

// example is the configuration with every key, annotated.
//
//go:embed tlsproxy.example.yaml
var example string

type manCommand struct {
	Page string `arg:"" enum:"tlsproxy.1,tlsproxy.yaml.5" default:"tlsproxy.1" help:"tlsproxy.1, this program's, or tlsproxy.yaml.5, its configuration's (${default})."`
}

// Run prints the page.
func (c *manCommand) Run(s streams, parsed *kong.Context) error {
	page := manual.Command(parsed.Model, manualTexts)
	if c.Page == "tlsproxy.yaml.5" {
		page = manual.Configuration(example, exampleKeys)
	}
	_, err := s.out.Write(page)
	return err
}

// exampleKeys are those of which the annotated file has examples, no defaults.
var exampleKeys = []string{"certificates", "backends.urls", "pools", "hosts"}

// manualTexts is what tlsproxy(1) says beside the command line.
var manualTexts = manual.Texts{
	Description: `tlsproxy terminates TLS 1.3 and 1.2 in front of servers that speak HTTP, or any protocol over TCP. Among its
key exchange groups are X25519CTRUPrime761, a post-quantum hybrid, X25519MLKEM768 and the classical ones. tlsproxy run serves as
a configuration file says, which tlsproxy.yaml(5) describes; tlsproxy check says what a file would lead to.

The groups of CTRU-Prime are there if the program was built with gotls, which tlsproxy version tells.`,
	ExitStatus: []manual.Entry{
		{Name: "0", Text: "All went well: for run, it was told to end, and drained."},
		{Name: "1", Text: "It failed, and standard error says why: a configuration with a mistake, an address that is taken, a handshake of bench or demo, or a measurement of report, that failed."},
		{Name: "2", Text: "The command line is not understood."},
	},
	Signals: []manual.Entry{
		{Name: "SIGTERM, SIGINT", Text: "run drains: it accepts no more connections, and what is under way ends within timeouts.drain. A second one ends the process at once."},
		{Name: "SIGHUP", Text: "run reads its configuration again, and all that the file names. Connections stay open. What is faulty changes nothing; the log tells."},
		{Name: "SIGUSR2", Text: "run starts its program anew, as it is on disk by now, hands its sockets over and ends as with SIGTERM, but without a lost connection. If the new process does not serve this one goes on; the log tells."},
	},
	Environment: []manual.Entry{
		{Name: "GOGC, GOMEMLIMIT, GOMAXPROCS", Text: "As for any program in Go. Without the first two garbage is collected from 16 MB on."},
		{Name: "GODEBUG=fips140=on", Text: "FIPS 140 mode: only approved groups are served."},
		{Name: "LISTEN_FDS, LISTEN_FDNAMES, LISTEN_PID", Text: "systemd's sockets, which listen takes by their names: systemd:NAME."},
		{Name: "NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID", Text: "Where and how often systemd is told that run is ready, reloads, lives and ends."},
		{Name: "OTEL_RESOURCE_ATTRIBUTES", Text: "Attributes of all traces, with tracing.endpoint: NAME=VALUE, separated by commas."},
		{Name: "HTTP_PROXY, HTTPS_PROXY, NO_PROXY", Text: "The way to tracing.endpoint, as for any program in Go."},
	},
	Examples: []manual.Entry{
		{Name: "tlsproxy check -c /etc/tlsproxy/tlsproxy.yaml && systemctl reload tlsproxy", Text: "Try a changed configuration before it is taken up:"},
		{Name: "tlsproxy man tlsproxy.yaml.5 | man -l -", Text: "Read about the configuration where the pages are not installed:"},
		{Name: "tlsproxy bench localhost:8443 --ca cert.pem --groups X25519,X25519CTRUPrime761 --rounds 5", Text: "Compare the cost of two groups:"},
	},
	SeeAlso: "tlsproxy.yaml(5), systemd.service(5), systemd.socket(5)",
}

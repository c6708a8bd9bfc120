package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/report"
)

// commands is the command line.
type commands struct {
	Run     runCommand     `cmd:"" help:"Serve as a configuration file says, until SIGTERM or SIGINT."`
	Check   checkCommand   `cmd:"" help:"Read a configuration file and what it names, and print what would run."`
	Demo    demoCommand    `cmd:"" help:"Measure handshakes through a proxy on this machine, three groups side by side."`
	Bench   benchCommand   `cmd:"" help:"Make handshakes with a TLS server, any, and measure rate, latency and processor time."`
	Report  reportCommand  `cmd:"" help:"Run the measurements on this machine and write them as a page of HTML and as Markdown."`
	Version versionCommand `cmd:"" help:"Print what this binary is."`

	Completion completionCommand `cmd:"" help:"Print what a shell reads to complete this program's command line."`
	Man        manCommand        `cmd:"" help:"Print a manual page, in roff."`

	Loadgen  loadgenCommand  `cmd:"" hidden:""`
	Complete completeCommand `cmd:"" hidden:"" passthrough:""`
}

// Exit statuses.
const (
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// streams are where a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// execute runs a command line and returns the exit status.
func execute(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	exited := -1
	parser := newParser(kong.Writers(out, errOut), kong.Exit(func(status int) { exited = status }))
	parsed, err := parser.Parse(args)
	if exited >= 0 { // help was asked for and given
		return exited
	}
	if err != nil {
		fmt.Fprintf(errOut, "tlsproxy: %v; see tlsproxy --help\n", err)
		return exitUsage
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	if err := parsed.Run(streams{in, out, errOut}); err != nil {
		printError(errOut, err)
		return exitFailure
	}
	return 0
}

// newParser makes a parser of the command line.
func newParser(options ...kong.Option) *kong.Kong {
	parser, err := kong.New(new(commands), append(options, kong.Name("tlsproxy"),
		kong.Description("A TLS-terminating reverse proxy with a post-quantum key exchange of its own."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Vars{"report_parts": strings.Join(report.Parts(), ", ")})...)
	if err != nil {
		panic("tlsproxy: " + err.Error()) // the struct commands is at fault
	}
	return parser
}

// printError prints an error, which may have several lines, with the program's
// name at its head.
func printError(w io.Writer, err error) {
	text := err.Error()
	if !strings.HasPrefix(text, "tlsproxy: ") {
		text = "tlsproxy: " + text
	}
	fmt.Fprintln(w, text)
}

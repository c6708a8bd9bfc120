package manual

import (
	"bytes"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestConfiguration reads what the annotated example may hold.
func TestConfiguration(t *testing.T) {
	const annotated = `# What it is.
#
#   an example \n
#
# More.

# Where - clients
# .connect.
listen:
  - localhost:8443
  - "[::1]:8443"
tls:
  # Order.
  groups: [A, B]
hosts:
  # Names.
  - names: [a]
    mode: tcp
  # Of another entry.
  - names: [b]
    tls:
      cut: 'off'
last: ""
`
	got := string(Configuration(annotated, []string{"hosts"}))
	for _, want := range []string{
		".SH NAME\ntlsproxy.yaml \\- configuration of tlsproxy\n",
		".SH DESCRIPTION\nWhat it is.\n.PP\n.RS 4\n.nf\nan example \\en\n.fi\n.RE\n.PP\nMore.\n",
		".SS \"listen\"\nWhere \\- clients\n\\&.connect.\n.br\nDefault: localhost:8443, \\(dq[::1]:8443\\(dq\n",
		".SS \"tls\"\n.TP\n.B \"tls.groups\"\nOrder.\n.br\nDefault: [A, B]\n",
		".TP\n.B \"hosts.names\"\nNames.\nOf another entry.\n.br\nExample: [a]\n",
		".TP\n.B \"hosts.tls.cut\"\n.br\nExample: 'off'\n",
		".SS \"last\"\n.br\nDefault: \\(dq\\(dq\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no\n%s\nin\n%s", want, got)
		}
	}
	if n := strings.Count(got, "hosts.names"); n != 1 {
		t.Errorf("hosts.names %d times", n)
	}
}

// TestCommand describes commands, arguments and flags, but for hidden ones.
func TestCommand(t *testing.T) {
	var cli struct {
		Do struct {
			File string `arg:"" help:"What to do it with."`
			Fast bool   `short:"f" help:"Soon.\\."`
			Size int    `default:"3" placeholder:"N" help:"How much (${default})."`
			Out  bool   `hidden:""`
		} `cmd:"" help:"Do it."`
		Secret struct{} `cmd:"" hidden:""`
	}
	parser, err := kong.New(&cli, kong.Name("it"), kong.Description("A thing."))
	if err != nil {
		t.Fatal(err)
	}
	got := Command(parser.Model, Texts{Description: "It is.", Signals: []Entry{{"SIGHUP", "Again."}}, SeeAlso: "none"})
	for _, want := range []string{
		".TH IT 1 ", ".SH NAME\nit \\- a thing\n", ".SH SYNOPSIS\nit do <file> [flags]\n.SH DESCRIPTION\nIt is.\n",
		".SS \"it do\"\nDo it.\n.TP\n.B \"<file>\"\nWhat to do it with.\n.TP\n.B \"\\-f, \\-\\-fast\"\nSoon.\\e.\n.TP\n.B \"\\-\\-size=N\"\nHow much (3).\n",
		".SH SIGNALS\n.TP\n.B \"SIGHUP\"\nAgain.\n",
	} {
		if !bytes.Contains(got, []byte(want)) {
			t.Errorf("no\n%s\nin\n%s", want, got)
		}
	}
	if bytes.Contains(got, []byte("out")) || bytes.Contains(got, []byte("secret")) {
		t.Errorf("hidden:\n%s", got)
	}
}

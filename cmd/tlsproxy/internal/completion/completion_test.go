package completion

import (
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type cli struct {
	Verbose bool `short:"v" help:"Say more."`
	Run     struct {
		Config string   `short:"c" placeholder:"FILE" help:"Where it\n stands."`
		Mode   string   `enum:"fast,slow" default:"fast"`
		Fruit  []string `default:"apple"`
		Secret string   `hidden:""`
		Shape  string   `arg:"" enum:"round,square" default:"round"`
		Rest   string   `arg:"" optional:""`
	} `cmd:"" help:"Do it."`
	Rest struct{} `cmd:"" help:"Do nothing."`
	Own  struct{} `cmd:"" hidden:""`
}

func fruits(v *kong.Value) []string {
	if v.Name == "fruit" {
		return []string{"apple", "pear", "plum"}
	}
	return nil
}

// TestCandidates completes after all ways in which flags and their values are written.
func TestCandidates(t *testing.T) {
	parser, err := kong.New(new(cli), kong.Name("it"))
	if err != nil {
		t.Fatal(err)
	}
	const files = ":files"
	for line, want := range map[string]string{
		"":                            "run rest",
		"r":                           "run rest",
		"ru":                          "run",
		"x":                           "",
		"-":                           "--help --verbose",
		"--verbose r":                 "run rest",
		"-v ru":                       "run",
		"own ":                        "",
		"rest ":                       "",
		"run -":                       "--help --verbose --config --mode --fruit",
		"run --co":                    "--config",
		"run --config ":               files,
		"run -c ":                     files,
		"run --config=":               files,
		"run --config = a":            files,
		"run --config a --mode ":      "fast slow",
		"run -ca --mode s":            "slow",
		"run --mode=":                 "--mode=fast --mode=slow",
		"run --mode=s":                "--mode=slow",
		"run --mode =":                "fast slow",
		"run --mode = s":              "slow",
		"run --fruit p":               "pear plum",
		"run --fruit plum,p":          "plum,pear",
		"run --fruit=plum,":           "--fruit=plum,apple --fruit=plum,pear",
		"run --fruit x --unknown --m": "--mode",
		"run ":                        "round square",
		"run s":                       "square",
		"run --mode fast round ":      "",
		"run -- -":                    "",
		"run -- r":                    "round",
		"run --secret ":               "round square",
	} {
		var out strings.Builder
		if _, err := Candidates(parser.Model.Node, strings.Split(line, " "), fruits).WriteTo(&out); err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			got = append(got, word)
		}
		wanted := strings.Fields(want)
		slices.Sort(got)
		slices.Sort(wanted)
		if !slices.Equal(got, wanted) {
			t.Errorf("%q: %q, want %q", line, got, wanted)
		}
	}
	if len(Candidates(parser.Model.Node, nil, fruits).Candidates) != 2 {
		t.Error("no word at all")
	}
}

// TestHelp is in one line, behind a tab.
func TestHelp(t *testing.T) {
	parser, err := kong.New(new(cli), kong.Name("it"))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	Candidates(parser.Model.Node, []string{"run", "--co"}, fruits).WriteTo(&out)
	if got, want := out.String(), "--config\tWhere it stands.\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestScripts: there is one for each shell, which asks the program and knows its word for
// files.
func TestScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script, err := Script(shell)
		if err != nil || !strings.Contains(script, " complete -- ") || !strings.Contains(script, filesWanted) {
			t.Errorf("%s: %v\n%s", shell, err, script)
		}
	}
	if _, err := Script("csh"); err == nil || !strings.Contains(err.Error(), `no script for "csh"`) {
		t.Error(err)
	}
}

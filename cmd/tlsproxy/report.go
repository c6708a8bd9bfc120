package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"golang.org/x/term"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/demo"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/report"
)

type reportCommand struct {
	Output   string        `short:"o" default:"tlsproxy-report" placeholder:"DIR" help:"The folder for report.html, report.md and its drawings; it is made if it is not there (${default})."`
	Duration time.Duration `default:"3m" help:"How long measuring is to take, all parts together; the whole takes half as long again and a minute at most (${default})."`
	Only     []string      `enum:"${report_parts}" placeholder:"PART" help:"Measure these parts only; there are ${enum}."`
	Note     string        `placeholder:"TEXT" help:"A remark for the head of the report, such as what else the machine was doing."`
}

// Run measures and writes the report, also if something in it failed; then it fails too. Interrupted, it writes nothing.
func (c *reportCommand) Run(ctx context.Context, s streams) error {
	if err := report.CheckFolder(c.Output); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("report: finding this program, to run it as the client: %w", err)
	}
	defer raiseHeapFloor()() // as tlsproxy run does
	r, err := report.Run(ctx, report.Options{
		Program: programName(), Command: c.commandLine(), Parts: c.Only, Duration: c.Duration, Note: c.Note, Progress: report.NewProgress(s.err, isTerminal(s.err)),
		Demo: demo.Options{Client: []string{program, "loadgen"}, Stderr: s.err, Logger: slog.New(slog.NewTextHandler(s.err, &slog.HandlerOptions{Level: slog.LevelWarn}))},
	})
	if err != nil {
		return err
	}
	if err := r.Write(c.Output); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s\n%s\n", filepath.Join(c.Output, report.HTMLFile), filepath.Join(c.Output, report.MarkdownFile))
	if failures := r.Failures(); len(failures) > 0 {
		return fmt.Errorf("report: not everything worked; the report says what:\n%s", strings.Join(failures, "\n"))
	}
	return nil
}

// commandLine is what leads to the same report.
func (c *reportCommand) commandLine() string {
	line := fmt.Sprintf("tlsproxy report -o %s --duration %v", quoted(c.Output), c.Duration)
	if len(c.Only) > 0 {
		line += " --only " + strings.Join(c.Only, ",")
	}
	if c.Note != "" {
		line += " --note " + quoted(c.Note)
	}
	return line
}

// quoted is a word as a shell takes it.
func quoted(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !strings.ContainsRune("+,-./:=@_", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// isTerminal reports whether somebody looks on as w is written.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

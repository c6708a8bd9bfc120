package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/ctrutls/ctrutls/internal/bench/chart"
)

// The files of a report, beside the drawings that the Markdown shows.
const (
	HTMLFile     = "report.html"
	MarkdownFile = "report.md"
)

// CheckFolder tells whether Write will be able to: better before measuring than after. It leaves nothing behind.
func CheckFolder(folder string) error {
	for at := filepath.Clean(folder); ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if (errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) && filepath.Dir(at) != at {
			continue
		}
		if err != nil {
			return fmt.Errorf("report: %w", err)
		}
		if !info.IsDir() {
			return fmt.Errorf("report: %s is not a folder; name one with --output", at)
		}
		f, err := os.CreateTemp(at, ".tlsproxy-report-*")
		if err != nil {
			return fmt.Errorf("report: nothing can be written in %s: %w; name another folder with --output", at, err)
		}
		return errors.Join(f.Close(), os.Remove(f.Name()))
	}
}

// Write writes the report's files into a folder, which it makes if it is not there. What was there before under their names is
// replaced once all of them are written, and not before.
func (r *Report) Write(folder string) (err error) {
	files := []struct {
		name  string
		write func(io.Writer) error
	}{{MarkdownFile, r.WriteMarkdown}, {HTMLFile, r.WriteHTML}}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	temporary, err := os.MkdirTemp(folder, ".tlsproxy-report-*")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	var names []string
	save := func(name string, content []byte) error {
		names = append(names, name)
		return os.WriteFile(filepath.Join(temporary, name), content, 0o644)
	}
	for name, drawing := range r.drawings() {
		if err := save(name, []byte(chart.Standalone(drawing))); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	for _, f := range files {
		var b bytes.Buffer
		if err := errors.Join(f.write(&b), save(f.name, b.Bytes())); err != nil {
			return fmt.Errorf("report: %s: %w", f.name, err)
		}
	}
	for _, name := range names {
		if err := os.Rename(filepath.Join(temporary, name), filepath.Join(folder, name)); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	return nil
}

// drawings are those of the Markdown, by file.
func (r *Report) drawings() map[string]chart.Drawing {
	all := map[string]chart.Drawing{}
	for _, s := range r.layOut().Sections {
		for _, t := range s.Tables {
			for _, d := range t.Drawings {
				all[d.file()] = d.drawing
			}
		}
	}
	return all
}

package completion

import (
	_ "embed" // the scripts
	"fmt"
	"io"
	"strings"
)

// What a shell is told in place of candidates when the names of files are wanted.
const filesWanted = ":files"

// WriteTo writes the answer as the scripts read it: a line for each candidate, the word
// and, behind a tab, what it means; or one line for files.
func (a Answer) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	if a.Files {
		b.WriteString(filesWanted + "\n")
	}
	for _, c := range a.Candidates {
		b.WriteString(c.Word)
		if c.Help != "" {
			b.WriteString("\t" + strings.Join(strings.Fields(c.Help), " "))
		}
		b.WriteByte('\n')
	}
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}

var (
	//go:embed scripts/bash
	bash string
	//go:embed scripts/zsh
	zsh string
	//go:embed scripts/fish
	fish string
)

// Script is what a shell, bash, zsh or fish, is to read once. It calls the program
// tlsproxy, with the command complete, each time.
func Script(shell string) (string, error) {
	switch shell {
	case "bash":
		return bash, nil
	case "zsh":
		return zsh, nil
	case "fish":
		return fish, nil
	}
	return "", fmt.Errorf("completion: no script for %q; there are bash, zsh and fish", shell)
}

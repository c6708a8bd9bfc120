package main

import (
	"io"
	"reflect"

	"github.com/alecthomas/kong"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/completion"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
)

type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish. Source what is printed, as in: source <(tlsproxy completion bash)."`
}

// Run prints the script.
func (c *completionCommand) Run(s streams) error {
	script, err := completion.Script(c.Shell)
	if err != nil {
		return err
	}
	_, err = io.WriteString(s.out, script)
	return err
}

// completeCommand answers the scripts.
type completeCommand struct {
	Words []string `arg:"" optional:""`
}

// Run prints what the last word can be.
func (c *completeCommand) Run(s streams, parsed *kong.Context) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	_, err := completion.Candidates(parsed.Model.Node, words, wordsOf).WriteTo(s.out)
	return err
}

// wordsOf lists the names of groups where those are asked for.
func wordsOf(v *kong.Value) []string {
	if v.Target.Type() == reflect.TypeFor[[]config.Group]() {
		return groups.Names(groups.All())
	}
	return nil
}

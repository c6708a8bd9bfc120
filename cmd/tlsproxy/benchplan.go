package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"
)

// benchRow is a row of a plan's file.
type benchRow struct {
	Name      string   `yaml:"name"`
	Addresses []string `yaml:"addresses"`
	ServerPID int      `yaml:"server_pid"`
	Group     string   `yaml:"group"`
	Requests  *int     `yaml:"requests"`
	Resume    *bool    `yaml:"resume"`
	Base      bool     `yaml:"base"`
}

// planHelp is a flag that explains the file.
type planHelp bool

// BeforeReset prints before anything else is asked for.
func (planHelp) BeforeReset(app *kong.Kong) error {
	fmt.Fprint(app.Stdout, planText)
	app.Exit(0)
	return nil
}

const planText = `A plan is a list of rows, which are measured in interleaved rounds:

- name: plain              # what the row is called
  addresses: [localhost:8443]
  server_pid: 4711         # the server's process, to measure its processor time
  group: X25519
  requests: 1              # in place of --requests
  resume: false            # in place of --resume
  base: true               # every row is compared with this one; there can be several
- name: ours
  addresses: [localhost:8444]
  server_pid: 4712
  group: X25519CTRUPrime761

Only name, addresses and group are required. All else is as the flags say.
`

// maxPlanBytes bounds a plan's file.
const maxPlanBytes = 1 << 20

// readRows reads a plan's file. Its errors name the line.
func readRows(file string) ([]benchRow, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("bench: --plan: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPlanBytes+1))
	if err != nil {
		return nil, fmt.Errorf("bench: --plan: %w", err)
	}
	if len(text) > maxPlanBytes {
		return nil, fmt.Errorf("bench: %s is larger than %d bytes", file, maxPlanBytes)
	}
	var rows []benchRow
	if err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(&rows); err != nil {
		return nil, fmt.Errorf("bench: %s: %w", file, planError(err))
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("bench: %s: no rows", file)
	}
	for i, row := range rows {
		if row.Name == "" || len(row.Addresses) == 0 || row.Group == "" {
			return nil, fmt.Errorf("bench: %s: row %d needs a name, addresses and a group", file, i+1)
		}
	}
	return rows, nil
}

// planError takes the place and the message out of the parser's error, which also holds
// a drawing of the source.
func planError(err error) error {
	var at yaml.Error
	if !errors.As(err, &at) || at.GetToken() == nil {
		return err
	}
	p := at.GetToken().Position
	return fmt.Errorf("%d:%d: %s", p.Line, p.Column, at.GetMessage())
}

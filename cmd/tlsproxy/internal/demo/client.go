package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/loadgen"
)

// client is the load client's process.
type client struct {
	ctx     context.Context
	command *exec.Cmd
	in      io.WriteCloser
	tasks   *json.Encoder
	results *json.Decoder
}

// startClient starts the process. It ends with ctx, with close, or when this
// process ends, as its input then does.
func startClient(ctx context.Context, o Options) (*client, error) {
	if len(o.Client) == 0 {
		return nil, errors.New("demo: no command for the load client")
	}
	c := &client{ctx: ctx, command: exec.CommandContext(ctx, o.Client[0], o.Client[1:]...)}
	c.command.Stderr = o.Stderr
	in, err := c.command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("demo: starting the load client: %w", err)
	}
	out, err := c.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("demo: starting the load client: %w", err)
	}
	if err := c.command.Start(); err != nil {
		return nil, fmt.Errorf("demo: starting the load client: %w", err)
	}
	c.in, c.tasks, c.results = in, json.NewEncoder(in), json.NewDecoder(out)
	return c, nil
}

// do has the client do one task.
func (c *client) do(task loadgen.Task) (*loadgen.Outcome, error) {
	err := c.tasks.Encode(task)
	outcome := new(loadgen.Outcome)
	if err == nil {
		err = c.results.Decode(outcome)
	}
	if c.ctx.Err() != nil {
		return nil, fmt.Errorf("demo: interrupted: %w", c.ctx.Err())
	}
	if err != nil {
		return nil, fmt.Errorf("demo: the load client broke off: %w", err)
	}
	return outcome, nil
}

// close ends the process.
func (c *client) close() {
	c.in.Close()
	c.command.Wait()
}

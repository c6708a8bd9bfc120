package loadgen

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
)

// Task is one piece of work for Serve.
type Task struct {
	Load  Load   `json:"load"`
	Span  Span   `json:"span"`
	Probe string `json:"probe,omitempty"` // "HTTP/1.1" or "HTTP/2.0": one request over it in place of load
}

// Outcome is what became of a Task.
type Outcome struct {
	Result
	Answer *Answer `json:"answer,omitempty"` // of a probe, if there was one
}

// Answer is what a probe was answered.
type Answer struct {
	Proto  string `json:"proto"`
	Status int    `json:"status"`
	Body   string `json:"body"` // its first 4096 bytes
}

// Serve does the tasks that it reads until in ends or ctx is done.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	tasks, outcomes := json.NewDecoder(in), json.NewEncoder(out)
	for ctx.Err() == nil {
		var task Task
		if err := tasks.Decode(&task); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("loadgen: reading a task: %w", err)
		}
		outcome, err := task.do(ctx)
		if err != nil {
			return err
		}
		if err := outcomes.Encode(outcome); err != nil {
			return fmt.Errorf("loadgen: writing a result: %w", err)
		}
	}
	return ctx.Err()
}

func (t Task) do(ctx context.Context) (*Outcome, error) {
	c, err := New(t.Load)
	if err != nil {
		return nil, err
	}
	if t.Probe != "" {
		return c.probe(ctx, t.Probe), nil
	}
	r, err := c.Run(ctx, t.Span)
	if err != nil {
		return nil, err
	}
	return &Outcome{Result: *r}, nil
}

// probe makes one request with net/http's own client and keeps the answer.
func (c *Client) probe(ctx context.Context, proto string) *Outcome {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	transport := &http.Transport{TLSClientConfig: c.config, Protocols: new(http.Protocols),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return c.dialers[0].DialContext(ctx, "tcp", c.targets[0].address)
		}}
	transport.Protocols.SetHTTP1(proto == "HTTP/1.1")
	transport.Protocols.SetHTTP2(proto == "HTTP/2.0")
	defer transport.CloseIdleConnections()
	answer, err := c.ask(ctx, transport)
	if err != nil {
		return &Outcome{Result: Result{Failed: 1, Failures: map[string]int{cause(err): 1}, Errors: []string{err.Error()}}}
	}
	return &Outcome{Result: Result{Completed: 1, Requests: 1}, Answer: answer}
}

func (c *Client) ask(ctx context.Context, transport http.RoundTripper) (*Answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+c.load.ServerName+"/", nil)
	if err != nil {
		return nil, err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err != nil {
		return nil, err
	}
	if err := c.check(*response.TLS, false); err != nil {
		return nil, err
	}
	return &Answer{Proto: response.Proto, Status: response.StatusCode, Body: string(body)}, nil
}

package service

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"os"
	"strings"
	"time"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/certificates"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/tracing"
)

// readTracing reads what the key tracing names.
func (p *Plan) readTracing() (errs config.Errors) {
	c := p.Config.Tracing
	p.tracing = tracing.Options{Endpoint: string(c.Endpoint), Service: c.Service, Ratio: float64(c.Ratio), Queue: c.Queue}
	for _, n := range c.Trust {
		if n.Unix {
			p.tracing.TrustUnix = true
		} else {
			p.tracing.Trust = append(p.tracing.Trust, n.Prefix)
		}
	}
	var err error
	if c.CA != "" {
		if p.tracing.Roots, err = certificates.LoadPool(c.CA); err != nil {
			errs = append(errs, p.Config.Errorf("tracing.ca", "%v", err))
		}
	}
	if c.Headers != "" {
		if p.tracing.Headers, err = readHeaders(c.Headers); err != nil {
			errs = append(errs, p.Config.Errorf("tracing.headers_file", "%v", err))
		}
	}
	return errs
}

// maxHeaders bounds a file of headers, in bytes.
const maxHeaders = 64 << 10

// readHeaders reads a file of header lines. Its errors do not quote it, as it may hold
// secrets.
func readHeaders(name string) (map[string]string, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxHeaders+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxHeaders {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, maxHeaders)
	}
	read, err := textproto.NewReader(bufio.NewReader(strings.NewReader(strings.TrimRight(string(text), "\r\n") + "\n\n"))).ReadMIMEHeader()
	if err != nil || len(read) == 0 {
		return nil, fmt.Errorf("%s holds something other than lines \"Name: value\"", name)
	}
	headers := map[string]string{}
	for key, values := range http.Header(read) {
		if len(values) > 1 {
			return nil, fmt.Errorf("%s has the header %s twice", name, key)
		}
		headers[key] = values[0]
	}
	return headers, nil
}

// openTracer starts to trace, if a Plan says so.
func (s *Service) openTracer(p *Plan) (err error) {
	o := p.tracing
	if o.Endpoint == "" {
		return nil
	}
	o.Logger = s.log
	s.tracer, err = tracing.Open(o)
	return err
}

// leastFlush is how long sending what is left may take where connections took all of
// the time to drain.
const leastFlush = time.Second

// closeTracer sends what is left until then.
func (s *Service) closeTracer(until time.Time) {
	if least := time.Now().Add(leastFlush); until.Before(least) {
		until = least
	}
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	if err := s.tracer.Close(ctx); err != nil {
		s.log.Warn("tracing ended", "err", err)
	}
}

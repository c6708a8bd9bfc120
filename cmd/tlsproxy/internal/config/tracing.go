package config

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Tracing says what is told of requests to a receiver of OpenTelemetry traces.
type Tracing struct {
	Endpoint TracesURL `yaml:"endpoint" empty:"ok"` // "": nothing is
	CA       string    `yaml:"ca" empty:"ok"`
	Headers  string    `yaml:"headers_file" empty:"ok"`
	Service  string    `yaml:"service"`
	Ratio    Ratio     `yaml:"ratio"`
	Trust    []Source  `yaml:"trust" max:"1000"` // none: nobody
	Queue    int       `yaml:"queue" min:"1" max:"1000000"`
}

func defaultTracing() Tracing { return Tracing{Service: "tlsproxy", Ratio: 0.01, Queue: 4096} }

// TracesURL is where a receiver takes traces by OTLP over HTTP.
type TracesURL string

// UnmarshalText wants http or https. A URL without a path gets OTLP's.
func (e *TracesURL) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*e = ""
		return nil
	}
	u, err := url.Parse(string(text))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%q is not the URL of a receiver of OTLP over HTTP; write one such as http://localhost:4318/v1/traces", text)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/traces"
	}
	*e = TracesURL(u.String())
	return nil
}

// Ratio is a share, from 0 to 1.
type Ratio float64

// UnmarshalText takes a number.
func (r *Ratio) UnmarshalText(text []byte) error {
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(v >= 0 && v <= 1) {
		return fmt.Errorf("%q is not a share; write a number from 0 to 1, such as 0.01", text)
	}
	*r = Ratio(v)
	return nil
}

// MarshalText gives the form that UnmarshalText takes.
func (r Ratio) MarshalText() ([]byte, error) {
	return []byte(strconv.FormatFloat(float64(r), 'f', -1, 64)), nil
}

// tracing finds what has no effect.
func (v *validator) tracing() {
	t := v.config.Tracing
	if t.Endpoint == "" {
		if v.present("tracing") && !v.present("tracing.endpoint") {
			v.errorf("tracing", "tracing does nothing without its key endpoint; add one such as http://localhost:4318/v1/traces")
		}
		return
	}
	if t.CA != "" && !strings.HasPrefix(string(t.Endpoint), "https:") {
		v.errorf("tracing.ca", "tracing.ca needs an endpoint that begins with https://")
	}
}

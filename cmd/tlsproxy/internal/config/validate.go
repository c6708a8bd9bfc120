package config

import (
	"fmt"
	"slices"
	"strings"
)

// validate finds what no single value shows: keys that are missing, that
// repeat, or that contradict each other. A key that is already at fault in
// found is not blamed again.
func (c *Config) validate(found Errors) Errors {
	v := validator{config: c, found: found}
	v.certificates()
	v.nonEmpty("listen", len(c.Listen))
	v.nonEmpty("tls.groups", len(c.TLS.Groups))
	v.nonEmpty("tls.alpn", len(c.TLS.ALPN))
	if len(c.Backends.URLs) == 0 {
		v.missing("backends.urls", "name at least one backend, such as http://127.0.0.1:8080")
	}
	unique(&v, "listen", c.Listen, func(a Address) string { return string(a) })
	unique(&v, "tls.groups", c.TLS.Groups, Group.String)
	unique(&v, "tls.alpn", c.TLS.ALPN, func(p Protocol) string { return string(p) })
	unique(&v, "backends.urls", c.Backends.URLs, func(u URL) string {
		if u.URL == nil {
			return "" // at fault, and said so
		}
		return strings.ToLower(u.String())
	})
	if c.Limits.Handshakes > c.Limits.Connections {
		v.errorf("limits.handshakes", "limits.handshakes (%d) is more than limits.connections (%d); a connection in its handshake counts as one",
			c.Limits.Handshakes, c.Limits.Connections)
	}
	return v.errs
}

type validator struct {
	config *Config
	found  Errors
	errs   Errors
}

// errorf blames path unless something there is at fault already.
func (v *validator) errorf(path, format string, args ...any) {
	e := v.config.Errorf(path, format, args...)
	for _, f := range v.found {
		if f.Line == e.Line && f.Column == e.Column {
			return
		}
	}
	v.errs = append(v.errs, e)
}

// present reports whether the file holds path.
func (v *validator) present(path string) bool {
	_, ok := v.config.positions[path]
	return ok
}

// missing blames the lack of a required key. Where the whole file is the
// place, the fault of another key that stands there says nothing about it.
func (v *validator) missing(path, advice string) {
	parent, _, _ := strings.Cut(path, ".")
	switch {
	case v.present(path):
		v.errorf(path, "%s is empty; %s", path, advice)
	case v.present(parent):
		v.errorf(path, "missing key %q; %s", path, advice)
	default:
		v.errs = append(v.errs, v.config.Errorf(path, "missing key %q; %s", path, advice))
	}
}

func (v *validator) nonEmpty(path string, n int) {
	if n == 0 {
		v.errorf(path, "%s is an empty list; remove the key to have its default", path)
	}
}

func (v *validator) certificates() {
	if len(v.config.Certificates) == 0 {
		v.missing("certificates", "name the PEM files of at least one certificate: a list of {cert: FILE, key: FILE}")
	}
	for i, cert := range v.config.Certificates {
		path := fmt.Sprintf("certificates[%d]", i)
		for _, file := range []struct{ key, name string }{{"cert", cert.Cert}, {"key", cert.Key}} {
			if file.name == "" && !v.present(path+"."+file.key) {
				v.errorf(path, "missing key %q in %s; each certificate needs cert and key", file.key, path)
			}
		}
	}
}

// unique blames entries of a list that were there before.
func unique[T any](v *validator, path string, list []T, text func(T) string) {
	var seen []string
	for i, item := range list {
		s := text(item)
		if s != "" && slices.Contains(seen, s) {
			v.errorf(fmt.Sprintf("%s[%d]", path, i), "%s names %s twice", path, s)
		}
		seen = append(seen, s)
	}
}

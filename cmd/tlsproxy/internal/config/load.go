package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxFileBytes bounds a configuration file: 100,000 certificates with names of
// 200 bytes fit.
const maxFileBytes = 32 << 20

// Load reads and checks a configuration file. Its error is an Errors with
// everything that is wrong, as far as it can be told.
func Load(file string) (*Config, error) {
	data, err := read(file)
	if err != nil {
		return nil, Errors{{File: file, Message: err.Error()}}
	}
	return Parse(file, data)
}

// read returns the file's bytes; its errors do not name the file.
func read(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, bare(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, bare(err)
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("the file is larger than %v", Size(maxFileBytes))
	}
	return data, nil
}

// bare takes the file name off an error: the caller's message has it already.
func bare(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// Parse checks a configuration held in memory. The name file is used in
// messages, and its folder is where relative file names start.
func Parse(file string, data []byte) (*Config, error) {
	c := Default()
	c.file = file
	c.positions = map[string]position{}
	body, err := parse(file, data)
	if err != nil {
		return nil, err
	}
	d := decoder{config: c}
	if body != nil {
		d.value("", body, reflect.ValueOf(c).Elem(), "")
	}
	c.resolvePaths()
	if err := append(d.errs, c.validate(d.errs)...).Sorted(); err != nil {
		return nil, err
	}
	return c, nil
}

// parse returns the one document of a file, nil if it is empty.
func parse(file string, data []byte) (ast.Node, error) {
	tree, err := parser.ParseBytes(bytes.TrimPrefix(data, []byte("\ufeff")), 0)
	if err != nil {
		return nil, syntaxError(file, err)
	}
	var body ast.Node
	for _, doc := range tree.Docs {
		if doc.Body == nil {
			continue
		}
		if _, directive := doc.Body.(*ast.DirectiveNode); directive {
			continue
		}
		if body != nil {
			at := where(doc.Body)
			return nil, Errors{{File: file, Line: at.line, Column: at.column, Message: "a second document starts here; a configuration is one document"}}
		}
		body = doc.Body
	}
	return body, nil
}

// syntaxError takes the place and the message out of the parser's error, which
// also holds a drawing of the source.
func syntaxError(file string, err error) Errors {
	e := &Error{File: file, Message: err.Error()}
	var at yaml.Error
	if errors.As(err, &at) {
		p := tokenAt(at.GetToken())
		e.Line, e.Column, e.Message = p.line, p.column, at.GetMessage()
	}
	return Errors{e}
}

// YAML writes the whole configuration, defaults included.
func (c *Config) YAML() []byte {
	out, err := yaml.Marshal(c)
	if err != nil {
		panic("tlsproxy: config: " + err.Error()) // every type of Config can be written
	}
	return out
}

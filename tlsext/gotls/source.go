package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// tlsSource is the source of package crypto/tls of one toolchain.
type tlsSource struct {
	files []*sourceFile
}

// sourceFile is one file of the package, and what is to be inserted into it.
type sourceFile struct {
	name    string
	text    []byte
	fset    *token.FileSet
	syntax  *ast.File
	inserts []insert
}

// insert is text to put in front of the byte at offset. It never holds a line
// break, so that every line of crypto/tls keeps its number.
type insert struct {
	offset int
	text   string
}

// readSource parses every file of the package in dir but its tests.
func readSource(dir fs.FS) (*tlsSource, error) {
	names, err := fs.Glob(dir, "*.go")
	if err != nil {
		return nil, err
	}
	src := &tlsSource{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, err
		}
		f := &sourceFile{name: name, text: text, fset: token.NewFileSet()}
		f.syntax, err = parser.ParseFile(f.fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		if f.syntax.Name.Name == "tls" { // generate_cert.go is package main
			src.files = append(src.files, f)
		}
	}
	if len(src.files) == 0 {
		return nil, errors.New("no Go files of package tls")
	}
	return src, nil
}

// declaration is a top-level function or type, and the file that holds it.
type declaration struct {
	file *sourceFile
	fn   *ast.FuncDecl // for a function
	typ  *ast.TypeSpec // for a type
}

// find returns the declarations called name: "f", "T" or, for a method, "T.f".
func (src *tlsSource) find(name string) []declaration {
	var found []declaration
	for _, f := range src.files {
		for _, d := range f.syntax.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if qualifiedName(d) == name && d.Body != nil {
					found = append(found, declaration{file: f, fn: d})
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if t, ok := spec.(*ast.TypeSpec); ok && t.Name.Name == name {
						found = append(found, declaration{file: f, typ: t})
					}
				}
			}
		}
	}
	return found
}

func qualifiedName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	t := d.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name + "." + d.Name.Name
	}
	return "?." + d.Name.Name
}

// signature writes a function's type without the names of its parameters.
func (d declaration) signature() string {
	types := func(list *ast.FieldList) string {
		var s []string
		if list != nil {
			for _, field := range list.List {
				for range max(1, len(field.Names)) {
					s = append(s, d.file.source(field.Type))
				}
			}
		}
		return strings.Join(s, ", ")
	}
	s := "func(" + types(d.fn.Type.Params) + ")"
	switch results := types(d.fn.Type.Results); {
	case results == "":
		return s
	case strings.Contains(results, ","):
		return s + " (" + results + ")"
	default:
		return s + " " + results
	}
}

// receiver and param return the names by which the function's body knows its
// receiver and its i-th parameter, or "" where there is no such name.
func (d declaration) receiver() string {
	if d.fn.Recv == nil {
		return ""
	}
	return fieldName(d.fn.Recv, 0)
}

func (d declaration) param(i int) string { return fieldName(d.fn.Type.Params, i) }

func fieldName(list *ast.FieldList, i int) string {
	for _, field := range list.List {
		if i < len(field.Names) {
			return field.Names[i].Name
		}
		i -= max(1, len(field.Names))
	}
	return ""
}

// source returns a node as it would be written by gofmt.
func (f *sourceFile) source(n ast.Node) string {
	var b bytes.Buffer
	if err := printer.Fprint(&b, f.fset, n); err != nil {
		return fmt.Sprintf("%T", n)
	}
	return b.String()
}

func (f *sourceFile) offset(p token.Pos) int { return f.fset.Position(p).Offset }
func (f *sourceFile) line(p token.Pos) int   { return f.fset.Position(p).Line }

func (f *sourceFile) insert(p token.Pos, text string) {
	f.inserts = append(f.inserts, insert{f.offset(p), text})
}

// patched returns the file with everything inserted.
func (f *sourceFile) patched() []byte {
	slices.SortStableFunc(f.inserts, func(a, b insert) int { return a.offset - b.offset })
	var b bytes.Buffer
	at := 0
	for _, in := range f.inserts {
		b.Write(f.text[at:in.offset])
		b.WriteString(in.text)
		at = in.offset
	}
	b.Write(f.text[at:])
	return b.Bytes()
}

// tlsDir is where a toolchain keeps the package.
func tlsDir(goroot string) string { return filepath.Join(goroot, "src", "crypto", "tls") }

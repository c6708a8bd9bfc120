package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

// installedTLS is the source of crypto/tls of the toolchain that runs the tests,
// in memory.
func installedTLS(t *testing.T) fstest.MapFS {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return readTLS(t, strings.TrimSpace(string(out)))
}

func readTLS(t *testing.T, goroot string) fstest.MapFS {
	t.Helper()
	dir := os.DirFS(tlsDir(goroot))
	names, err := fs.Glob(dir, "*.go")
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{}
	for _, name := range names {
		text, err := fs.ReadFile(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: text}
	}
	return files
}

func TestPatchInstalledToolchain(t *testing.T) { checkPatched(t, installedTLS(t)) }

// checkPatched patches a crypto/tls and checks that the result is the original
// with text inserted, line by line.
func checkPatched(t *testing.T, original fstest.MapFS) {
	t.Helper()
	files, report, err := patchTLS(original)
	if err != nil {
		t.Fatal(err)
	}
	if len(report) != len(anchors) {
		t.Errorf("%d anchors in the report, want %d", len(report), len(anchors))
	}
	if string(files[hookFile]) != string(hookText) {
		t.Errorf("%s is not the hook", hookFile)
	}
	changed := 0
	for name, text := range files {
		if _, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution); err != nil {
			t.Errorf("the patched file does not parse: %v", err)
		}
		if name == hookFile {
			continue
		}
		before, after := bytes.SplitAfter(original[name].Data, []byte("\n")), bytes.SplitAfter(text, []byte("\n"))
		if len(before) != len(after) {
			t.Errorf("%s has %d lines, had %d", name, len(after), len(before))
			continue
		}
		for i := range before {
			if !bytes.Equal(before[i], after[i]) {
				changed++
			}
			if !subsequence(before[i], after[i]) {
				t.Errorf("%s:%d lost text:\n%s%s", name, i+1, before[i], after[i])
			}
		}
	}
	// One anchor changes one line; those of a call and of its alert are apart.
	if changed != len(anchors) {
		t.Errorf("%d lines changed, want %d", changed, len(anchors))
	}
}

// subsequence reports whether b is a with text inserted.
func subsequence(a, b []byte) bool {
	for _, c := range b {
		if len(a) > 0 && a[0] == c {
			a = a[1:]
		}
	}
	return len(a) == 0
}

// mutate returns a copy of a crypto/tls with every match of pattern in it
// replaced, and fails where there is none.
func mutate(t *testing.T, original fstest.MapFS, pattern, replacement string) fstest.MapFS {
	t.Helper()
	re := regexp.MustCompile(pattern)
	mutated, hits := fstest.MapFS{}, 0
	for name, f := range original {
		text := f.Data
		if !strings.HasSuffix(name, "_test.go") {
			hits += len(re.FindAll(text, -1))
			text = re.ReplaceAll(text, []byte(replacement))
		}
		mutated[name] = &fstest.MapFile{Data: text}
	}
	if hits == 0 {
		t.Fatalf("%s matches nothing in crypto/tls", pattern)
	}
	return mutated
}

// wantAnchorError patches and wants an error that names the anchor.
func wantAnchorError(t *testing.T, mutated fstest.MapFS, anchor, words string) {
	t.Helper()
	_, report, err := patchTLS(mutated)
	if err == nil {
		t.Fatal("it was patched all the same")
	}
	if want := fmt.Sprintf("anchor %q: ", anchor); !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), words) {
		t.Errorf("the error does not say %q and %q: %v", want, words, err)
	}
	for _, m := range report {
		if m.anchor.name == anchor && m.err == nil {
			t.Errorf("the report calls anchor %q found, at %s", anchor, m.at)
		}
	}
}

// Every anchor notices that its declaration is gone, doubled, or another thing.
func TestChangedDeclarations(t *testing.T) {
	original := installedTLS(t)
	for _, a := range anchors {
		t.Run(a.name, func(t *testing.T) {
			receiver, name, isMethod := strings.Cut(a.in, ".")
			if !isMethod {
				name = a.in
			}
			head, gone, again := `(?m)^func `+name+`\(`, "func "+name+"Old(", "func "+name+"() {}"
			switch {
			case a.signature == "":
				head, gone, again = `(?m)^type `+name+` `, "type "+name+"Old ", "type "+name+" struct{}"
			case isMethod:
				head, gone = `(?m)^func (\(\w+ \*?`+receiver+`\)) `+name+`\(`, "func $1 "+name+"Old("
				again = "func (x " + receiver + ") " + name + "() {}"
			}
			t.Run("renamed", func(t *testing.T) {
				wantAnchorError(t, mutate(t, original, head, gone), a.name, "0 declarations of "+a.in)
			})
			t.Run("doubled", func(t *testing.T) {
				doubled := mutate(t, original, head, "$0")
				doubled["doubled.go"] = &fstest.MapFile{Data: []byte("package tls\n" + again + "\n")}
				wantAnchorError(t, doubled, a.name, "2 declarations of "+a.in)
			})
			if a.signature == "" {
				return
			}
			t.Run("another signature", func(t *testing.T) {
				wantAnchorError(t, mutate(t, original, head, "${0}extra chan int, "), a.name, a.in+" is func(chan int")
			})
		})
	}
}

// Every anchor inside a function notices that its place is gone or doubled.
func TestChangedPlaces(t *testing.T) {
	original := installedTLS(t)
	for _, tc := range []struct {
		anchor, mutation     string
		pattern, replacement string
		words                string
	}{
		{"key share keys", "not a struct", `(?s)type keySharePrivateKeys struct \{.*?\n\}`, "type keySharePrivateKeys = clientHelloMsg", "0 matches"},
		{"empty share", "gone", `len\(ks\.data\) == 0`, "len(ks.data) < 1", "0 matches"},
		{"empty share", "doubled", `(len\(ks\.data\) == 0)`, "$1 || $1", "2 matches"},
		{"client's shares", "gone", `c\.makeClientHello\(\)`, "c.buildClientHello()", "0 matches"},
		{"client's shares", "doubled", `(hello, keyShareKeys, ech, err := c\.makeClientHello\(\)\n\tif err != nil \{\n\t\treturn err\n\t\})`, "$1\n\t$1", "2 matches"},
		{"client's shares", "check elsewhere", `(c\.makeClientHello\(\)\n)`, "$1\tprintln()\n", "0 matches"},
		{"client's share after HelloRetryRequest", "gone", `= ke\.keyShares\(c\.config\.rand\(\)\)\n\t\tif err != nil \{\n\t\t\tc`, "= ke.newShares()\n\t\tif err != nil {\n\t\t\tc", "0 matches"},
		{"client's share after HelloRetryRequest", "doubled", `(hs\.keyShareKeys, hello\.keyShares, err = ke\.keyShares\(c\.config\.rand\(\)\))`, "$1\n$1", "2 matches"},
		{"client's share after HelloRetryRequest", "not a variable's", `(hs\.keyShareKeys, hello\.keyShares, err = )ke(\.keyShares)`, "${1}hs.ke()$2", "0 matches"},
		{"client's secret", "gone", `ke\.clientSharedSecret\(`, "ke.sharedSecret(", "0 matches"},
		{"client's secret", "doubled", `(sharedKey, err := ke\.clientSharedSecret\(.*)`, "$1\n$1", "2 matches"},
		{"client's alert", "another alert", `(ke\.clientSharedSecret\(.*\n\tif err != nil \{\n\t\tc\.sendAlert\()alertIllegalParameter`, "${1}alertDecodeError", "0 matches"},
		{"client's alert", "an else", `(ke\.clientSharedSecret\(.*\n\tif err != nil \{\n.*\n.*\n\t\})`, "$1 else {}", "0 matches"},
		{"server's choice", "gone", `selectedGroup := preferredGroups\[0\]`, "selectedGroup := pick(preferredGroups)", "0 matches"},
		{"server's choice", "doubled", `(selectedGroup := preferredGroups\[0\])`, "$1\n$1", "2 matches"},
		{"server's secret", "gone", `ke\.serverSharedSecret\(`, "ke.sharedSecret(", "0 matches"},
		{"server's secret", "doubled", `(hs\.sharedKey, .* = ke\.serverSharedSecret\(.*)`, "$1\n$1", "2 matches"},
		{"server's alert", "gone", `(ke\.serverSharedSecret\(.*\n\tif )err != nil`, "${1}err == nil", "0 matches"},
	} {
		t.Run(tc.anchor+"/"+tc.mutation, func(t *testing.T) {
			wantAnchorError(t, mutate(t, original, tc.pattern, tc.replacement), tc.anchor, tc.words)
		})
	}
}

func TestUnusableSources(t *testing.T) {
	if _, _, err := patchTLS(fstest.MapFS{}); err == nil || !strings.Contains(err.Error(), "no Go files") {
		t.Errorf("an empty folder gives %v", err)
	}
	broken := mutate(t, installedTLS(t), `package tls\n`, "package tls\n}")
	if _, _, err := patchTLS(broken); err == nil {
		t.Error("a file that does not parse was patched")
	}
	patched := installedTLS(t)
	patched[hookFile] = &fstest.MapFile{Data: hookText}
	if _, _, err := patchTLS(patched); err == nil || !strings.Contains(err.Error(), hookFile) {
		t.Errorf("a toolchain that has the hook already gives %v", err)
	}
}

// The hook cannot collide with crypto/tls: all that it declares starts alike.
func TestHookSource(t *testing.T) {
	formatted, err := format.Source(hookText)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(formatted, hookText) {
		t.Error("_hook/ctrutls.go is not as gofmt writes it")
	}
	f, err := parser.ParseFile(token.NewFileSet(), hookFile, hookText, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	check := func(name string) {
		if !strings.HasPrefix(strings.ToLower(name), "ctrutls") {
			t.Errorf("the hook declares %s", name)
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if receiver, _, isMethod := strings.Cut(qualifiedName(d), "."); isMethod && receiver != "CurveID" {
				check(receiver)
			} else {
				check(d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					check(spec.Name.Name)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						check(name.Name)
					}
				}
			}
		}
	}
}

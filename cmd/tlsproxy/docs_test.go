package main

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/service"
)

// repository is the root of the repository, from this package's folder.
var repository = filepath.Join("..", "..")

// documents lists the repository's texts.
func documents(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (name == ".git" || name == "build" || name == "bin"):
			return fs.SkipDir
		case filepath.Ext(name) == ".md":
			all = append(all, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// foreign are configurations of other programs.
var foreign = regexp.MustCompile(`^(?:scrape_configs|apiVersion):`)

// TestExamplesOfDocs loads every example of a configuration as tlsproxy check does, once
// the files that it names are there and, but in migrating.md, the keys that it needs.
func TestExamplesOfDocs(t *testing.T) {
	cert, found := selfSigned(t), 0
	for _, path := range documents(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, example := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			if foreign.MatchString(example[1]) {
				continue
			}
			found++
			if filepath.Base(path) != "migrating.md" {
				example[1] = completed(example[1])
			}
			if _, err := loadExample(t, cert, example[1]); err != nil {
				t.Errorf("%s: %v\n%s", path, err, example[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("%d examples", found)
	}
}

// completed adds the keys that a configuration cannot lack.
func completed(text string) string {
	if !strings.Contains("\n"+text, "\ncertificates:") {
		text += "certificates: [{cert: cert.pem, key: key.pem}]\n"
	}
	if !strings.Contains("\n"+text, "\nbackends:") {
		text += "backends: {urls: http://127.0.0.1:8080}\n"
	}
	return text
}

// loadExample loads a configuration.
func loadExample(t *testing.T, cert *tls.Certificate, text string) (*service.Plan, error) {
	t.Helper()
	file := filepath.Join(filepath.Dir(files(t, cert, "")), "tlsproxy.yaml")
	text = replaceFolders(text, filepath.Dir(file))
	c, err := config.Parse(file, []byte(text))
	if err != nil {
		return nil, err
	}
	supply(t, reflect.ValueOf(c).Elem(), filepath.Dir(file))
	return service.Load(c)
}

// replaceFolders has a text name files beneath a folder in place of the system's.
func replaceFolders(text, folder string) string {
	return regexp.MustCompile(`([\s"'\[])/(etc|var|run)/`).ReplaceAllString(text, "${1}"+folder+"/$2/")
}

// supply makes the files that a configuration names, from those in a folder.
func supply(t *testing.T, v reflect.Value, folder string) {
	t.Helper()
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			supply(t, v.Index(i), folder)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			supply(t, v.MapIndex(key), folder)
		}
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(v.Type()) {
			if !f.IsExported() {
				continue
			}
			if f.Type.Kind() != reflect.String {
				supply(t, v.FieldByIndex(f.Index), folder)
			} else if name := v.FieldByIndex(f.Index).String(); filepath.IsAbs(name) {
				key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
				supplyFile(t, key, name, folder)
			}
		}
	}
}

// supplyFile makes what a key of the configuration names.
func supplyFile(t *testing.T, key, name, folder string) {
	t.Helper()
	switch key {
	case "cert", "ca", "directory_ca":
		link(t, filepath.Join(folder, "cert.pem"), name)
	case "key":
		link(t, filepath.Join(folder, "key.pem"), name)
	case "folder":
		link(t, filepath.Join(folder, "cert.pem"), filepath.Join(name, "tls.crt"))
		link(t, filepath.Join(folder, "key.pem"), filepath.Join(name, "tls.key"))
	case "secrets", "password_file":
		secret := make([]byte, 32)
		rand.Read(secret)
		write(t, name, base64.StdEncoding.EncodeToString(secret)+"\n")
	case "headers_file":
		write(t, name, "Authorization: Bearer x\n")
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// link makes a file the same as another, unless it is there.
func link(t *testing.T, from, to string) {
	t.Helper()
	if _, err := os.Stat(to); err == nil {
		return
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(from, to); err != nil {
		t.Fatal(err)
	}
}

// TestCommandsOfDocs: what the texts say to type are commands and flags of the program.
func TestCommandsOfDocs(t *testing.T) {
	commands := map[string]*kong.Node{}
	for _, c := range newParser().Model.Leaves(true) {
		commands[c.Name] = c
	}
	lines := 0
	for _, path := range documents(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		// In code, within a line or indented, with what is behind the command.
		for _, match := range regexp.MustCompile("(?m)(?:^    (?:sudo )?|`|<\\()(?:[\\w./]*/)?tlsproxy ([a-z]\\w*)([^`\n#]*)").FindAllStringSubmatch(string(text), -1) {
			command := commands[match[1]]
			if command == nil {
				t.Errorf("%s: there is no tlsproxy %s", path, match[1])
				continue
			}
			lines++
			for _, flag := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(match[2], -1) {
				if !slices.ContainsFunc(command.Flags, func(f *kong.Flag) bool { return f.Name == flag[1] }) {
					t.Errorf("%s: tlsproxy %s has no %s", path, match[1], flag[0])
				}
			}
		}
	}
	if lines < 20 {
		t.Errorf("%d commands", lines)
	}
}

// attributes are names of OpenTelemetry's that could be keys.
var attributes = []string{"tls.curve", "tls.cipher", "tls.resumed", "tls.protocol.version"}

// TestKeysOfDocs: what the texts call by the name of a key of the configuration is one, from
// the top or from within a pool or a host.
func TestKeysOfDocs(t *testing.T) {
	keys := config.Keys()
	named := 0
	for _, path := range documents(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile("`([a-z_]+)((?:\\.[a-z_]+)+)`").FindAllStringSubmatch(string(text), -1) {
			name := match[1] + match[2]
			if !slices.Contains(keys, match[1]) || slices.Contains(attributes, name) || slices.Contains([]string{".crt", ".key", ".go", ".pem"}, filepath.Ext(name)) {
				continue
			}
			named++
			if !slices.ContainsFunc(keys, func(key string) bool { return key == name || strings.HasSuffix(key, "."+name) }) {
				t.Errorf("%s: there is no key %s", path, name)
			}
		}
	}
	if named < 40 {
		t.Errorf("%d keys", named)
	}
}

// TestLinksOfDocs: what a text links to in this repository is there, headings too, and
// each page and picture in docs is linked to.
func TestLinksOfDocs(t *testing.T) {
	links, linked := 0, map[string]bool{}
	for _, path := range documents(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			links++
			name, heading, _ := strings.Cut(match[1], "#")
			target := path
			if name != "" {
				target = filepath.Join(filepath.Dir(path), name)
				linked[target] = target != path
			}
			if there, err := os.ReadFile(target); err != nil && !isFolder(target) {
				t.Errorf("%s: %v", path, err)
			} else if heading != "" && !hasHeading(string(there), heading) {
				t.Errorf("%s: %s has no heading %s", path, target, heading)
			}
		}
	}
	if links < 50 {
		t.Errorf("%d links", links)
	}
	err := filepath.WalkDir(filepath.Join(repository, "docs"), func(path string, entry fs.DirEntry, err error) error {
		if ext := filepath.Ext(path); err == nil && (ext == ".md" || ext == ".png" || ext == ".svg") && !linked[path] {
			t.Errorf("nothing links to %s", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// hasHeading looks for a heading by the name that links have for it.
func hasHeading(text, slug string) bool {
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		kept := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		if strings.ReplaceAll(kept, " ", "-") == slug {
			return true
		}
	}
	return false
}

// TestTagsOfDocs: CONTRIBUTING.md has each build tag of the project's own, and no other.
func TestTagsOfDocs(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Build tags\n")
	section, _, _ = strings.Cut(section, "\n## ")
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(section, -1) {
		listed[row[1]] = true
	}
	used := tags(t)
	for tag := range used {
		if !listed[tag] {
			t.Errorf("CONTRIBUTING.md does not have the build tag %s", tag)
		}
	}
	for tag := range listed {
		if !used[tag] {
			t.Errorf("no file has the build tag %s", tag)
		}
	}
}

// tags collects the build tags of all Go files but for the toolchain's: systems,
// processors, releases, cgo and race.
func tags(t *testing.T) map[string]bool {
	t.Helper()
	toolchains := regexp.MustCompile(`^(?:unix|linux|darwin|(?:free|net|open)bsd|dragonfly|amd64|arm64|cgo|race|ignore|go1\.\d+)$`)
	used := map[string]bool{}
	err := filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && (name == ".git" || name == "build" || name == "bin" || name == "testdata") {
			return fs.SkipDir
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, line := range regexp.MustCompile(`(?m)^//go:build (.*)$`).FindAllStringSubmatch(string(text), -1) {
			for _, tag := range regexp.MustCompile(`[\w.]+`).FindAllString(line[1], -1) {
				if !toolchains.MatchString(tag) {
					used[tag] = true
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return used
}

// TestTargetsOfDocs: what the texts say to make are targets of the Makefile, and the
// scripts that they name are there.
func TestTargetsOfDocs(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, target := range regexp.MustCompile(`(?m)^([\w./-]+):(?:[^=]|$)`).FindAllStringSubmatch(string(makefile), -1) {
		targets[target[1]] = true
	}
	named := 0
	for _, path := range documents(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range regexp.MustCompile("(?m)(?:^    (?:sudo )?|`)make ([a-z/ -]*[a-z])").FindAllStringSubmatch(string(text), -1) {
			for target := range strings.FieldsSeq(command[1]) {
				named++
				if !targets[target] {
					t.Errorf("%s: the Makefile cannot make %s", path, target)
				}
			}
		}
		for _, script := range regexp.MustCompile(`\bscripts/[\w-]+\.sh\b`).FindAllString(string(text), -1) {
			named++
			if _, err := os.Stat(filepath.Join(repository, script)); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if named < 20 {
		t.Errorf("%d targets and scripts", named)
	}
}

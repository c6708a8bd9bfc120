package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/config"
)

// read is what a reader of a manual page sees, without the macros.
func read(page string) string {
	return strings.NewReplacer(`\-`, "-", `\(dq`, `"`, `\e`, `\`, `\&`, "").Replace(page)
}

// TestManualOfTheProgram: every command is in tlsproxy(1) with every flag that its
// --help names, and nothing hidden is.
func TestManualOfTheProgram(t *testing.T) {
	status, page, errText := tlsproxy("man")
	if status != 0 {
		t.Fatalf("status %d: %s", status, errText)
	}
	page = read(page)
	commands := newParser().Model.Leaves(true)
	if len(commands) < 7 {
		t.Errorf("%d commands", len(commands))
	}
	for _, command := range commands {
		_, section, found := strings.Cut(page, "\n.SS \"tlsproxy "+command.Name+"\"\n")
		if !found {
			t.Errorf("no section about %s", command.Name)
			continue
		}
		section, _, _ = strings.Cut(section, "\n.S")
		_, help, _ := tlsproxy(command.Name, "--help")
		for _, flag := range regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[a-z-]+)`).FindAllStringSubmatch(help, -1) {
			if in := section; flag[1] != "--help" && !strings.Contains(in, flag[1]) {
				t.Errorf("%s: no %s", command.Name, flag[1])
			}
		}
	}
	for _, absent := range []string{"loadgen", "tlsproxy complete\n"} {
		if strings.Contains(page, absent) {
			t.Errorf("%q is in the page", absent)
		}
	}
}

// TestManualOfTheConfiguration: every key is in tlsproxy.yaml(5) once, and every word of
// what the annotated example says of it.
func TestManualOfTheConfiguration(t *testing.T) {
	status, page, errText := tlsproxy("man", "tlsproxy.yaml.5")
	if status != 0 {
		t.Fatalf("status %d: %s", status, errText)
	}
	page = read(page)
	for _, key := range withoutRepeats(config.Keys()) {
		macro := "\n.TP\n.B"
		if !strings.Contains(key, ".") {
			macro = "\n.SS"
		}
		if n := strings.Count(page, macro+` "`+key+"\"\n"); n != 1 {
			t.Errorf("%s: %d times", key, n)
		}
	}
	for line := range strings.Lines(example) {
		if text, comment := strings.CutPrefix(strings.TrimSpace(line), "#"); comment && !strings.Contains(page, strings.TrimSpace(text)) {
			t.Errorf("the page lacks %q", text)
		}
	}
}

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFeatures: each row of the feature table that says yes for tlsproxy links to tests
// that exist, each that says no to none, and notes are there where rows refer to them.
func TestFeatures(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "docs", "features.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		title, _, _ := strings.Cut(section, "\n")
		for line := range strings.Lines(section) {
			if cells := cellsOf(line); len(cells) > 0 && cells[0] != "" && !strings.HasPrefix(cells[0], "---") {
				rows++
				for _, problem := range problemsOfFeature(cells, section) {
					t.Errorf("%s: %s: %s", title, cells[0], problem)
				}
			}
		}
	}
	if rows < 50 {
		t.Errorf("%d rows", rows)
	}
}

// cellsOf takes a row of a table apart.
func cellsOf(line string) []string {
	line = strings.TrimSpace(line)
	if !strings.HasPrefix(line, "|") {
		return nil
	}
	cells := strings.Split(strings.Trim(line, "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

var (
	answer   = regexp.MustCompile(`^(yes|no|part|plugin|-)(?: \((\d+)\))?$`)
	testLink = regexp.MustCompile(`\[(Test\w+)\]\(([^)]+_test\.go)\)`)
)

// problemsOfFeature checks one row: what it is, tlsproxy, four others, tests.
func problemsOfFeature(cells []string, section string) (problems []string) {
	const ours, tests = 1, 6
	if len(cells) != tests+1 {
		return []string{"a row has seven cells"}
	}
	for _, cell := range cells[ours:tests] {
		match := answer.FindStringSubmatch(cell)
		switch {
		case match == nil:
			problems = append(problems, cell+" is no answer")
		case match[2] != "" && !regexp.MustCompile(`(?m)(^|\. )\(`+match[2]+`\) [A-Z]`).MatchString(section):
			problems = append(problems, "no note "+match[2])
		case match[1] == "part" && match[2] == "":
			problems = append(problems, "part takes a note")
		}
	}
	links := testLink.FindAllStringSubmatch(cells[tests], -1)
	if len(links) != strings.Count(cells[tests], "](") || (len(links) > 0) != (cells[ours] != "no") {
		problems = append(problems, cells[ours]+" is shown by "+cells[tests])
	}
	for _, link := range links {
		source, err := os.ReadFile(filepath.Join(repository, "docs", link[2]))
		if err != nil {
			problems = append(problems, err.Error())
		} else if !strings.Contains(string(source), "\nfunc "+link[1]+"(t *testing.T)") {
			problems = append(problems, link[2]+" has no "+link[1])
		}
	}
	return problems
}

//go:build browser && sim && !nogpu

package main

import (
	"path/filepath"
	"testing"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/report"
)

// TestReportPage looks at a report in Chromium: drawings are as wide as what is around them, on a phone too, and what is wider than the page
// can be scrolled to by keyboard.
func TestReportPage(t *testing.T) {
	noGPU(t)
	folder := t.TempDir()
	if status, _, errText := tlsproxy("report", "-o", folder, "--duration", "50ms"); status != 0 {
		t.Fatalf("status %d: %s", status, errText)
	}
	b := openBrowser(t, "file://"+filepath.Join(folder, report.HTMLFile))
	b.shoot("report-light")
	for script, want := range map[string]string{
		`performance.getEntriesByType("resource").length`: "0",
		`document.querySelectorAll("figure svg").length === JSON.parse(document.getElementById("report-data").textContent).sections.flatMap((s) => s.tables ?? []).flatMap((t) => t.charts ?? []).length`: "true",
		`[...document.querySelectorAll("figure svg")].every((e) => e.getBoundingClientRect().width > 300 && getComputedStyle(e.querySelector("text")).fill === "rgb(31, 35, 40)")`:                        "true",
		`[...document.querySelectorAll(".scroll")].every((e) => (e.focus(), document.activeElement === e) && (e.ariaLabel || e.getAttribute("aria-labelledby")))`:                                         "true",
		`JSON.parse(document.getElementById("report-data").textContent).sections.length`:                                                                                                                  "6",
	} {
		if got := b.text(script); got != want {
			t.Errorf("%s: %s", script, got)
		}
	}
	b.phoneAndDark("report")
	if ink := b.text(`getComputedStyle(document.querySelector("figure svg text")).fill`); ink != "rgb(230, 237, 243)" {
		t.Errorf("in the dark drawings are written in %s", ink)
	}
}

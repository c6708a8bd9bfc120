package main

import (
	"slices"
	"testing"
)

func TestGoflags(t *testing.T) {
	for _, tc := range []struct {
		goflags string
		fields  []string
	}{
		{"", nil},
		{" \t", nil},
		{"-mod=mod -v", []string{"-mod=mod", "-v"}},
		{`'-ldflags=-s -w'  -tags=a,b`, []string{"-ldflags=-s -w", "-tags=a,b"}},
		{`"-ldflags=-X 'main.v=1 2'"`, []string{"-ldflags=-X 'main.v=1 2'"}},
		{`-ldflags="-s`, []string{`-ldflags="-s`}}, // quotes count at a field's start only
		{`''`, []string{""}},
	} {
		fields, err := splitGoflags(tc.goflags)
		if err != nil || !slices.Equal(fields, tc.fields) {
			t.Errorf("splitGoflags(%q) is %q, %v; want %q", tc.goflags, fields, err, tc.fields)
		}
		joined, err := joinGoflags(tc.fields)
		if err != nil {
			t.Errorf("joinGoflags(%q): %v", tc.fields, err)
		}
		if again, err := splitGoflags(joined); err != nil || !slices.Equal(again, tc.fields) {
			t.Errorf("joinGoflags(%q) is %q, which splits into %q, %v", tc.fields, joined, again, err)
		}
	}
	if fields, err := splitGoflags(`-v '-x`); err == nil {
		t.Errorf("an open quote gives %q", fields)
	}
	if joined, err := joinGoflags([]string{`-o='"`}); err == nil {
		t.Errorf("a field with both quotes gives %s", joined)
	}
}

func TestTakeOverlay(t *testing.T) {
	overlay, rest := takeOverlay([]string{"-v", "-overlay=a.json", "-mod=mod", "--overlay=b.json", "-overlays=c"})
	if want := []string{"-v", "-mod=mod", "-overlays=c"}; overlay != "b.json" || !slices.Equal(rest, want) {
		t.Errorf("%q, %q; want b.json, %q", overlay, rest, want)
	}
}

func TestTakeOverlayArg(t *testing.T) {
	for _, tc := range []struct {
		args    []string
		overlay string
		rest    []string // args where nil
	}{
		{args: []string{"build", "./..."}},
		{args: []string{"build", "-overlay", "o.json", "."}, overlay: "o.json", rest: []string{"build", "."}},
		{args: []string{"build", "-v", "-o", "x", "--overlay=o.json", "."}, overlay: "o.json", rest: []string{"build", "-v", "-o", "x", "."}},
		{args: []string{"-C", "dir", "build", "-overlay=o.json"}, overlay: "o.json", rest: []string{"-C", "dir", "build"}},
		{args: []string{"test", ".", "-overlay=o.json", "-args", "-overlay=mine"}, overlay: "o.json", rest: []string{"test", ".", "-args", "-overlay=mine"}},
		{args: []string{"run", ".", "-overlay=mine"}},
		{args: []string{"run", "-tags", "x", "-overlay", "o.json", ".", "-overlay", "mine"}, overlay: "o.json", rest: []string{"run", "-tags", "x", ".", "-overlay", "mine"}},
		{args: []string{"run", "-race", "main.go", "--overlay=mine"}},
		{args: []string{"tool", "name", "-overlay=mine"}},
		{args: []string{"vet", "--", "-overlay=mine"}},
		{args: []string{"build", "-overlay"}, rest: []string{"build"}},
	} {
		want := tc.rest
		if want == nil {
			want = tc.args
		}
		if overlay, rest := takeOverlayArg(tc.args); overlay != tc.overlay || !slices.Equal(rest, want) {
			t.Errorf("takeOverlayArg(%q) is %q, %q; want %q, %q", tc.args, overlay, rest, tc.overlay, want)
		}
	}
}

func TestTakeChdir(t *testing.T) {
	for _, tc := range []struct {
		args []string
		dir  string
		rest []string
	}{
		{nil, "", nil},
		{[]string{"build"}, "", []string{"build"}},
		{[]string{"-C", "d", "build", "."}, "d", []string{"build", "."}},
		{[]string{"build", "-C", "d", "."}, "d", []string{"build", "."}},
		{[]string{"build", "-C=d"}, "d", []string{"build"}},
		{[]string{"--C=d", "check"}, "d", []string{"check"}},
		{[]string{"run", ".", "-C", "d"}, "", []string{"run", ".", "-C", "d"}},
		{[]string{"build", "-v", "-C", "d"}, "", []string{"build", "-v", "-C", "d"}},
		{[]string{"build", "-C"}, "", []string{"build", "-C"}},
	} {
		if dir, rest := takeChdir(tc.args); dir != tc.dir || !slices.Equal(rest, tc.rest) {
			t.Errorf("takeChdir(%q) is %q, %q; want %q, %q", tc.args, dir, rest, tc.dir, tc.rest)
		}
	}
}

func FuzzGoflags(f *testing.F) {
	f.Add(`-mod=mod '-ldflags=-s -w'`)
	f.Add(`"-x='"`)
	f.Fuzz(func(t *testing.T, goflags string) {
		fields, err := splitGoflags(goflags)
		if err != nil {
			return
		}
		joined, err := joinGoflags(fields)
		if err != nil {
			return
		}
		if again, err := splitGoflags(joined); err != nil || !slices.Equal(again, fields) {
			t.Errorf("%q splits into %q; joined as %q it splits into %q, %v", goflags, fields, joined, again, err)
		}
	})
}

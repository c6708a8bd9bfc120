package config

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// Change is a key whose value differs between two configurations.
type Change struct {
	Key      string // such as "timeouts.idle" or "hosts[2].mode"
	From, To string // as the file would say it, shortened; "" where there is none
	Restart  bool   // a running proxy does not take it up
}

// maxChangeText bounds the text of one value, in bytes.
const maxChangeText = 200

// Diff lists what is different in to, in the order of Config's fields. Entries
// that were put into a list or taken out are one Change each.
func Diff(from, to *Config) []Change {
	var d differ
	d.compare("", reflect.ValueOf(from).Elem(), reflect.ValueOf(to).Elem(), false)
	for i := range d.changes {
		if c := &d.changes[i]; strings.HasPrefix(c.Key, "acme.") && !from.usesACME() {
			c.Restart = true
		}
	}
	return d.changes
}

// usesACME reports whether c has names for ACME. A running proxy takes up others,
// but does not begin with the first: what goes with them it would not take up.
func (c *Config) usesACME() bool { return len(c.ACME.Names) > 0 }

// KeepUntilRestart gives c the values of running where a running proxy does not
// take up others, so that c tells what is in force.
func (c *Config) KeepUntilRestart(running *Config) {
	keep(reflect.ValueOf(c).Elem(), reflect.ValueOf(running).Elem())
	if !running.usesACME() {
		c.ACME = running.ACME
	}
}

func keep(dst, src reflect.Value) {
	for i := range dst.NumField() {
		f := dst.Type().Field(i)
		switch {
		case keyOf(f) == "":
		case needsRestart(f):
			dst.Field(i).Set(src.Field(i))
		case f.Type.Kind() == reflect.Struct && !isText(f.Type):
			keep(dst.Field(i), src.Field(i))
		}
	}
}

func needsRestart(f reflect.StructField) bool { return f.Tag.Get("reload") == "restart" }

// isText reports whether a type is one value in the file.
func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

type differ struct{ changes []Change }

func (d *differ) add(path string, from, to reflect.Value, restart bool) {
	d.changes = append(d.changes, Change{Key: path, From: textOf(from), To: textOf(to), Restart: restart})
}

// textOf writes a value in one line; the zero Value is no value.
func textOf(v reflect.Value) string {
	if !v.IsValid() {
		return ""
	}
	out, err := yaml.MarshalWithOptions(v.Interface(), yaml.Flow(true))
	if err != nil {
		panic("tlsproxy: config: " + err.Error()) // every type of Config can be written
	}
	text := strings.TrimSuffix(string(out), "\n")
	if len(text) > maxChangeText {
		return text[:maxChangeText] + "..."
	}
	return text
}

func (d *differ) compare(path string, from, to reflect.Value, restart bool) {
	switch kind := from.Kind(); {
	case isText(from.Type()) || kind != reflect.Struct && kind != reflect.Slice && kind != reflect.Map:
		if !reflect.DeepEqual(from.Interface(), to.Interface()) {
			d.add(path, from, to, restart)
		}
	case kind == reflect.Struct:
		for i := range from.NumField() {
			if f := from.Type().Field(i); keyOf(f) != "" {
				d.compare(join(path, keyOf(f)), from.Field(i), to.Field(i), restart || needsRestart(f))
			}
		}
	case kind == reflect.Map:
		d.names(path, from, to, restart)
	default:
		d.list(path, from, to, restart)
	}
}

// names compares mappings whose keys the file chooses.
func (d *differ) names(path string, from, to reflect.Value, restart bool) {
	var names []string
	for _, m := range []reflect.Value{from, to} {
		for _, k := range m.MapKeys() {
			names = append(names, k.String())
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		before, after := from.MapIndex(reflect.ValueOf(name)), to.MapIndex(reflect.ValueOf(name))
		if before.IsValid() && after.IsValid() {
			d.compare(join(path, name), before, after, restart)
		} else {
			d.add(join(path, name), before, after, restart)
		}
	}
}

// list compares lists: of single values as a whole, of others entry by entry
// between what both begin and end with.
func (d *differ) list(path string, from, to reflect.Value, restart bool) {
	if from.Len() == 0 && to.Len() == 0 {
		return // be they nil or not
	}
	if elem := from.Type().Elem(); elem.Kind() != reflect.Struct || isText(elem) {
		if !reflect.DeepEqual(from.Interface(), to.Interface()) {
			d.add(path, from, to, restart)
		}
		return
	}
	same := func(i, j int) bool { return reflect.DeepEqual(from.Index(i).Interface(), to.Index(j).Interface()) }
	start, m, n := 0, from.Len(), to.Len()
	for start < min(m, n) && same(start, start) {
		start++
	}
	for m > start && n > start && same(m-1, n-1) {
		m, n = m-1, n-1
	}
	for i := start; i < max(m, n); i++ {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case i < m && i < n:
			d.compare(at, from.Index(i), to.Index(i), restart)
		case i < m:
			d.add(at, from.Index(i), reflect.Value{}, restart)
		default:
			d.add(at, reflect.Value{}, to.Index(i), restart)
		}
	}
}

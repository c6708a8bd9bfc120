package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// decoder walks the syntax tree along the types of Config. It notes every
// fault and goes on, and notes where each value stands.
type decoder struct {
	config *Config
	errs   Errors
}

func (d *decoder) errorf(n ast.Node, format string, args ...any) {
	at := where(n)
	d.errs = append(d.errs, &Error{File: d.config.file, Line: at.line, Column: at.column, Message: fmt.Sprintf(format, args...)})
}

// where is the place of a node; a mapping's own token is its first colon, so
// its place is that of its first key.
func where(n ast.Node) position {
	switch n := n.(type) {
	case *ast.MappingNode:
		if len(n.Values) > 0 && !n.IsFlowStyle {
			return where(n.Values[0])
		}
	case *ast.MappingValueNode:
		return where(n.Key)
	}
	return tokenAt(n.GetToken())
}

func tokenAt(tk *token.Token) position {
	if tk == nil || tk.Position == nil {
		return position{1, 1}
	}
	return position{tk.Position.Line, tk.Position.Column}
}

// value decodes n into dst, whose key in the file is path. bounds are the tags
// of the field that holds dst.
func (d *decoder) value(path string, n ast.Node, dst reflect.Value, bounds reflect.StructTag) {
	if path != "" {
		d.config.positions[path] = where(n)
	}
	switch n := n.(type) {
	case *ast.AnchorNode, *ast.AliasNode:
		d.errorf(n, "anchors and aliases are not supported; write the value out")
		return
	case *ast.TagNode:
		d.errorf(n, "tags are not supported; remove %s", n.GetToken().Value)
		return
	case *ast.NullNode:
		d.errorf(n, "%s has no value; give it one, or remove the key to have its default", path)
		return
	}
	if _, ok := dst.Addr().Interface().(encoding.TextUnmarshaler); ok {
		d.scalar(path, n, dst, bounds)
		return
	}
	switch dst.Kind() {
	case reflect.Struct:
		d.mapping(path, n, dst)
	case reflect.Slice:
		d.list(path, n, dst, bounds)
	case reflect.Map:
		d.names(path, n, dst, bounds)
	default:
		d.scalar(path, n, dst, bounds)
	}
}

// mapping decodes the keys of a struct, or a single value where that is a
// short form of it.
func (d *decoder) mapping(path string, n ast.Node, dst reflect.Value) {
	m, ok := n.(*ast.MappingNode)
	if short, has := dst.Addr().Interface().(interface{ shortForm() any }); has && !ok {
		d.scalar(path, n, reflect.ValueOf(short.shortForm()).Elem(), "")
		return
	}
	if !ok {
		d.errorf(n, "%s is a %s; it must be a mapping of keys to values", orFile(path), kindOf(n))
		return
	}
	for _, entry := range m.Values {
		name := entry.Key.GetToken().Value
		field, ok := fieldByKey(dst.Type(), name)
		if !ok {
			d.errorf(entry, "unknown key %q%s", name, d.suggestKey(name, dst.Type()))
			continue
		}
		d.value(join(path, name), entry.Value, dst.FieldByIndex(field.Index), field.Tag)
	}
}

// suggestKey ends the message about an unknown key: a key of this mapping that
// differs in one letter, else the same key where it belongs, else the nearest
// key of this mapping, else all of them.
func (d *decoder) suggestKey(name string, t reflect.Type) string {
	if here := nearest(name, keysOf(t)); here != "" && distance(name, here) == 1 {
		return didYouMean(name, keysOf(t))
	}
	suffix := "." + name
	for _, path := range Keys() {
		if strings.HasSuffix(path, suffix) {
			return fmt.Sprintf("; did you mean %q?", path)
		}
	}
	return didYouMean(name, keysOf(t))
}

// list decodes a sequence, or one value as a list of one.
func (d *decoder) list(path string, n ast.Node, dst reflect.Value, bounds reflect.StructTag) {
	items := []ast.Node{n}
	if seq, ok := n.(*ast.SequenceNode); ok {
		items = seq.Values
	}
	if most, _ := strconv.Atoi(bounds.Get("max")); len(items) > most {
		d.errorf(n, "%s has %d entries; the most is %d", path, len(items), most)
		return
	}
	dst.Set(reflect.MakeSlice(dst.Type(), len(items), len(items)))
	for i, item := range items {
		setDefaults(dst.Index(i))
		d.value(fmt.Sprintf("%s[%d]", path, i), item, dst.Index(i), "")
	}
}

// names decodes a mapping whose keys are names that the file gives.
func (d *decoder) names(path string, n ast.Node, dst reflect.Value, bounds reflect.StructTag) {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		d.errorf(n, "%s is a %s; it must be a mapping of names to values", path, kindOf(n))
		return
	}
	if most, _ := strconv.Atoi(bounds.Get("max")); len(m.Values) > most {
		d.errorf(n, "%s has %d entries; the most is %d", path, len(m.Values), most)
		return
	}
	for _, entry := range m.Values {
		name := entry.Key.GetToken().Value
		if !validName(name) {
			d.errorf(entry, "%q is not a name for an entry of %s; write letters, digits, - and _, %d at most", name, path, maxNameBytes)
			continue
		}
		item := reflect.New(dst.Type().Elem()).Elem()
		setDefaults(item)
		d.value(join(path, name), entry.Value, item, "")
		dst.SetMapIndex(reflect.ValueOf(name), item)
	}
}

// maxNameBytes bounds a name that the file gives to something.
const maxNameBytes = 64

// validName keeps names apart from the separators of paths.
func validName(name string) bool {
	return name != "" && len(name) <= maxNameBytes && strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// setDefaults gives an entry of a list or mapping the values of keys that it
// leaves out.
func setDefaults(item reflect.Value) {
	if d, ok := item.Addr().Interface().(interface{ setDefaults() }); ok {
		d.setDefaults()
	}
}

// scalar decodes one value from its text and checks its bounds.
func (d *decoder) scalar(path string, n ast.Node, dst reflect.Value, bounds reflect.StructTag) {
	text, ok := scalarText(n)
	if !ok {
		d.errorf(n, "%s is a %s; it must be a single value%s", path, kindOf(n), hintToQuote(n))
		return
	}
	if text == "" && bounds.Get("empty") == "" {
		d.errorf(n, "%s: the value is empty", path)
		return
	}
	if err := setText(dst, text); err != nil {
		d.errorf(n, "%s: %v", path, err)
		return
	}
	if err := checkBounds(dst, bounds); err != nil {
		d.errorf(n, "%s: %v", path, err)
	}
}

// hintToQuote explains a mapping that nobody wrote: within brackets and braces
// the parser splits a value such as a URL at its last colon, although no space
// follows that.
func hintToQuote(n ast.Node) string {
	m, ok := n.(*ast.MappingNode)
	if !ok || len(m.Values) != 1 {
		return ""
	}
	colon, rest := tokenAt(m.Values[0].GetToken()), where(m.Values[0].Value)
	if rest.line != colon.line || rest.column != colon.column+1 {
		return ""
	}
	return `; put quotes around a value that holds a colon, as in ["http://127.0.0.1:8080"]`
}

// scalarText returns a scalar as it is written, so that 1.3 and "1.3" are one.
func scalarText(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return strings.TrimSuffix(n.Value.Value, "\n"), true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// setText sets a value of one of the kinds that Config uses from its text.
func setText(dst reflect.Value, text string) error {
	if u, ok := dst.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	switch dst.Kind() {
	case reflect.String:
		dst.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		dst.SetBool(text == "true")
	case reflect.Int:
		v, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		dst.SetInt(int64(v))
	default:
		panic("tlsproxy: config: no rule for " + dst.Type().String())
	}
	return nil
}

// checkBounds compares a number with the tags min and max of its field.
func checkBounds(v reflect.Value, bounds reflect.StructTag) error {
	least, bounded := bounds.Lookup("min")
	if !bounded {
		return nil
	}
	most := bounds.Get("max")
	if v.Int() < boundOf(v.Type(), least) || v.Int() > boundOf(v.Type(), most) {
		return fmt.Errorf("%v is outside %s to %s", v.Interface(), least, most)
	}
	return nil
}

// boundOf reads a tag of Config, which is written like the values it bounds.
func boundOf(t reflect.Type, text string) int64 {
	bound := reflect.New(t).Elem()
	if err := setText(bound, text); err != nil {
		panic("tlsproxy: config: a bound in Config: " + err.Error())
	}
	return bound.Int()
}

// kindOf names a node's kind for people.
func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "mapping"
	case *ast.SequenceNode:
		return "list"
	}
	return "single value"
}

func orFile(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// keyOf is the key that sets a field, "" if none does.
func keyOf(f reflect.StructField) string {
	key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return key
}

// fieldByKey finds the field that the key name sets.
func fieldByKey(t reflect.Type, name string) (reflect.StructField, bool) {
	for _, f := range reflect.VisibleFields(t) {
		if key := keyOf(f); key != "" && key == name {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// keysOf lists the keys of one mapping.
func keysOf(t reflect.Type) []string {
	var keys []string
	for _, f := range reflect.VisibleFields(t) {
		if key := keyOf(f); key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// Keys lists every key that a file can hold, as paths such as
// "timeouts.handshake"; an entry of a list shows as "certificates.cert", and a
// name that the file gives as the star in "pools.*.urls".
func Keys() []string { return keysUnder("", reflect.TypeFor[Config]()) }

func keysUnder(path string, t reflect.Type) []string {
	var keys []string
	for _, f := range reflect.VisibleFields(t) {
		name := keyOf(f)
		if name == "" {
			continue
		}
		keys = append(keys, join(path, name))
		inner, at := f.Type, join(path, name)
		switch inner.Kind() {
		case reflect.Slice:
			inner = inner.Elem()
		case reflect.Map:
			inner, at = inner.Elem(), join(at, "*")
		}
		if inner.Kind() == reflect.Struct && !reflect.PointerTo(inner).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
			keys = append(keys, keysUnder(at, inner)...)
		}
	}
	return keys
}

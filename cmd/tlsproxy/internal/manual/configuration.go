package manual

import (
	"strings"
)

// Configuration writes tlsproxy.yaml(5) from the annotated example: a configuration in
// which a comment above each key says what it is. Comments that no key follows, and
// those above the first blank line, are the description. A key beneath one of examples
// (certificates, hosts.names) has no default but an example.
func Configuration(annotated string, examples []string) []byte {
	p := newPage("tlsproxy.yaml", 5, "configuration of tlsproxy")
	head, keys, _ := strings.Cut(annotated, "\n\n")
	p.section("DESCRIPTION")
	p.text(uncommented(head) + "\n\nKeys are named here by their way from the top: tls.tickets.rotate is rotate in tickets in tls.")
	p.section("KEYS")
	for _, k := range keysOf(keys) {
		p.key(k, examples)
	}
	p.section("SEE ALSO")
	p.text("tlsproxy(1)")
	return p.Bytes()
}

func uncommented(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString(strings.TrimPrefix(strings.TrimPrefix(line, "#"), " "))
	}
	return b.String()
}

// key is one of the configuration's.
type key struct {
	path    string
	comment string
	values  []string // its own, or the items of its list; none: it holds other keys
}

func (p *page) key(k key, examples []string) {
	if !strings.Contains(k.path, ".") {
		p.subsection(k.path)
		p.text(k.comment)
	} else {
		p.term(k.path, k.comment)
	}
	if value := k.value(examples); value != "" {
		p.WriteString(".br\n")
		p.lines(value)
	}
}

// value says what the key is where it is not set.
func (k key) value(examples []string) string {
	if len(k.values) == 0 {
		return ""
	}
	word := "Default: "
	for _, e := range examples {
		if k.path == e || strings.HasPrefix(k.path, e+".") {
			word = "Example: "
		}
	}
	return word + strings.Join(k.values, ", ")
}

// keysOf reads the lines of the example, each key once. A key that comes again, in
// another entry of a list, adds its comment.
func keysOf(text string) []key {
	r := &reader{at: map[string]int{}}
	for line := range strings.Lines(text) {
		r.line(strings.TrimRight(line, "\n"))
	}
	return r.keys
}

// reader goes through the example. It knows as much of YAML as the example uses.
type reader struct {
	keys    []key
	at      map[string]int // in keys, by path
	comment []string       // above what comes next
	open    []level        // the keys that the line is in
}

// level is a key, and how far it is indented.
type level struct {
	indent int
	name   string
}

func (r *reader) line(line string) {
	text := strings.TrimLeft(line, " ")
	indent := len(line) - len(text)
	switch {
	case text == "":
		r.comment = nil
	case strings.HasPrefix(text, "#"):
		r.comment = append(r.comment, strings.TrimSpace(strings.TrimLeft(text, "#")))
	case strings.HasPrefix(text, "- "):
		item := strings.TrimPrefix(text, "- ")
		if name, value, is := entry(item); is {
			r.key(indent+2, name, value)
			return
		}
		r.leave(indent)
		k := &r.keys[r.at[r.path()]]
		k.values = append(k.values, item)
	default:
		if name, value, is := entry(text); is {
			r.key(indent, name, value)
		}
	}
}

// entry takes "name: value" apart; a word in quotes, such as that of a list's item, is
// none.
func entry(text string) (name, value string, is bool) {
	name, value, is = strings.Cut(text, ":")
	is = is && !strings.ContainsAny(name, `"' /`) && (value == "" || value[0] == ' ')
	return name, strings.TrimSpace(value), is
}

// leave closes the keys that are indented as much as a line, or more.
func (r *reader) leave(indent int) {
	for len(r.open) > 0 && r.open[len(r.open)-1].indent >= indent {
		r.open = r.open[:len(r.open)-1]
	}
}

func (r *reader) path() string {
	names := make([]string, len(r.open))
	for i, l := range r.open {
		names[i] = l.name
	}
	return strings.Join(names, ".")
}

func (r *reader) key(indent int, name, value string) {
	r.leave(indent)
	r.open = append(r.open, level{indent, name})
	path, comment := r.path(), strings.Join(r.comment, "\n")
	r.comment = nil
	at, known := r.at[path]
	if !known {
		at = len(r.keys)
		r.at[path] = at
		r.keys = append(r.keys, key{path: path, comment: comment})
		if value != "" {
			r.keys[at].values = []string{value}
		}
	} else if comment != "" {
		r.keys[at].comment = strings.TrimSpace(r.keys[at].comment + "\n" + comment)
	}
}

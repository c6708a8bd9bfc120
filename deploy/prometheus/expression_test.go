package prometheus

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/prometheus/promql/parser"
)

// metric is what is exported under a name.
type metric struct {
	kind   string   // counter, gauge, histogram or summary
	labels []string // but for those of the target
}

// targetLabels are those that a Prometheus server adds.
var targetLabels = []string{"job", "instance"}

// exported are all metrics: those that docs/metrics.md lists, those of the client
// library, and what a Prometheus server says of each target.
func exported(t *testing.T) map[string]metric {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]metric{"up": {kind: "gauge"}}
	for _, row := range regexp.MustCompile("(?m)^\\| `(tlsproxy_[a-z0-9_]+)` \\| ([a-z]+) \\| [^|]* \\| ([^|]*) \\|").FindAllStringSubmatch(string(text), -1) {
		all[row[1]] = metric{kind: row[2], labels: strings.Fields(strings.ReplaceAll(row[3], "`", ""))}
	}
	if len(all) < 40 {
		t.Fatalf("docs/metrics.md lists %d metrics; has its form changed?", len(all))
	}
	registry := client.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		all[f.GetName()] = metric{kind: strings.ToLower(f.GetType().String())}
	}
	return all
}

// A checker finds what is wrong with expressions.
type checker struct{ metrics map[string]metric }

// check returns the labels of the series that an expression gives.
func (c *checker) check(expression string) (labels []string, err error) {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		return nil, err
	}
	parser.Inspect(parsed, func(node parser.Node, path []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok && err == nil {
			err = c.selector(s, path)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c.labels(parsed)
}

// family finds a metric by the name of one of its series.
func (c *checker) family(series string) (m metric, bucket bool, ok bool) {
	if m, ok = c.metrics[series]; ok {
		return m, false, m.kind != "histogram" // of which the classic form is asked for
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, cut := strings.CutSuffix(series, suffix); cut {
			m, ok = c.metrics[base]
			return m, suffix == "_bucket", ok && (m.kind == "histogram" || m.kind == "summary" && suffix != "_bucket")
		}
	}
	return metric{}, false, false
}

// selector checks one use of a metric.
func (c *checker) selector(s *parser.VectorSelector, path []parser.Node) error {
	m, _, ok := c.family(s.Name)
	if !ok {
		return fmt.Errorf("nothing is exported as %q", s.Name)
	}
	has, err := c.labels(s)
	if err != nil {
		return err
	}
	for _, matcher := range s.LabelMatchers {
		if matcher.Name != "__name__" && !slices.Contains(has, matcher.Name) {
			return fmt.Errorf("%s has no label %q", s.Name, matcher.Name)
		}
	}
	for _, node := range path {
		call, ok := node.(*parser.Call)
		if ok && (call.Func.Name == "rate" || call.Func.Name == "increase") && m.kind == "gauge" {
			return fmt.Errorf("%s of %s, which is a gauge", call.Func.Name, s.Name)
		}
	}
	return nil
}

// labels are those that the series of an expression have.
func (c *checker) labels(e parser.Expr) ([]string, error) {
	switch e := e.(type) {
	case *parser.VectorSelector:
		m, bucket, _ := c.family(e.Name)
		has := slices.Concat(targetLabels, m.labels)
		if bucket {
			has = append(has, "le")
		}
		return has, nil
	case *parser.MatrixSelector:
		return c.labels(e.VectorSelector)
	case *parser.SubqueryExpr:
		return c.labels(e.Expr)
	case *parser.ParenExpr:
		return c.labels(e.Expr)
	case *parser.StepInvariantExpr:
		return c.labels(e.Expr)
	case *parser.UnaryExpr:
		return c.labels(e.Expr)
	case *parser.NumberLiteral, *parser.StringLiteral:
		return nil, nil
	case *parser.Call:
		return c.ofCall(e)
	case *parser.AggregateExpr:
		return c.ofAggregation(e)
	case *parser.BinaryExpr:
		return c.ofBinary(e)
	}
	return nil, fmt.Errorf("the test does not know %T", e)
}

func (c *checker) ofCall(e *parser.Call) (has []string, err error) {
	for _, arg := range e.Args {
		of, err := c.labels(arg)
		if err != nil {
			return nil, err
		}
		has = append(has, of...)
	}
	if e.Func.Name == "histogram_quantile" {
		if !slices.Contains(has, "le") {
			return nil, fmt.Errorf("histogram_quantile of series without le: %s", e)
		}
		has = slices.DeleteFunc(has, func(name string) bool { return name == "le" })
	}
	return has, nil
}

func (c *checker) ofAggregation(e *parser.AggregateExpr) ([]string, error) {
	has, err := c.labels(e.Expr)
	if err != nil {
		return nil, err
	}
	for _, name := range e.Grouping {
		if !slices.Contains(has, name) {
			return nil, fmt.Errorf("there is no label %q to group by in %s", name, e)
		}
	}
	if e.Without {
		return slices.DeleteFunc(has, func(name string) bool { return slices.Contains(e.Grouping, name) }), nil
	}
	return e.Grouping, nil
}

func (c *checker) ofBinary(e *parser.BinaryExpr) ([]string, error) {
	left, err := c.labels(e.LHS)
	if err != nil {
		return nil, err
	}
	right, err := c.labels(e.RHS)
	if err != nil {
		return nil, err
	}
	if m := e.VectorMatching; m != nil {
		for _, name := range m.MatchingLabels {
			if !slices.Contains(left, name) || !slices.Contains(right, name) {
				return nil, fmt.Errorf("there is no label %q on both sides of %s", name, e)
			}
		}
	}
	switch {
	case e.Op == parser.LOR:
		return union(left, right), nil
	case len(left) == 0 && e.VectorMatching == nil: // a number
		return right, nil
	}
	return left, nil
}

func union(a, b []string) []string {
	all := map[string]bool{}
	for _, name := range slices.Concat(a, b) {
		all[name] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// TestChecker finds each kind of mistake.
func TestChecker(t *testing.T) {
	c := &checker{map[string]metric{"c_total": {"counter", []string{"a"}}, "g": {"gauge", nil}, "h": {"histogram", []string{"b"}}}}
	for expression, want := range map[string]string{
		"sum by (a) (rate(c_total[5m]))":                                      "",
		"histogram_quantile(.9, sum by (b, le) (rate(h_bucket{b='x'}[5m])))":  "",
		"rate(c_total[5m]) / on (job, a) group_left () rate(c_total[1m] @ 1)": "",
		"c_total unless g offset 5m":                                          "",
		"d_total":                                                             `nothing is exported as "d_total"`,
		"h":                                                                   `nothing is exported as "h"`,
		"g_bucket":                                                            `nothing is exported as "g_bucket"`,
		"c_total{b='x'}":                                                      `c_total has no label "b"`,
		"sum by (b) (c_total)":                                                `there is no label "b" to group by in sum by (b) (c_total)`,
		"sum by (a) (sum by (job) (c_total))":                                 `there is no label "a" to group by in sum by (a) (sum by (job) (c_total))`,
		"rate(g[5m])":                                                         "rate of g, which is a gauge",
		"histogram_quantile(.9, sum by (b) (rate(h_bucket[5m])))": "histogram_quantile of series without le: histogram_quantile(0.9, sum by (b) (rate(h_bucket[5m])))",
		"c_total / on (b) h_sum":                                  `there is no label "b" on both sides of c_total / on (b) h_sum`,
		"c_total +":                                               "1:10: parse error: unexpected end of input",
	} {
		if _, err := c.check(expression); err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want %s", expression, err, want)
		}
	}
	labels, err := c.check("histogram_quantile(.9, sum by (b, le) (rate(h_bucket[5m])))")
	if err != nil || !slices.Equal(labels, []string{"b"}) {
		t.Errorf("labels %q, %v", labels, err)
	}
}

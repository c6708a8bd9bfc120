package prometheus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	grafana "github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	query "github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// dashboard is what the test looks at of Grafana's form (schema version 39).
type dashboard struct {
	Title, UID    string
	SchemaVersion int
	Templating    struct{ List []variable }
	Annotations   struct{ List []annotation }
	Panels        []panel
	Inputs        []any `json:"__inputs"`
}

type variable struct {
	Name, Type string
	Query      any
	Datasource *source
}

type annotation struct {
	Name, Expr  string
	TitleFormat string
	Datasource  *source
}

type source struct{ Type, UID string }

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	Datasource               *source
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []target
	Transformations          []struct {
		Options struct{ IndexByName map[string]int }
	}
}

type target struct {
	RefID, Expr, LegendFormat string
	Datasource                *source
}

func file(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "grafana", "tlsproxy.json"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func load(t *testing.T) *dashboard {
	t.Helper()
	d := new(dashboard)
	if err := json.Unmarshal(file(t), d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDashboardSchema: each field is one that Grafana has, of its type, and none that
// it needs is missing.
func TestDashboardSchema(t *testing.T) {
	known := cog.NewRuntime() // the SDK's package plugins knows all kinds, which take a minute to compile
	for _, kind := range []variants.PanelcfgConfig{timeseries.VariantConfig(), stat.VariantConfig(), heatmap.VariantConfig(), table.VariantConfig(), statetimeline.VariantConfig()} {
		known.RegisterPanelcfgVariant(kind)
	}
	known.RegisterDataqueryVariant(query.VariantConfig())
	strict := func(text []byte) string {
		//lint:ignore SA1019 version 2 of the form is for Grafana 12 and later alone
		var d grafana.Dashboard
		if err := d.UnmarshalJSONStrict(text); err != nil {
			return err.Error() // empty if all is well
		}
		return ""
	}
	if faults := strict(file(t)); faults != "" {
		t.Error(faults)
	}
	for right, wrong := range map[string]string{`"graphMode"`: `"grahpMode"`, `"schemaVersion": 39`: `"schemaVersion": "39"`, `"fillOpacity": 8`: `"fillOpacity": true`} {
		if !bytes.Contains(file(t), []byte(right)) || strict(bytes.Replace(file(t), []byte(right), []byte(wrong), 1)) == "" {
			t.Errorf("%s is not found to be wrong", wrong)
		}
	}
}

// chosen is the data source that the viewer chooses.
var chosen = source{"prometheus", "${datasource}"}

// filled puts values in the place of Grafana's variables.
var filled = strings.NewReplacer("$__rate_interval", "5m", "$job", "x", "$instance", "x")

// legendLabel is a label in a legend.
var legendLabel = regexp.MustCompile(`\{\{ *([a-z_]+) *\}\}`)

// TestDashboardQueries: all that the dashboard asks for is exported, and each legend
// names labels that the series have, the proxy among them where each has series of its own.
func TestDashboardQueries(t *testing.T) {
	d := load(t)
	c := &checker{exported(t)}
	check := func(where, expression, legend string, ofProxies bool) {
		labels, err := c.check(filled.Replace(expression))
		if err != nil {
			t.Errorf("%s: %v", where, err)
		}
		for _, m := range legendLabel.FindAllStringSubmatch(legend, -1) {
			if !slices.Contains(labels, m[1]) {
				t.Errorf("%s: the legend names the label %q; the series have %q", where, m[1], labels)
			}
		}
		if ofProxies && slices.Contains(labels, "instance") && !strings.Contains(legend, "{{instance}}") {
			t.Errorf("%s: each proxy has series of its own, and the legend %q does not say which", where, legend)
		}
	}
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			where := fmt.Sprintf("panel %d, %s, query %s", p.ID, p.Title, q.RefID)
			check(where, q.Expr, q.LegendFormat, p.Type == "timeseries" || p.Type == "state-timeline")
			if !strings.Contains(q.Expr, `job=~"$job", instance=~"$instance"`) {
				t.Errorf("%s does not heed the variables", where)
			}
			if strings.Contains(filled.Replace(q.Expr), "$") {
				t.Errorf("%s: a variable that the test does not know: %s", where, q.Expr)
			}
		}
	}
	for _, a := range d.Annotations.List {
		check("annotation "+a.Name, a.Expr, a.TitleFormat, false)
	}
	labelValues := regexp.MustCompile(`^label_values\((.*), ([a-z_]+)\)$`)
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		query, _ := v.Query.(map[string]any)
		text, _ := query["query"].(string)
		m := labelValues.FindStringSubmatch(text)
		if m == nil {
			t.Errorf("variable %s: %q", v.Name, text)
			continue
		}
		if labels, err := c.check(filled.Replace(m[1])); err != nil || !slices.Contains(labels, m[2]) {
			t.Errorf("variable %s: no label %q, or %v", v.Name, m[2], err)
		}
	}
}

// TestDashboardForm: Grafana takes the file with whatever data source there is, and
// each panel says what it shows, in which unit, in a place of its own.
func TestDashboardForm(t *testing.T) {
	d := load(t)
	if d.Title == "" || d.UID == "" || d.SchemaVersion != 39 || len(d.Inputs) > 0 {
		t.Errorf("title %q, uid %q, schema version %d, inputs %v", d.Title, d.UID, d.SchemaVersion, d.Inputs)
	}
	if first := d.Templating.List[0]; first.Name != "datasource" || first.Type != "datasource" || first.Query != "prometheus" {
		t.Errorf("the first variable is %+v, want the data source", first)
	}
	for _, v := range d.Templating.List[1:] {
		if v.Datasource == nil || *v.Datasource != chosen {
			t.Errorf("variable %s: data source %v", v.Name, v.Datasource)
		}
	}
	for _, a := range d.Annotations.List {
		if a.Datasource == nil || *a.Datasource != chosen {
			t.Errorf("annotation %s: data source %v", a.Name, a.Datasource)
		}
	}
	ids := map[int]bool{}
	for i := range d.Panels {
		p := &d.Panels[i]
		if ids[p.ID] || p.ID == 0 || p.Title == "" {
			t.Errorf("panel %d, %q: no title, no number, or that of another", p.ID, p.Title)
		}
		ids[p.ID] = true
		p.checkPlace(t, d.Panels[:i])
		if p.Type != "row" {
			p.checkForm(t)
		}
	}
	if len(ids) < 50 {
		t.Errorf("%d panels", len(ids))
	}
}

// checkPlace: Grafana's grid is 24 columns wide.
func (p *panel) checkPlace(t *testing.T, before []panel) {
	g := p.GridPos
	if g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
		t.Errorf("panel %d, %s, is at %+v", p.ID, p.Title, g)
	}
	for _, other := range before {
		o := other.GridPos
		if g.X < o.X+o.W && o.X < g.X+g.W && g.Y < o.Y+o.H && o.Y < g.Y+g.H {
			t.Errorf("panels %d, %s, and %d, %s, overlap", p.ID, p.Title, other.ID, other.Title)
		}
	}
}

func (p *panel) checkForm(t *testing.T) {
	if !slices.Contains([]string{"timeseries", "stat", "heatmap", "table", "state-timeline"}, p.Type) {
		t.Errorf("panel %d, %s: type %q", p.ID, p.Title, p.Type)
	}
	if !strings.HasSuffix(p.Description, ".") || p.FieldConfig.Defaults.Unit == "" || p.Datasource == nil || *p.Datasource != chosen || len(p.Targets) == 0 {
		t.Errorf("panel %d, %s: description %q, unit %q, data source %v, %d queries", p.ID, p.Title, p.Description, p.FieldConfig.Defaults.Unit, p.Datasource, len(p.Targets))
	}
	refs := map[string]bool{}
	for _, q := range p.Targets {
		if refs[q.RefID] || q.RefID == "" || q.Datasource == nil || *q.Datasource != chosen {
			t.Errorf("panel %d, %s: query %q is there twice, or asks %v", p.ID, p.Title, q.RefID, q.Datasource)
		}
		refs[q.RefID] = true
		if q.LegendFormat == "" && p.Type != "stat" && p.Type != "table" {
			t.Errorf("panel %d, %s: query %s has no legend", p.ID, p.Title, q.RefID)
		}
	}
}

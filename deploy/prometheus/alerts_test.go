package prometheus

import (
	"crypto/tls"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// rules is a file of rules.
type rules struct {
	Groups []struct {
		Name  string
		Rules []struct {
			Alert       string
			Expr        string
			For         string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

// unitTests is what promtool test rules takes.
type unitTests struct {
	RuleFiles          []string `yaml:"rule_files"`
	EvaluationInterval string   `yaml:"evaluation_interval"`
	Tests              []struct {
		Name        string
		Interval    string
		InputSeries []struct{ Series, Values string } `yaml:"input_series"`
		Alerts      []struct {
			At        string `yaml:"eval_time"`
			AlertName string
			Expected  []struct {
				Labels      map[string]string `yaml:"exp_labels"`
				Annotations map[string]string `yaml:"exp_annotations"`
			} `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	}
}

func read(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalWithOptions(text, into, yaml.Strict()); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

var labelOf = regexp.MustCompile(`\$labels\.([a-z_]+)`)

// TestAlerts: what each rule asks for is exported, and what its annotations name its
// series have.
func TestAlerts(t *testing.T) {
	var file rules
	read(t, "alerts.yaml", &file)
	c := &checker{exported(t)}
	seen := map[string]bool{}
	for _, group := range file.Groups {
		for _, r := range group.Rules {
			if seen[r.Alert] || !strings.HasPrefix(r.Alert, "Tlsproxy") {
				t.Errorf("%q is there twice, or does not begin with Tlsproxy", r.Alert)
			}
			seen[r.Alert] = true
			labels, err := c.check(r.Expr)
			if err != nil {
				t.Errorf("%s: %v", r.Alert, err)
			}
			if severity := r.Labels["severity"]; severity != "warning" && severity != "critical" {
				t.Errorf("%s: severity %q", r.Alert, severity)
			}
			for _, name := range []string{"summary", "description"} {
				if r.Annotations[name] == "" {
					t.Errorf("%s has no %s", r.Alert, name)
				}
				for _, m := range labelOf.FindAllStringSubmatch(r.Annotations[name], -1) {
					if !slices.Contains(labels, m[1]) {
						t.Errorf("%s: its %s names the label %q; the series have %q", r.Alert, name, m[1], labels)
					}
				}
			}
		}
	}
	if len(seen) < 20 {
		t.Errorf("%d alerts", len(seen))
	}
}

// TestAlertNames: what the rules take for alerts of TLS are values of the labels.
func TestAlertNames(t *testing.T) {
	names := []string{"none", "unknown"}
	for alert := range 256 {
		name := strings.TrimPrefix(tls.AlertError(alert).Error(), "tls: ")
		names = append(names, strings.ReplaceAll(name, " ", "_"))
	}
	var file rules
	read(t, "alerts.yaml", &file)
	found := 0
	for _, group := range file.Groups {
		for _, r := range group.Rules {
			named := regexp.MustCompile(`alert_(?:sent|received)!?="(\w+)"`).FindAllStringSubmatch(r.Expr, -1)
			if r.Alert == "TlsproxyHandshakesFailByAlert" {
				named = append(named, regexp.MustCompile(`\b([a-z]+(?:_[a-z]+)+)\b`).FindAllStringSubmatch(r.Annotations["description"], -1)...)
			}
			for _, name := range named {
				found++
				if !slices.Contains(names, name[1]) {
					t.Errorf("%s: there is no alert %s", r.Alert, name[1])
				}
			}
		}
	}
	if found < 7 {
		t.Errorf("%d names of alerts", found)
	}
}

// TestUnitTests: promtool is asked of each alert whether it comes and whether it
// does not, over series that are exported.
func TestUnitTests(t *testing.T) {
	var file rules
	var tests unitTests
	read(t, "alerts.yaml", &file)
	read(t, "alerts_test.yaml", &tests)
	c := &checker{exported(t)}
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range tests.Tests {
		for _, s := range test.InputSeries {
			if _, err := c.check(s.Series); err != nil {
				t.Errorf("%s: %v", test.Name, err)
			}
		}
		for _, a := range test.Alerts {
			if len(a.Expected) > 0 {
				fires[a.AlertName] = true
			} else {
				silent[a.AlertName] = true
			}
		}
	}
	for _, group := range file.Groups {
		for _, r := range group.Rules {
			if !fires[r.Alert] || !silent[r.Alert] {
				t.Errorf("%s: promtool is to see it fire: %v, not fire: %v", r.Alert, fires[r.Alert], silent[r.Alert])
			}
		}
	}
}

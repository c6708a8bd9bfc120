package metrics

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/proxy"
)

var update = flag.Bool("metrics.update", false, "write the list of metrics in docs/metrics.md anew")

// full is Metrics with at least one series of each metric.
func full(t *testing.T) *Metrics {
	t.Helper()
	m := New()
	m.ObserveHandshake(proxy.HandshakeEvent{Outcome: proxy.HandshakeDone})
	m.ObserveHandshake(proxy.HandshakeEvent{Outcome: proxy.HandshakeRefused})
	m.ObserveShed("limits.connections")
	m.ObserveExpired(true)
	m.ObserveRequest(proxy.RequestEvent{Status: 200})
	var everything State
	fill(reflect.ValueOf(&everything).Elem())
	m.Follow(func() State { return everything })
	return m
}

// fill gives every exported field a value that is not zero, and every list one
// entry.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1, 0)))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint64, reflect.Uint16:
		v.SetUint(1)
	default:
		panic("metrics: nothing to fill a " + v.Kind().String() + " with")
	}
}

// units are the endings of names by which Prometheus' conventions say what is
// counted; "" has none.
var units = map[string]string{"seconds": "seconds", "bytes": "bytes", "celsius": "degrees Celsius", "watts": "watts", "ratio": "0 to 1", "info": "", "processors": "processors"}

func unitOf(family *dto.MetricFamily) string {
	words := strings.Split(strings.TrimSuffix(family.GetName(), "_total"), "_")
	return units[words[len(words)-1]]
}

// row is what the list says of a metric.
func row(family *dto.MetricFamily) string {
	labels := []string{}
	for _, l := range family.GetMetric()[0].GetLabel() {
		labels = append(labels, "`"+l.GetName()+"`")
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s |", family.GetName(), strings.ToLower(family.GetType().String()), unitOf(family), strings.Join(labels, " "), family.GetHelp())
}

// TestDocs: docs/metrics.md lists each metric that is exported, and no other, and
// says of each label what its values are.
func TestDocs(t *testing.T) {
	families, err := full(t).Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	labels := map[string]bool{}
	for _, family := range families {
		if !strings.HasPrefix(family.GetName(), namespace+"_") {
			continue // of the Go runtime and the process
		}
		rows = append(rows, row(family))
		for _, l := range family.GetMetric()[0].GetLabel() {
			labels[l.GetName()] = true
		}
	}
	name := filepath.Join("..", "..", "..", "..", "docs", "metrics.md")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?m)(^\| ` + "`" + namespace + `_.*\n)+`)
	want := strings.Join(rows, "\n") + "\n"
	if *update {
		if err := os.WriteFile(name, list.ReplaceAllLiteral(text, []byte(want)), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got := string(list.Find(text)); got != want {
		t.Errorf("%s lists\n%s\nwant, and after a change that is meant go test -run TestDocs ./cmd/tlsproxy/internal/metrics -metrics.update writes,\n%s", name, got, want)
	}
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(string(list.ReplaceAll(text, nil)), -1) {
		documented[m[1]] = true
	}
	if !maps.Equal(documented, labels) {
		t.Errorf("%s says of the labels %q what they are, want %q", name, slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(labels)))
	}
}

package report

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ctrutls/ctrutls/internal/bench/interleaved"
	"github.com/ctrutls/ctrutls/internal/bench/kem"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
)

const (
	cpuRounds = 11
	cpuTurn   = 500 * time.Microsecond

	fewRounds = 3           // of whatever has less time than
	shortTime = time.Second // this
)

// roundsFor is how many rounds a part makes: many, or few if it has little time.
func (m *measurement) roundsFor(many int) int {
	if m.time < shortTime {
		return fewRounds
	}
	return many
}

// always is for parts that can be measured everywhere.
func always(*gpus) string { return "" }

var kemPart = part{
	id: "kem", title: "KEM operations on one core", weight: 4, missing: always,
	about: []string{
		"Time of single operations on one core, of CTRU-Prime, ML-KEM-768 (circl's and the standard library's) and X25519 (crypto/ecdh). All operations take turns of half a millisecond in one process; of each round the turn that was disturbed least counts.",
		"From bytes means that the packed key is parsed and validated each time, as a server has to do with a client's. Keys of a batch share one inversion.",
	},
	measure: measureKEM,
}

// The bases of KEM operations.
const (
	unitID = "ML-KEM-768 (circl)/" + kem.EncapsParsed
	ecdhID = "X25519/" + kem.ECDH
)

var kemBases = []string{"ML-KEM-768 Encaps, parsed key (circl)", "X25519 ECDH"}

// timeOf is the metric of what is timed on one core.
var timeOf = []Metric{{Name: "time", Unit: "µs", Ratio: true}}

func measureKEM(ctx context.Context, m *measurement) error {
	levels := ctruprime.Levels()
	best := levels[len(levels)-1]
	others, err := kem.MLKEM768()
	if err != nil {
		return err
	}
	curve, err := kem.X25519()
	if err != nil {
		return err
	}
	others = append(others, curve...)
	ours, err := kem.Of(ctruprime.Scheme761(), best)
	if err != nil {
		return err
	}
	peers := Table{ID: "kem-peers", Title: fmt.Sprintf("CTRU-Prime-761 (%v) beside ML-KEM-768 and X25519", best), Labels: []string{"of", "operation"}, Metrics: timeOf, Bases: kemBases,
		Charts: []Chart{{ID: "kem-peers", Kind: Bars, Title: "Time of an operation on one core", Y: "ML-KEM-768 Encaps with a parsed key (circl) = 1", Base: 0}}}
	for _, o := range append(ours, others...) {
		peers.Rows = append(peers.Rows, Row{ID: o.Of + "/" + o.Name, Labels: []string{o.Of, o.Name}, Bases: []string{unitID, ecdhID}, Series: o.Of, Name: o.Name})
	}
	byLevel, operations, err := levelTable(levels)
	if err != nil {
		return err
	}
	sets, more, err := setTable(best)
	if err != nil {
		return err
	}
	m.section.Tables = []Table{peers, byLevel, sets}
	m.step("operations in turns")
	return m.timeRows(ctx, append(append(append(ours, others...), operations...), more...))
}

// levelTable is of every operation of 761 at every level.
func levelTable(levels []ctruprime.Level) (Table, []kem.Operation, error) {
	t := Table{ID: "kem-levels", Title: "CTRU-Prime-761 by instructions", Labels: []string{"operation", "code"}, Metrics: timeOf, Bases: append(kemBases[:1:1], "portable Go"),
		Charts: []Chart{{ID: "kem-levels", Kind: Bars, Title: "What vector code makes of it", Y: "the same operation in portable Go = 1", Base: 1}}}
	id := func(name string, level ctruprime.Level) string { return level.String() + "/" + name }
	at := make([][]kem.Operation, len(levels))
	for i, level := range levels {
		var err error
		if at[i], err = kem.Of(ctruprime.Scheme761(), level); err != nil {
			return t, nil, err
		}
	}
	var all []kem.Operation
	for i, first := range at[0] {
		for j, level := range levels {
			row := Row{ID: id(first.Name, level), Labels: []string{first.Name, level.String()}, Bases: []string{unitID, id(first.Name, levels[0])}}
			if j > 0 { // portable code is 1
				row.Series, row.Name = level.String(), first.Name
			}
			t.Rows = append(t.Rows, row)
			all = append(all, at[j][i])
		}
	}
	if len(levels) == 1 {
		t.Charts = nil
	}
	return t, all, nil
}

// setTable is of the other two parameter sets.
func setTable(level ctruprime.Level) (Table, []kem.Operation, error) {
	t := Table{ID: "kem-sets", Title: fmt.Sprintf("The other parameter sets (%v)", level), Labels: []string{"set", "operation"}, Metrics: timeOf, Bases: append(kemBases[:1:1], "CTRU-Prime-761")}
	var all []kem.Operation
	for _, s := range []*ctruprime.Scheme{ctruprime.Scheme653(), ctruprime.Scheme1277()} {
		operations, err := kem.Of(s, level)
		if err != nil {
			return t, nil, err
		}
		for _, o := range operations {
			t.Rows = append(t.Rows, Row{ID: o.Of + "/" + o.Name, Labels: []string{o.Of, o.Name}, Bases: []string{unitID, ctruprime.Scheme761().Name() + "/" + o.Name}})
		}
		all = append(all, operations...)
	}
	return t, all, nil
}

// timeRows times operations, one for each row of the section's tables, in their order.
func (m *measurement) timeRows(ctx context.Context, operations []kem.Operation) error {
	subjects := make([]interleaved.Subject, len(operations))
	for i, o := range operations {
		subjects[i] = o.Subject()
	}
	results, err := interleaved.Measure(ctx, subjects, interleaved.Options{Rounds: m.roundsFor(cpuRounds), Turn: min(cpuTurn, m.time/100), Time: m.time, Before: kem.ClearRegisters()})
	if err != nil {
		m.section.Tables = nil
		return err
	}
	for t := range m.section.Tables {
		rows := m.section.Tables[t].Rows
		for i := range rows {
			rows[i].set(results[i])
		}
		results = results[len(rows):]
	}
	return nil
}

// set takes over what was timed.
func (r *Row) set(result interleaved.Result) {
	if result.Err != nil {
		r.fail(result.Err)
		return
	}
	micros := make([]float64, len(result.Times))
	for i, t := range result.Times {
		micros[i] = t / 1e3
	}
	r.Values = [][]float64{micros}
}

var batchPart = part{
	id: "batch", title: "Batches on one core", weight: 1, missing: always,
	about: []string{
		"Time of one operation of CTRU-Prime-761 when so many are given to the CPU at once: encapsulations and decapsulations share hashing, up to four at a time, and keys share one inversion, up to 32. It is what the server and the key pool do on the CPU.",
	},
	measure: measureBatches,
}

// batchSizes are what is measured of each operation.
var batchSizes = []struct {
	operation string
	sizes     []int
}{
	{kem.EncapsBytes, []int{1, 2, 3, 4, 6, 8, 12, 16}},
	{kem.DecapsBytes, []int{1, 2, 3, 4, 6, 8, 12, 16}},
	{kem.KeyGen, []int{1, 2, 4, 8, 16, ctruprime.MaxKeyGroup}},
}

func measureBatches(ctx context.Context, m *measurement) error {
	t := Table{ID: "batch-sizes", Title: "One operation, by the size of the batch", Labels: []string{"operation", "batch"}, Metrics: timeOf, Bases: []string{"a batch of 1"},
		Charts: []Chart{{ID: "batch-sizes", Kind: Lines, Title: "Time of one operation in a batch", X: "operations a batch", Y: "a batch of 1 = 1", Base: 0}}}
	var all []kem.Operation
	for _, b := range batchSizes {
		operations, err := kem.Batches(ctruprime.Scheme761(), b.operation, b.sizes)
		if err != nil {
			return err
		}
		name, _, _ := strings.Cut(b.operation, ",")
		for _, n := range b.sizes {
			t.Rows = append(t.Rows, Row{ID: fmt.Sprintf("%s/%d", name, n), Labels: []string{name, fmt.Sprint(n)}, Bases: []string{name + "/1"}, Series: name, X: float64(n)})
		}
		all = append(all, operations...)
	}
	m.section.Tables = []Table{t}
	m.step("sizes in turns")
	return m.timeRows(ctx, all)
}

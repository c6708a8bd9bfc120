package report

import (
	"fmt"

	"github.com/ctrutls/ctrutls/cmd/tlsproxy/internal/groups"
	"github.com/ctrutls/ctrutls/internal/bench/chart"
	"github.com/ctrutls/ctrutls/internal/bench/kem"
	"github.com/ctrutls/ctrutls/provider/ctruprime"
	"github.com/ctrutls/ctrutls/tlsext"
)

// findings say in a few lines what somebody in a hurry would look for.
func (r *Report) findings() []string {
	var all []string
	add := func(s *Section, sentence, id string) {
		if text := s.finding(sentence, id, 0); text != "" {
			all = append(all, text)
		}
	}
	for i := range r.Sections {
		switch s := &r.Sections[i]; s.ID {
		case kemPart.id:
			add(s, "An encapsulation of CTRU-Prime-761 to a packed key takes %s of the time of circl's ML-KEM-768 encapsulation with a parsed one", ctruprime.Scheme761().Name()+"/"+kem.EncapsBytes)
			add(s, "A decapsulation of CTRU-Prime-761 takes %s of the time of that encapsulation of ML-KEM-768", ctruprime.Scheme761().Name()+"/"+kem.DecapsBytes)
		case exchangePart.id:
			for _, row := range s.mostCallers() {
				if row.Series != "" { // the base has none
					add(s, fmt.Sprintf("The server's half of a key exchange with %s, by %s, takes %%s of the processor time of X25519's (%s at once)", row.Labels[1], row.Labels[2], row.Labels[0]), row.ID)
				}
			}
		case handshakePart.id:
			name := groups.Name(tlsext.X25519CTRUPrime761)
			for _, row := range s.rowsWith(2, name) {
				if row.Series != "" {
					add(s, fmt.Sprintf("A handshake with %s costs the server %%s of the processor time of one with X25519 (engine %s, %s at once)", name, row.Labels[0], row.Labels[1]), row.ID)
				}
			}
		case gpuPart.id:
			for _, row := range s.rowsWith(1, hostToHost) {
				add(s, fmt.Sprintf("A GPU makes %%s times the %s of one core, host to host", row.Labels[0]), row.ID)
			}
		case productPart.id:
			if rows := s.rowsWith(1, tensorCores); len(rows) > 0 {
				last := rows[len(rows)-1]
				add(s, fmt.Sprintf("Products on the Tensor Cores take %%s of the time of those by transforms, in batches of %s", last.Labels[0]), last.ID)
			}
		}
	}
	return all
}

// mostCallers returns the rows of the last, largest number of callers.
func (s *Section) mostCallers() []*Row {
	if len(s.Tables) == 0 || len(s.Tables[0].Rows) == 0 {
		return nil
	}
	rows := s.Tables[0].Rows
	return s.rowsWith(0, rows[len(rows)-1].Labels[0])
}

// What findings look for in the tables of a GPU.
const (
	hostToHost  = "GPU, host to host"
	tensorCores = "mma"
)

// rowsWith returns the rows whose label at a place is this one.
func (s *Section) rowsWith(place int, label string) []*Row {
	var all []*Row
	for t := range s.Tables {
		for i := range s.Tables[t].Rows {
			if row := &s.Tables[t].Rows[i]; len(row.Labels) > place && row.Labels[place] == label {
				all = append(all, row)
			}
		}
	}
	return all
}

// finding puts a ratio into a sentence; it is empty where there is none.
func (s *Section) finding(sentence, id string, base int) string {
	row := s.row(id)
	if row == nil {
		return ""
	}
	spread, ok := s.spread(row, 0, base)
	if !ok {
		return ""
	}
	return fmt.Sprintf(sentence+".", chart.Number(spread.Median))
}

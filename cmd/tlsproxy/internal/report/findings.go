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
	for i := range r.Sections {
		switch s := &r.Sections[i]; s.ID {
		case kemPart.id:
			all = append(all, s.finding("An encapsulation of CTRU-Prime-761 to a packed key takes %s of the time of circl's ML-KEM-768 encapsulation with a parsed one", ctruprime.Scheme761().Name()+"/"+kem.EncapsBytes, 0))
			all = append(all, s.finding("A decapsulation takes %s of it", ctruprime.Scheme761().Name()+"/"+kem.DecapsBytes, 0))
		case handshakePart.id:
			name := groups.Name(tlsext.X25519CTRUPrime761)
			for _, t := range s.Tables {
				for _, row := range t.Rows {
					if row.Series != "" && row.Labels[2] == name {
						all = append(all, s.finding(fmt.Sprintf("A handshake with %s costs the server %%s of the processor time of one with X25519 (engine %s, %s at once)", name, row.Labels[0], row.Labels[1]), row.ID, 0))
					}
				}
			}
		}
	}
	return withoutEmpty(all)
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

func withoutEmpty(all []string) []string {
	var kept []string
	for _, s := range all {
		if s != "" {
			kept = append(kept, s)
		}
	}
	return kept
}

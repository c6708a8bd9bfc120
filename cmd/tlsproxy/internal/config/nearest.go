package config

import "strings"

// nearest returns the name that was probably meant by got, or "" if none is
// close: at most a third of its letters may differ.
func nearest(got string, names []string) string {
	got = strings.ToLower(got)
	best, bestDistance := "", len(got)/3+1
	for _, name := range names {
		if d := distance(got, strings.ToLower(name)); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// didYouMean is the end of a message about a name that is not known: the
// nearest valid one, else all of them.
func didYouMean(got string, names []string) string {
	if name := nearest(got, names); name != "" {
		return `; did you mean "` + name + `"?`
	}
	return "; valid are " + strings.Join(names, ", ")
}

// distance counts the letters to insert, delete, replace or swap with their
// neighbour to get from a to b (optimal string alignment).
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(last[j]+1, row[j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

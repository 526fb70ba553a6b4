package hint

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

const (
	maxSuggested = 3       // names in one message
	maxCompared  = 100_000 // names that are compared for one message
)

// Closest returns the names that are most similar to a typed name, at most three. The most
// similar name is first.
func Closest(typed string, names iter.Seq[string]) []string {
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	n := 0
	for name := range names {
		if n++; n > maxCompared {
			break
		}
		if d, ok := similar(typed, name); ok {
			found = append(found, candidate{name, d})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	var best []string
	for _, c := range found[:min(len(found), maxSuggested)] {
		best = append(best, c.name)
	}
	return best
}

// similar reports whether typed may be a misspelling of name, and their distance. The two
// differ in case or in few letters, or one is a part of the other.
func similar(typed, name string) (distance int, ok bool) {
	typed, name = strings.ToLower(typed), strings.ToLower(name)
	if d := editDistance(typed, name); d <= 1+min(len(typed), len(name))/5 && d < len(typed) {
		return d, true
	}
	const leastPart = 3 // letters
	if len(typed) >= leastPart && strings.Contains(name, typed) || len(name) >= leastPart && strings.HasPrefix(typed, name) {
		return 1000 + max(len(name)-len(typed), len(typed)-len(name)), true
	}
	return 0, false
}

// editDistance returns how many bytes must be inserted, deleted, replaced, or exchanged with
// their neighbour, to make b of a. A large result is not exact.
func editDistance(a, b string) int {
	const large = 1 << 20
	if d := len(a) - len(b); d > 8 || d < -8 || len(a) > 1024 {
		return large
	}
	before, last, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			d := last[j]
			if a[i] != b[j] {
				d++
			}
			d = min(d, last[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				d = min(d, before[j-1]+1)
			}
			next[j+1] = d
		}
		before, last, next = last, next, before
	}
	return last[len(b)]
}

// didYouMean is the end of a message about a name that does not exist. It is empty if no
// name is similar.
func didYouMean(typed string, names iter.Seq[string]) string {
	best := Closest(typed, names)
	for i, name := range best {
		best[i] = ui.QuoteName(name)
	}
	if len(best) == 0 {
		return ""
	}
	return "; did you mean " + ui.AnyOf(best) + "?"
}

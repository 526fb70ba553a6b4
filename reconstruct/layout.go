package reconstruct

import (
	"sort"

	"github.com/xetfs/xetfs/codec"
)

// A layout maps byte ranges to terms. It is immutable arithmetic: no I/O, no errors.
type layout struct {
	terms []codec.Term
	ends  []int64 // ends[i] is the file offset just past terms[i]
}

// newLayoutAt returns the layout of terms, the first of which begins at an offset of a file.
func newLayoutAt(terms []codec.Term, end int64) layout {
	l := layout{terms: terms, ends: make([]int64, len(terms))}
	for i, t := range terms {
		end += int64(t.Size)
		l.ends[i] = end
	}
	return l
}

// size returns the end of the last term. This is the size of the file if the layout has its
// first term.
func (l *layout) size() int64 {
	if len(l.ends) == 0 {
		return 0
	}
	return l.ends[len(l.ends)-1]
}

// overlapping returns the terms first ≤ i < end that have bytes of the range. Their number is
// only limited by the size of the range.
func (l *layout) overlapping(off, n int64) (first, end int) {
	if n <= 0 {
		return 0, 0
	}
	first = after(l.ends, off)
	rest := l.ends[first:]
	end = sort.Search(len(rest), func(i int) bool { return rest[i] >= off+n })
	return first, first + min(end+1, len(rest))
}

// after returns the index of the first end that is greater than off.
func after(ends []int64, off int64) int {
	return sort.Search(len(ends), func(i int) bool { return ends[i] > off })
}

// piece returns the piece of a range that is in term i.
func (l *layout) piece(i int, off, n int64) codec.Piece {
	start := l.ends[i] - int64(l.terms[i].Size)
	from, to := max(off, start), min(off+n, l.ends[i])
	return codec.Piece{Term: i, Off: from, Skip: from - start, Size: to - from}
}

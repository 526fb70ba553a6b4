package reconstruct

import (
	"sort"

	"github.com/xetfs/xetfs/codec"
)

// A Layout finds the terms of a byte range. It is arithmetic only: no I/O, no
// errors, and safe for concurrent use because it never changes.
type Layout struct {
	terms []codec.Term
	ends  []int64 // ends[i] is the file offset just past terms[i]
}

// NewLayout returns the layout of a file made of terms.
func NewLayout(terms []codec.Term) *Layout {
	l := &Layout{terms: terms, ends: make([]int64, len(terms))}
	var end int64
	for i, t := range terms {
		end += int64(t.Size)
		l.ends[i] = end
	}
	return l
}

// Size returns the size of the file in bytes.
func (l *Layout) Size() int64 {
	if len(l.ends) == 0 {
		return 0
	}
	return l.ends[len(l.ends)-1]
}

// Pieces returns, in file order, the pieces of the bytes off ≤ i < off+n,
// less those past the end of the file.
func (l *Layout) Pieces(off, n int64) []codec.Piece { return l.AppendPieces(nil, off, n) }

// AppendPieces adds what Pieces returns to pieces.
func (l *Layout) AppendPieces(pieces []codec.Piece, off, n int64) []codec.Piece {
	end := min(off+n, l.Size())
	first := sort.Search(len(l.ends), func(i int) bool { return l.ends[i] > off })
	for i := first; i < len(l.terms) && off < end; i++ {
		start := l.ends[i] - int64(l.terms[i].Size)
		size := min(end, l.ends[i]) - off
		if size > 0 {
			pieces = append(pieces, codec.Piece{Term: i, Off: off, Skip: off - start, Size: size})
		}
		off += size
	}
	return pieces
}

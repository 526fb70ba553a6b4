package reconstruct

import (
	"math"
	"slices"
	"testing"

	"github.com/xetfs/xetfs/codec"
)

// pieces returns, in file order, the pieces of the bytes off ≤ i < off+n, except those past the
// end of the file.
func (l *layout) pieces(off, n int64) (pieces []codec.Piece) {
	n = min(n, l.size()-off)
	first, end := l.overlapping(off, n)
	for i := first; i < end; i++ {
		pieces = append(pieces, l.piece(i, off, n))
	}
	return pieces
}

func TestPieces(t *testing.T) {
	l := newLayoutAt([]codec.Term{{Size: 10}, {Size: 20}, {Size: 5}}, 0) // 0–10–30–35
	piece := func(term int, off, skip, size int64) codec.Piece {
		return codec.Piece{Term: term, Off: off, Skip: skip, Size: size}
	}
	tests := []struct {
		name   string
		off, n int64
		want   []codec.Piece
	}{
		{"all of it", 0, 35, []codec.Piece{piece(0, 0, 0, 10), piece(1, 10, 0, 20), piece(2, 30, 0, 5)}},
		{"inside one term", 12, 3, []codec.Piece{piece(1, 12, 2, 3)}},
		{"across a border", 8, 4, []codec.Piece{piece(0, 8, 8, 2), piece(1, 10, 0, 2)}},
		{"from a border", 10, 1, []codec.Piece{piece(1, 10, 0, 1)}},
		{"up to a border", 9, 1, []codec.Piece{piece(0, 9, 9, 1)}},
		{"past the end", 33, 100, []codec.Piece{piece(2, 33, 3, 2)}},
		{"at the end", 35, 1, nil},
		{"nothing", 12, 0, nil},
		{"less than nothing", 12, -5, nil},
		{"as much as there is", 30, math.MaxInt64, []codec.Piece{piece(2, 30, 0, 5)}},
		{"far behind the end", math.MaxInt64, math.MaxInt64, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := l.pieces(tt.off, tt.n); !slices.Equal(got, tt.want) {
				t.Errorf("Pieces(%d, %d) = %v, want %v", tt.off, tt.n, got, tt.want)
			}
		})
	}
}

// Every range of a small file is covered by its pieces, in order and without gaps.
func TestPiecesCoverEveryRange(t *testing.T) {
	l := newLayoutAt([]codec.Term{{Size: 3}, {Size: 1}, {Size: 7}, {Size: 2}}, 0)
	for off := range l.size() {
		for n := int64(1); n <= l.size()+2; n++ {
			at := off
			for _, p := range l.pieces(off, n) {
				start := l.ends[p.Term] - int64(l.terms[p.Term].Size)
				if p.Off != at || p.Size <= 0 || start+p.Skip != p.Off || p.Skip+p.Size > int64(l.terms[p.Term].Size) {
					t.Fatalf("Pieces(%d, %d): piece %+v at %d", off, n, p, at)
				}
				at += p.Size
			}
			if want := min(off+n, l.size()); at != want {
				t.Fatalf("Pieces(%d, %d) end at %d, want %d", off, n, at, want)
			}
		}
	}
}

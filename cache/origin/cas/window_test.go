package cas_test

import (
	"testing"

	"github.com/xetfs/xetfs/cache/origin/cas"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
)

// Pieces of a window that was requested need no plan of their own, and no byte comes twice.
func TestPiecesOfWindow(t *testing.T) {
	const size, window, piece = 16 << 20, 4 << 20, 1 << 20
	for name, o := range map[string]cas.HandlerOptions{"parts": {}, "whole ranges": {ExactRanges: true}} {
		t.Run(name, func(t *testing.T) {
			b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 1000})
			f := b.Add(origintest.Random(1, size), 64<<10)
			server := serveCAS(t, b.Store(), o)
			c := newClient(t, server, cas.Options{})
			if _, err := c.FileInfo(t.Context(), f.ID()); err != nil {
				t.Fatal(err)
			}
			term := f.Info.Terms[0]
			if _, _, err := c.Narrow(t.Context(), f.ID(), term, codec.Piece{Size: window}); err != nil {
				t.Fatal(err)
			}
			for off := int64(0); off < size; off += piece {
				p := codec.Piece{Skip: off, Off: off, Size: piece}
				if err := readPiece(t.Context(), c, f, term, p, f.Bytes()[off:off+piece]); err != nil {
					t.Fatal(err)
				}
			}
			plans, _, transfers := server.reset()
			if plans > 1+size/window || transfers > size/window+1 {
				t.Errorf("%d plans and %d transfers of %d windows", plans, transfers, size/window)
			}
		})
	}
}

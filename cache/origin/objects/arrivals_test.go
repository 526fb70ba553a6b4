package objects_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A tricklingStore returns an object byte by byte, and damages one of them, if at is not negative.
type tricklingStore struct {
	origin.Store
	each, at int
}

func (s tricklingStore) ReadAtProgress(ctx context.Context, k names.Key, p []byte, off int64, arrived func(int)) error {
	if err := s.ReadAt(ctx, k, p, off); err != nil {
		return err
	}
	if s.at >= 0 && s.at < len(p) {
		p[s.at] ^= 0xff
	}
	all := bytes.Clone(p)
	clear(p)
	for n := 0; n < len(p); n += s.each {
		copy(p, all[:n])
		if n > 0 {
			arrived(n)
		}
	}
	copy(p, all)
	return nil
}

// Chunks are reported in order as soon as they are whole, and never more than have arrived.
func TestArrivals(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 64, Schemes: []xorb.Scheme{xorb.None}})
	b.Add(origintest.Random(1, 40*50_000), 50_000)
	x, store := b.Xorbs[0], b.Store()
	for _, tt := range []struct {
		name       string
		r          codec.ChunkRange
		each       int
		at         int // damage
		reported   int // at least so often
		unreported bool
		fails      bool
	}{
		{"all, in small pieces", codec.ChunkRange{End: 40}, 10_000, -1, 8, false, false},
		{"some", codec.ChunkRange{Start: 7, End: 20}, 10_000, -1, 3, false, false},
		{"in large pieces", codec.ChunkRange{End: 40}, 700_000, -1, 2, false, false},
		{"one chunk", codec.ChunkRange{Start: 3, End: 4}, 1000, -1, 0, true, false},
		{"at once", codec.ChunkRange{End: 40}, 10_000_000, -1, 0, true, false},
		{"a damaged header", codec.ChunkRange{End: 40}, 10_000, 0, 0, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			src := objects.New(tricklingStore{store, tt.each, tt.at}, objects.Options{})
			var reported []codec.ChunkRange
			run, err := src.Chunks(t.Context(), x.Hash(), tt.r, origin.ReadOptions{OnPartial: func(run *xorb.Run) {
				reported = append(reported, run.Chunks)
				last := run.Chunks.End - 1
				got := make([]byte, run.Size(last))
				if _, err := run.Unpack(last, got); err != nil || !bytes.Equal(got, x.Chunks[last]) {
					t.Errorf("chunk %d of %v: %v", last, run.Chunks, err)
				}
			}})
			if (err != nil) != tt.fails || err == nil && run.Chunks != tt.r {
				t.Fatalf("Chunks = %v, %v", run, err)
			}
			if len(reported) < tt.reported || tt.unreported && len(reported) > 0 {
				t.Errorf("told of %v", reported)
			}
			for i, r := range reported {
				if r.Start != tt.r.Start || r.End >= tt.r.End || i > 0 && r.End <= reported[i-1].End {
					t.Errorf("told of %v", reported)
				}
			}
		})
	}
}

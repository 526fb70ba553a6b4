package cache

import (
	"fmt"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
)

// A plan reads across small gaps, and its requests are not too long.
func TestPlan(t *testing.T) {
	tests := []struct {
		name  string
		chunk int64 // bytes of each
		add   map[byte][]codec.ChunkRange
		want  string
	}{
		{"one", 64 << 10, map[byte][]codec.ChunkRange{1: {chunks(7, 8)}}, "1:7-8"},
		{"side by side", 10 << 10, map[byte][]codec.ChunkRange{1: {chunks(7, 8), chunks(8, 20), chunks(3, 7)}}, "1:3-20"},
		{"over a gap of 64 KiB", 64 << 10, map[byte][]codec.ChunkRange{1: {chunks(0, 2), chunks(3, 5)}}, "1:0-5"},
		{"not over more", 64 << 10, map[byte][]codec.ChunkRange{1: {chunks(0, 2), chunks(4, 5)}}, "1:0-2 1:4-5"},
		{"small chunks have large gaps", 1 << 10, map[byte][]codec.ChunkRange{1: {chunks(0, 1), chunks(65, 66), chunks(131, 132)}}, "1:0-66 1:131-132"},
		{"large chunks have none", 128 << 10, map[byte][]codec.ChunkRange{1: {chunks(0, 1), chunks(2, 3)}}, "1:0-1 1:2-3"},
		{"4 MiB at most", 64 << 10, map[byte][]codec.ChunkRange{1: {chunks(0, 150)}}, "1:0-64 1:64-128 1:128-150"},
		{"the last chunk", 1 << 10, map[byte][]codec.ChunkRange{1: {chunks(codec.MaxXorbChunks-1, codec.MaxXorbChunks)}}, "1:8191-8192"},
		{"several xorbs", 64 << 10, map[byte][]codec.ChunkRange{2: {chunks(0, 1)}, 1: {chunks(5, 6), chunks(1, 2)}}, "1:1-2 1:5-6 2:0-1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var p Plan
			for x, ranges := range tt.add {
				for _, r := range ranges {
					p.Add(codec.Hash{x}, r, tt.chunk*int64(r.Len()))
				}
			}
			var got []string
			for _, q := range p.requests(func(*plannedChunks) int64 { return planGapBytes }) {
				got = append(got, fmt.Sprintf("%d:%d-%d", q.Xorb[0], q.Chunks.Start, q.Chunks.End))
				if q.Bytes <= 0 || q.Bytes > planBytes {
					t.Errorf("%+v", q)
				}
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("requests are %s, want %s", s, tt.want)
			}
		})
	}
}

// A source without proofs has only chunks of files, so its requests have no gaps.
func TestPlanWithoutProofs(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	for _, proves := range []bool{true, false} {
		src := objects.New(b.Store(), objects.Options{})
		if !proves {
			src = origintest.NewPlan(src, nil)
		}
		c, err := New(src, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var p Plan
		p.Add(codec.Hash{1}, chunks(0, 2), 2000)
		p.Add(codec.Hash{1}, chunks(3, 5), 2000)
		p.Add(codec.Hash{1}, chunks(5, 6), 1000)
		if n, want := len(c.Requests(&p)), map[bool]int{true: 1, false: 2}[proves]; n != want {
			t.Errorf("proves %v: %d requests, want %d", proves, n, want)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Readahead of scattered chunks reads across small gaps only.
func TestPlanSparse(t *testing.T) {
	dense, sparse := &plannedChunks{}, &plannedChunks{}
	for i := range 100 {
		dense.chunks.Add(chunks(3*i, 3*i+1))
		sparse.chunks.Add(chunks(5*i, 5*i+1))
	}
	if d, s := dense.readaheadGap(), sparse.readaheadGap(); d != planGapBytes || s != sparseGapBytes {
		t.Errorf("gaps of %d and %d bytes, want %d and %d", d, s, planGapBytes, sparseGapBytes)
	}
}

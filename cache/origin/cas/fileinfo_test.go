package cas

import (
	"slices"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/metacache"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
)

// Stored terms that no plan can have are requested again.
func TestRefusesStoredTerms(t *testing.T) {
	for _, tt := range []struct {
		start, end, size uint32
		ok               bool
	}{
		{1, 3, 130, true},
		{3, 3, 0, false},
		{3, 1, 130, false},
		{codec.MaxXorbChunks - 1, codec.MaxXorbChunks + 1, 130, false},
		{1, 3, 1, false},
		{1, 3, 2*codec.MaxChunkSize + 1, false},
	} {
		term := codec.Term{Chunks: codec.ChunkRange{Start: tt.start, End: tt.end}, Size: tt.size}
		c := NewClient(Options{Backend: new(origintest.Backend)})
		file := codec.Hash{1}
		c.meta.PutValue(kindPlan, file[:], metacache.AppendTerms(nil, []codec.Term{term}))
		if _, ok := c.knownInfo(t.Context(), codec.FileID{File: file}); ok != tt.ok {
			t.Errorf("%+v: known %t", tt, ok)
		}
		c.Close()
	}
}

// A requested plan replaces the one in memory.
func TestNewPlanReplacesOld(t *testing.T) {
	c := NewClient(Options{})
	defer c.Close()
	file := codec.Hash{1}
	c.keepInfo(&shard.FileInfo{File: file})
	want := c.putInfo(&shard.FileInfo{File: file, Terms: []codec.Term{{Xorb: codec.Hash{2}, Chunks: codec.ChunkRange{End: 1}, Size: 1}}})
	if got, ok := c.knownInfo(t.Context(), codec.FileID{File: file}); !ok || got != want || len(got.Terms) != 1 {
		t.Errorf("the plan in memory is %+v", got)
	}
}

// The plans of two blocks share at most one chunk.
func TestAddBlock(t *testing.T) {
	const most = codec.MaxChunkSize
	x := codec.Hash{1}
	before := []codec.Term{{Xorb: x, Chunks: codec.ChunkRange{End: 6}, Size: 3 * most}}
	for _, tt := range []struct {
		name  string
		twice int64 // bytes of the first term that the terms before have
		of    codec.Hash
		r     codec.ChunkRange
		size  uint32
		ok    bool
	}{
		{"nothing in common", 0, codec.Hash{2}, codec.ChunkRange{End: 3}, 2 * most, true},
		{"a chunk in common", most, x, codec.ChunkRange{Start: 5, End: 8}, 2 * most, true},
		{"more than a chunk may have", most + 1, x, codec.ChunkRange{Start: 5, End: 8}, 2*most + 1, false},
		{"a gap", -1, x, codec.ChunkRange{Start: 5, End: 8}, 2 * most, false},
		{"another chunk", 10, x, codec.ChunkRange{Start: 4, End: 8}, 2 * most, false},
		{"another xorb", 10, codec.Hash{2}, codec.ChunkRange{Start: 5, End: 8}, 2 * most, false},
		{"one chunk of another length", 10, x, codec.ChunkRange{Start: 5, End: 6}, 11, false},
		{"more bytes than the rest may have", 10, x, codec.ChunkRange{Start: 5, End: 7}, 2 * most, false},
	} {
		p := &plan{q: query{off: 3*most - tt.twice}, terms: []codec.Term{{Xorb: tt.of, Chunks: tt.r, Size: tt.size}}}
		terms, err := addBlock(slices.Clone(before), p)
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
		if want := 3*most - tt.twice + int64(tt.size); tt.ok && sizeOf(terms) != want {
			t.Errorf("%s: %d bytes, want %d", tt.name, sizeOf(terms), want)
		}
	}
}

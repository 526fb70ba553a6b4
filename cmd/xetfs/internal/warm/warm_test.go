package warm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
)

// Chunks are asked for in rows: over small gaps, and not too long.
func TestWarmRows(t *testing.T) {
	row := func(from, to uint32) codec.ChunkRange { return codec.ChunkRange{Start: from, End: to} }
	tests := []struct {
		name  string
		chunk int64 // bytes of each
		want  map[byte][]codec.ChunkRange
		rows  string
	}{
		{"one", 64 << 10, map[byte][]codec.ChunkRange{1: {row(7, 8)}}, "1:7-8"},
		{"side by side", 10 << 10, map[byte][]codec.ChunkRange{1: {row(7, 8), row(8, 20), row(3, 7)}}, "1:3-20"},
		{"over a gap of 64 KiB", 64 << 10, map[byte][]codec.ChunkRange{1: {row(0, 2), row(3, 5)}}, "1:0-5"},
		{"not over more", 64 << 10, map[byte][]codec.ChunkRange{1: {row(0, 2), row(4, 5)}}, "1:0-2 1:4-5"},
		{"small chunks have large gaps", 1 << 10, map[byte][]codec.ChunkRange{1: {row(0, 1), row(65, 66), row(131, 132)}}, "1:0-66 1:131-132"},
		{"large chunks have none", 128 << 10, map[byte][]codec.ChunkRange{1: {row(0, 1), row(2, 3)}}, "1:0-1 1:2-3"},
		{"4 MiB at most", 64 << 10, map[byte][]codec.ChunkRange{1: {row(0, 150)}}, "1:0-64 1:64-128 1:128-150"},
		{"the last chunk", 1 << 10, map[byte][]codec.ChunkRange{1: {row(codec.MaxXorbChunks-1, codec.MaxXorbChunks)}}, "1:8191-8192"},
		{"several xorbs", 64 << 10, map[byte][]codec.ChunkRange{2: {row(0, 1)}, 1: {row(5, 6), row(1, 2)}}, "1:1-2 1:5-6 2:0-1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all := missingRanges{}
			for x, ranges := range tt.want {
				w := &missingChunks{path: "f"}
				for _, r := range ranges {
					w.add(r, tt.chunk*int64(r.Len()))
				}
				all[codec.Hash{x}] = w
			}
			var got []string
			for _, r := range all.rows() {
				got = append(got, fmt.Sprintf("%d:%d-%d", r.xorb[0], r.chunks.Start, r.chunks.End))
				if r.bytes <= 0 || r.bytes > rowBytes || r.path != "f" {
					t.Errorf("%+v", r)
				}
			}
			if s := strings.Join(got, " "); s != tt.rows {
				t.Errorf("rows %s, want %s", s, tt.rows)
			}
		})
	}
}

// TestWarmRounds checks that a window ends at a number of files, bytes or terms, and is not empty.
func TestWarmRounds(t *testing.T) {
	w := &Run{windowBytes: 1000}
	file := func(size int64, terms int) plannedFile {
		return plannedFile{file: file{size: size}, info: &shard.FileInfo{Terms: make([]codec.Term, terms)}}
	}
	many := make([]plannedFile, windowFiles+1)
	for i := range many {
		many[i] = file(0, 1)
	}
	for _, tt := range []struct {
		name  string
		files []plannedFile
		want  int
	}{
		{"all", []plannedFile{file(400, 1), file(600, 1)}, 2},
		{"bytes", []plannedFile{file(400, 1), file(601, 1)}, 1},
		{"a large one", []plannedFile{file(5000, 1), file(1, 1)}, 1},
		{"terms", []plannedFile{file(1, windowTerms-1), file(1, 1), file(1, 1)}, 2},
		{"files", many, windowFiles},
	} {
		if n := w.windowLength(tt.files); n != tt.want {
			t.Errorf("%s: %d files, want %d", tt.name, n, tt.want)
		}
	}
}

package cas

import (
	"testing"
	"time"

	"github.com/xetfs/xetfs/codec"
)

// An open file keeps the plans of its blocks, and not those of its random reads.
func TestPlansOfOpenFile(t *testing.T) {
	const block, blocks, pieces = 1000, 5, 100
	file := codec.Hash{1}
	var ps plans
	ps.init(4096, block)
	add := func(off, n int64) {
		x := codec.Hash{2, byte(off)}
		p := &plan{q: query{file: file, off: off, n: n}}
		r := FetchRange{Chunks: codec.ChunkRange{End: 1}, End: 100}
		p.addresses.Store(&addresses{xorbs: map[codec.Hash][]signedRange{x: {{FetchRange: r}}}, end: time.Now()})
		ps.addLocked(p)
	}
	ps.holdLocked(file, 1)
	for i := range int64(blocks) {
		add(i*block, block)
	}
	for i := range int64(pieces) {
		add(i, 10)
	}
	kept := 0
	for _, p := range ps.byFile[file] {
		if p.q.n == block {
			kept++
		}
	}
	if kept != blocks || len(ps.byFile[file]) > blocks+10 {
		t.Errorf("%d plans, of them %d of the %d blocks", len(ps.byFile[file]), kept, blocks)
	}
	ps.holdLocked(file, -1)
	if n := len(ps.byFile[file]); n > 10 {
		t.Errorf("%d plans of the closed file", n)
	}
}

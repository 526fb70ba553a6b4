package verify

import (
	"sync"

	"github.com/xetfs/xetfs/codec"
)

// provenChunks are the chunks of xorbs that the checks of files unpacked and compared with their
// hashes. The checks of the xorbs do not unpack them again. They need one bit of memory each. A
// xorb with several copies has none, because a file is read from one copy.
type provenChunks struct {
	mu    sync.Mutex
	xorbs map[codec.Hash][]uint64 // bits of xorbs with one copy, chunk 0 lowest; guarded by mu
}

// newProvenChunks returns provenChunks without a chunk, for the copies of a store.
func newProvenChunks(copies []Object) *provenChunks {
	p := &provenChunks{xorbs: map[codec.Hash][]uint64{}}
	several := map[codec.Hash]bool{}
	for _, f := range copies {
		if _, ok := p.xorbs[f.Hash]; ok {
			several[f.Hash] = true
		}
		p.xorbs[f.Hash] = nil
	}
	for x := range several {
		delete(p.xorbs, x)
	}
	return p
}

// add adds chunks of a xorb.
func (p *provenChunks) add(x codec.Hash, r codec.ChunkRange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	bits, ok := p.xorbs[x]
	if !ok {
		return
	}
	if n := int(r.End+63) / 64; n > len(bits) {
		bits = append(bits, make([]uint64, n-len(bits))...)
		p.xorbs[x] = bits
	}
	for i := r.Start; i < r.End; i++ {
		bits[i/64] |= 1 << (i % 64)
	}
}

// take removes the chunks of a xorb and returns a function that reports whether a chunk was among
// them.
func (p *provenChunks) take(x codec.Hash) func(chunk int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	bits := p.xorbs[x]
	delete(p.xorbs, x)
	return func(chunk int) bool {
		return chunk/64 < len(bits) && bits[chunk/64]&(1<<(chunk%64)) != 0
	}
}

package hub

import (
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A plainRun makes a run of chunks out of the bytes of a file while they arrive. The bytes arrive
// at the end of the memory. The chunks then move forwards, each behind its header:
//
//	arriving  [ room for k headers ][ chunk 0 ][ chunk 1 ]…
//	complete  [ header ][ chunk 0 ][ header ][ chunk 1 ]…
//
// A chunk never moves into the place of a later one, because i headers are shorter than k.
type plainRun struct {
	chunks  codec.ChunkRange
	packed  []byte
	size    int // bytes of the content
	moved   int // chunks with headers
	partial func(run *xorb.Run)
}

// newPlainRun returns a run of chunks r with size bytes of content.
func newPlainRun(r codec.ChunkRange, size int, o origin.ReadOptions) *plainRun {
	n := r.Len()*xorb.ChunkHeaderSize + size
	p := &plainRun{chunks: r, size: size, partial: o.OnPartial}
	if o.Buffer != nil {
		p.packed = o.Buffer(n)
	} else {
		p.packed = make([]byte, n)
	}
	return p
}

// content returns the memory for the content.
func (p *plainRun) content() []byte { return p.packed[len(p.packed)-p.size:] }

// progress takes the first n bytes of the content.
func (p *plainRun) progress(n int) {
	before := p.moved
	for (p.moved+1)*plainChunk <= n && p.moved < p.chunks.Len()-1 {
		p.move(plainChunk)
	}
	if p.moved > before && p.partial != nil {
		if run, err := p.parse(p.moved); err == nil {
			p.partial(run)
		}
	}
}

// move moves the next chunk behind its header.
func (p *plainRun) move(size int) {
	to := p.moved * (xorb.ChunkHeaderSize + plainChunk)
	from := len(p.packed) - p.size + p.moved*plainChunk
	copy(p.packed[to+xorb.ChunkHeaderSize:], p.packed[from:from+size])
	xorb.ChunkHeader{Scheme: xorb.None, Packed: size, Unpacked: size}.Append(p.packed[to:to])
	p.moved++
}

// parse returns the run of the first n chunks, which have arrived.
func (p *plainRun) parse(n int) (*xorb.Run, error) {
	for p.moved < n {
		p.move(min(plainChunk, p.size-p.moved*plainChunk))
	}
	end := min(n*(xorb.ChunkHeaderSize+plainChunk), len(p.packed))
	return xorb.ParseRun(p.packed[:end], codec.ChunkRange{Start: p.chunks.Start, End: p.chunks.Start + uint32(n)}, nil) //nolint:gosec // at most xorbChunks
}

package cache

import (
	"cmp"
	"slices"

	"github.com/xetfs/xetfs/codec"
)

// Limits of a request of a Plan.
const (
	planBytes    = 4 << 20  // of one request, unpacked, about
	planGapBytes = 64 << 10 // unplanned bytes that a request may include, to save another one
)

// A Request is consecutive chunks of a xorb for one request to the origin.
type Request struct {
	Xorb   codec.Hash
	Chunks codec.ChunkRange
	Bytes  int64 // of the planned chunks, unpacked, about
}

// A Plan collects chunks that several files need and combines neighboring chunks of a xorb into
// few requests. The zero value is an empty plan.
type Plan struct {
	xorbs map[codec.Hash]*plannedChunks
}

// plannedChunks are the chunks of one xorb in a Plan.
type plannedChunks struct {
	chunks   codec.ChunkSet
	n, bytes int64 // number, and approximate bytes
}

// Add adds chunks r of xorb x, which have about the given number of unpacked bytes.
func (p *Plan) Add(x codec.Hash, r codec.ChunkRange, bytes int64) {
	if p.xorbs == nil {
		p.xorbs = map[codec.Hash]*plannedChunks{}
	}
	in := p.xorbs[x]
	if in == nil {
		in = &plannedChunks{}
		p.xorbs[x] = in
	}
	in.n += int64(r.Len())
	in.bytes += bytes
	in.chunks.Add(r)
}

// Requests returns the requests of the plan, of at most about 4 MiB each, in the order of their
// xorbs and chunks.
func (p *Plan) Requests() (all []Request) {
	for x, in := range p.xorbs {
		average := max(1, in.bytes/in.n)
		gap, most := uint32(planGapBytes/average), uint32(max(1, planBytes/average))
		for r := range in.chunks.Ranges(gap, most) {
			all = append(all, Request{x, r, average * int64(in.chunks.Count(r))})
		}
	}
	slices.SortFunc(all, func(a, b Request) int {
		return cmp.Or(a.Xorb.Compare(b.Xorb), cmp.Compare(a.Chunks.Start, b.Chunks.Start))
	})
	return all
}

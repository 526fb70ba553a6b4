package cache

import (
	"cmp"
	"slices"

	"github.com/xetfs/xetfs/codec"
)

// Limits of a request of a Plan.
const (
	planBytes    = 4 << 20  // of one request, unpacked, about
	planGapBytes = 64 << 10 // unplanned bytes between planned ones that a request may include

	// sparseGapBytes is planGapBytes for readahead of scattered chunks. Windows of 256 files in
	// the order of inode numbers fetched 20 % more bytes with planGapBytes, and 1 % with this.
	sparseGapBytes = 16 << 10
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

// Requests returns the requests of a plan, of at most about 4 MiB each, in the order of their
// xorbs and chunks.
func (c *Cache) Requests(p *Plan) []Request {
	return c.requests(p, func(*plannedChunks) int64 { return planGapBytes })
}

// requests returns the requests of a plan with gaps of up to gapBytes. A source without proofs
// has only chunks of files, so its requests have no gaps.
func (c *Cache) requests(p *Plan, gapBytes func(*plannedChunks) int64) []Request {
	if !c.src.Proves() {
		gapBytes = func(*plannedChunks) int64 { return 0 }
	}
	return p.requests(gapBytes)
}

// requests returns the requests of the plan with gaps of up to gapBytes.
func (p *Plan) requests(gapBytes func(*plannedChunks) int64) (all []Request) {
	for x, in := range p.xorbs {
		average := max(1, in.bytes/in.n)
		gap, most := uint32(gapBytes(in)/average), uint32(max(1, planBytes/average))
		for r := range in.chunks.Ranges(gap, most) {
			all = append(all, Request{x, r, average * int64(in.chunks.Count(r))})
		}
	}
	slices.SortFunc(all, func(a, b Request) int {
		return cmp.Or(a.Xorb.Compare(b.Xorb), cmp.Compare(a.Chunks.Start, b.Chunks.Start))
	})
	return all
}

// readaheadGap returns sparseGapBytes if fewer than a quarter of the chunks from the first to the
// last are planned.
func (in *plannedChunks) readaheadGap() int64 {
	for span := range in.chunks.Ranges(codec.MaxXorbChunks, codec.MaxXorbChunks) {
		if 4*in.chunks.Count(span) < span.Len() {
			return sparseGapBytes
		}
	}
	return planGapBytes
}

package cas

import (
	"context"
	"fmt"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// Places implements origin.PlaceReader. It sends no request.
func (c *Client) Places(_ context.Context, x codec.Hash, r codec.ChunkRange) (origin.Places, error) {
	p, ok := c.places.all(x, r, c.provenSize(x))
	if !ok {
		return nil, fmt.Errorf("xorb %s: %w: the places of chunks %v are not known", x, origin.ErrUnavailable, r)
	}
	return p, nil
}

// PackedSize implements Source.
func (c *Client) PackedSize(x codec.Hash, r codec.ChunkRange) int64 {
	start, end, ok := c.places.span(x, r)
	if !ok {
		return 0
	}
	return end - start
}

// RequestPlaces implements origin.PlaceReader.
func (c *Client) RequestPlaces(ctx context.Context, id codec.FileID) ([]codec.Term, error) {
	return c.requestTerms(origin.NoCache(ctx), id.File)
}

// LearnPlaces implements origin.PlaceReader.
func (c *Client) LearnPlaces(x codec.Hash, run *xorb.Run) {
	if start, ok := c.places.start(x, run.Chunks.Start); ok {
		headers, _, _ := headersOf(run.Packed, run.Chunks.Start)
		c.places.learnChunks(x, run.Chunks.Start, start, headers)
	}
}

// start returns where a chunk begins, if that is known.
func (ps *places) start(x codec.Hash, chunk uint32) (int64, bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return ps.ofLocked(x).start(chunk)
}

// chunkPlaces are the places of the chunks from first on. They have one more element than chunks:
// the end of the last one.
type chunkPlaces struct {
	first            uint32
	packed, unpacked []int64
}

// PackedRange implements origin.Places.
func (p *chunkPlaces) PackedRange(r codec.ChunkRange) (start, end int64) {
	return p.packed[r.Start-p.first], p.packed[r.End-p.first]
}

// UnpackedRange implements origin.Places.
func (p *chunkPlaces) UnpackedRange(r codec.ChunkRange) (start, end int64) {
	return p.unpacked[r.Start-p.first], p.unpacked[r.End-p.first]
}

// all returns the places of chunks r if all are known. sizes returns proven lengths, or 0.
func (ps *places) all(x codec.Hash, r codec.ChunkRange, sizes func(i uint32) int64) (*chunkPlaces, bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	xp, p := ps.ofLocked(x), &chunkPlaces{first: r.Start}
	size := int64(0)
	for i := r.Start; ; i++ {
		at, ok := xp.start(i)
		if !ok {
			return nil, false
		}
		p.packed, p.unpacked = append(p.packed, at), append(p.unpacked, size)
		if i == r.End {
			return p, true
		}
		n := sizes(i)
		if n == 0 {
			n = xp.size(i)
		}
		if n == 0 {
			return nil, false
		}
		size += n
	}
}

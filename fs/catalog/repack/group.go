package repack

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A place is where a chunk goes: 1 + the number of its group, and its index there; zero: it has
// none yet.
type place struct{ group, index uint32 }

// A group is chunks that become one xorb.
type group struct {
	xorb.Info
	from []source // of each chunk
}

// A source is where a chunk is copied from.
type source struct {
	xorb  codec.Hash
	chunk uint32
}

// fits reports whether one more chunk fits into the xorb.
func (g *group) fits(packed, unpacked uint32) bool {
	if g.Len() == 0 {
		return true
	}
	return g.Len() < codec.MaxXorbChunks &&
		int(g.PackedEnd[g.Len()-1]+packed) <= codec.MaxXorbSize && int(g.UnpackedEnd[g.Len()-1]+unpacked) <= codec.MaxXorbSize
}

func (g *group) add(from source, hash codec.Hash, packed, unpacked uint32) {
	var packedEnd, unpackedEnd uint32
	if n := g.Len(); n > 0 {
		packedEnd, unpackedEnd = g.PackedEnd[n-1], g.UnpackedEnd[n-1]
	}
	g.from = append(g.from, from)
	g.Chunks = append(g.Chunks, hash)
	g.PackedEnd = append(g.PackedEnd, packedEnd+packed)
	g.UnpackedEnd = append(g.UnpackedEnd, unpackedEnd+unpacked)
}

// info returns the places of the chunks of a xorb. They are proven by the name of the xorb.
func (r *run) info(ctx context.Context, x codec.Hash) (*xorb.Info, error) {
	if in, ok := r.infos.Get(x); ok {
		return in, nil
	}
	in, _, err := origin.ReadXorbInfo(ctx, r.store, x)
	if err != nil {
		return nil, r.damage(x, err)
	}
	return r.infos.Add(x, in, 64+40*int64(in.Len())), nil
}

// damage makes a damagedError of an error about a replaced xorb, if it is one of its content.
func (r *run) damage(x codec.Hash, err error) error {
	if origin.IsXorbFault(err) {
		return &damagedError{x, err}
	}
	return err
}

// place returns the new place of a chunk of a replaced xorb. It cuts the open group if the chunk
// does not fit.
func (r *run) place(ctx context.Context, x codec.Hash, in *xorb.Info, chunk uint32) (place, error) {
	places := r.moved[x]
	if places == nil {
		places = make([]place, in.Len())
		r.moved[x] = places
	}
	if places[chunk].group > 0 {
		return places[chunk], nil
	}
	one := codec.ChunkRange{Start: chunk, End: chunk + 1}
	start, end := in.PackedRange(one)
	from, to := in.UnpackedRange(one)
	packed, unpacked := uint32(end-start), uint32(to-from)
	if !r.open.fits(packed, unpacked) {
		if err := r.cut(ctx); err != nil {
			return place{}, err
		}
	}
	places[chunk] = place{uint32(len(r.groups)) + 1, uint32(r.open.Len())}
	r.open.add(source{x, chunk}, in.Chunks[chunk], packed, unpacked)
	return places[chunk], nil
}

// cut stores the open group as a xorb. The files of its chunks can then be described.
func (r *run) cut(ctx context.Context) error {
	g := &r.open
	if g.Len() == 0 {
		return r.describeReady(ctx)
	}
	g.Xorb = g.Root()
	size := int64(g.PackedEnd[g.Len()-1])
	done, err := r.isStored(ctx, g)
	if err != nil {
		return err
	}
	if done {
		r.report.Reused.Objects++
		r.report.Reused.Bytes += size
	} else if err := r.copyGroup(ctx, g); err != nil {
		return err
	}
	r.copied += size
	r.o.Progress(Progress{Doing: Copying, Done: r.copied, Total: max(r.plan.Copy, r.copied)})
	r.groups = append(r.groups, g.Xorb)
	if err := r.list(ctx, pack.XorbInfo(g.Info.Xorb, &g.Info)); err != nil {
		return err
	}
	r.open = group{}
	return r.describeReady(ctx)
}

// isStored reports whether an earlier run has stored the xorb of a group.
func (r *run) isStored(ctx context.Context, g *group) (bool, error) {
	there, err := r.moves.Has(ctx, names.XorbKey(g.Xorb))
	if !there || err != nil {
		return false, err
	}
	in, _, err := origin.ReadXorbInfo(ctx, r.store, g.Xorb)
	switch {
	case origin.IsXorbFault(err):
		return false, nil
	case err != nil:
		return false, err
	}
	return slices.Equal(in.PackedEnd, g.PackedEnd) && slices.Equal(in.UnpackedEnd, g.UnpackedEnd), nil
}

const (
	requestBytes   = 8 << 20 // of one read
	requestsAtOnce = 4
	footerRoom     = 128 + 40*codec.MaxXorbChunks
)

// copyGroup copies the chunks of a group and stores them as a xorb.
func (r *run) copyGroup(ctx context.Context, g *group) error {
	size := int(g.PackedEnd[g.Len()-1])
	if cap(r.body) < size+footerRoom {
		r.body = make([]byte, size+footerRoom)
	}
	body := r.body[:size]
	targets := map[codec.Hash]map[uint32]int{} // chunks of each xorb → index in the group
	for i, from := range g.from {
		if targets[from.xorb] == nil {
			targets[from.xorb] = map[uint32]int{}
		}
		targets[from.xorb][from.chunk] = i
	}
	jobs, gctx := errgroup.WithContext(ctx)
	jobs.SetLimit(max(requestsAtOnce, runtime.GOMAXPROCS(0)))
	var read atomic.Int64
	for x, chunks := range targets {
		in, err := r.info(ctx, x)
		if err != nil {
			return errors.Join(err, jobs.Wait())
		}
		for _, ask := range requests(in, chunks, r.gap()) {
			jobs.Go(func() error {
				start, end := in.PackedRange(ask)
				read.Add(end - start)
				return origin.Reread(gctx, func(ctx context.Context) error {
					return r.copyRun(ctx, x, in, ask, chunks, g, body)
				})
			})
		}
	}
	if err := jobs.Wait(); err != nil {
		return err
	}
	r.report.Read += read.Load()
	if err := r.sink.PutXorb(ctx, &g.Info, body); err != nil {
		return err
	}
	r.report.Xorbs.Objects++
	r.report.Xorbs.Bytes += int64(size)
	return nil
}

// gap is how many unneeded chunks between two others are read, because one request costs more.
func (r *run) gap() uint32 {
	if origin.Local(r.store) {
		return 0
	}
	return 1
}

// requests returns the ranges of a xorb that are read for some of its chunks.
func requests(in *xorb.Info, chunks map[uint32]int, gap uint32) (asks []codec.ChunkRange) {
	var set codec.ChunkSet
	for c := range chunks {
		set.Add(codec.ChunkRange{Start: c, End: c + 1})
	}
	for found := range set.Ranges(gap, codec.MaxXorbChunks) {
		for found.Start < found.End {
			ask := codec.ChunkRange{Start: found.Start, End: found.Start + 1}
			for ask.End < found.End {
				longer := codec.ChunkRange{Start: ask.Start, End: ask.End + 1}
				if start, end := in.PackedRange(longer); end-start > requestBytes {
					break
				}
				ask = longer
			}
			asks = append(asks, ask)
			found.Start = ask.End
		}
	}
	return asks
}

// copyRun reads consecutive chunks and puts those that are needed in their places. Each is
// unpacked to compare its hash.
func (r *run) copyRun(ctx context.Context, x codec.Hash, in *xorb.Info, ask codec.ChunkRange, chunks map[uint32]int, g *group, body []byte) error {
	k := names.XorbKey(x)
	start, end := in.PackedRange(ask)
	packed := make([]byte, end-start)
	if err := r.store.ReadAt(ctx, k, packed, start); err != nil {
		return r.damage(x, fmt.Errorf("%s: %w", k, err))
	}
	run, err := xorb.ParseRun(packed, ask, in.Chunks[ask.Start:ask.End])
	if err != nil {
		return r.damage(x, fmt.Errorf("%s: %w", k, err))
	}
	plain := make([]byte, codec.MaxChunkSize)
	for c := ask.Start; c < ask.End; c++ {
		i, ok := chunks[c]
		if !ok {
			continue
		}
		if _, err := run.Unpack(c, plain[:run.Size(c)]); err != nil {
			return r.damage(x, fmt.Errorf("%s: %w", k, err))
		}
		one := run.Slice(codec.ChunkRange{Start: c, End: c + 1}).Packed
		room := body[g.PackedEnd[i]-uint32(len(one)) : g.PackedEnd[i]]
		if want := g.packedSize(i); want != len(one) {
			return r.damage(x, fmt.Errorf("%s: %w", k, codec.Corrupt("chunk", start, "chunk %d has %d packed bytes, the footer says %d", c, len(one), want)))
		}
		copy(room, one)
	}
	return nil
}

// packedSize returns the packed bytes of a chunk.
func (g *group) packedSize(i int) int {
	start, end := g.PackedRange(codec.ChunkRange{Start: uint32(i), End: uint32(i) + 1})
	return int(end - start)
}

package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/codec/shard"
)

// A Usage is what the live versions and the snapshots of a store need of its shards and xorbs.
// A sweep keeps each xorb that a live shard names, also chunks that no live file has.
// Versions deleted within the time of grace are not live here.
//
// It takes about 1,200 bytes for each xorb, 150 for each shard, and 24 for each 3 KiB of File Info
// blocks.
type Usage struct {
	Xorbs    map[codec.Hash]*XorbUsage
	Shards   map[codec.Hash]*ShardUsage
	Homeless int // files in trees that do not name their shard; all places of them stay
}

// A XorbUsage is the use of one xorb. Sizes are zero if they are not known.
type XorbUsage struct {
	Live     codec.ChunkSet // chunks of live files
	Chunks   uint32
	Packed   int64 // bytes of all chunks with their headers
	Unpacked int64
	Used     int64 // of Packed, the bytes of live chunks
	Err      error // why sizes are not known: the xorb is missing or damaged
}

// Unusable returns the xorbs with live chunks that are missing or damaged, by hash.
func (u *Usage) Unusable() (hashes []codec.Hash) {
	for h, x := range u.Xorbs {
		if x.Err != nil && !x.Live.IsEmpty() { // a sweep deletes a xorb without live chunks
			hashes = append(hashes, h)
		}
	}
	slices.SortFunc(hashes, codec.Hash.Compare)
	return hashes
}

// A ShardUsage is the use of one shard.
type ShardUsage struct {
	Size  int64
	Xorbs []codec.Hash // that it names in file and CAS info blocks, sorted
	live  bits         // offsets of the blocks of live files, in records
}

// isLive reports whether a live version has the file whose block is at an offset.
func (s *ShardUsage) isLive(block int64) bool { return s.live.has(block / shard.BlockUnit) }

// LiveBytes returns the packed bytes of the chunks that live files have.
func (u *Usage) LiveBytes() (n int64) {
	for _, x := range u.Xorbs {
		n += x.Used
	}
	return n
}

// UnusedBytes returns the packed bytes of the other chunks of the xorbs that live shards name.
func (u *Usage) UnusedBytes() (n int64) {
	for _, x := range u.Xorbs {
		n += x.Packed - x.Used
	}
	return n
}

// Memory returns about how many bytes of memory u has.
func (u *Usage) Memory() int64 {
	n := int64(len(u.Xorbs)) * 1200
	for _, s := range u.Shards {
		n += 150 + 32*int64(cap(s.Xorbs)) + bitsBytes*int64(len(s.live))
	}
	return n
}

// bitsBytes is about what an element of bits takes.
const bitsBytes = 24

// ErrMemory reports that the usage of a store does not fit into the given memory.
var ErrMemory = errors.New("the store needs more memory than --memory allows")

// Survey finds what is live in a store. It reads all pages of live trees, and each shard that
// they name once. It reads the footers of xorbs of which a part is live. memory bounds the bytes of
// the result; 0: no limit.
func Survey(ctx context.Context, s origin.Store, pages page.Getter, memory int64, told func(Progress)) (*Usage, error) {
	if told == nil {
		told = func(Progress) {}
	}
	m := newMarker(s, pages, time.Now(), 0, func(n int64) { told(Progress{Doing: "look", Done: n}) })
	m.usage = newUsageMarker(memory)
	if err := m.walk(ctx, m.roots); err != nil {
		return nil, err
	}
	return m.usage.finish(ctx, m)
}

// A usageMarker collects a Usage during a walk.
type usageMarker struct {
	memory int64 // limit; 0: none

	mu sync.Mutex
	u  Usage // guarded by mu
}

func newUsageMarker(memory int64) *usageMarker {
	return &usageMarker{memory: memory, u: Usage{Xorbs: map[codec.Hash]*XorbUsage{}, Shards: map[codec.Hash]*ShardUsage{}}}
}

// leaf adds the files of a leaf. Shards are read after all leaves.
func (um *usageMarker) leaf(p *page.Page) {
	um.mu.Lock()
	defer um.mu.Unlock()
	for e := range p.EntriesFrom(0) {
		if e.ID.File.IsZero() || e.ID.Shard.IsZero() {
			continue
		}
		s := um.u.Shards[e.ID.Shard]
		if s == nil {
			s = new(ShardUsage)
			um.u.Shards[e.ID.Shard] = s
		}
		if e.ID.Block < shard.MaxSize {
			s.live.add(e.ID.Block / shard.BlockUnit)
		}
	}
}

// checkMemory returns ErrMemory if the limit is passed.
func (um *usageMarker) checkMemory() error {
	um.mu.Lock()
	defer um.mu.Unlock()
	if need := um.u.Memory(); um.memory > 0 && need > um.memory {
		return fmt.Errorf("%w: more than %d MiB for %d shards and %d xorbs", ErrMemory, um.memory>>20, len(um.u.Shards), len(um.u.Xorbs))
	}
	return nil
}

// A shardScan is one shard that is being read for a usageMarker.
type shardScan struct {
	um    *usageMarker
	use   *ShardUsage
	named map[codec.Hash]struct{}
}

// scan begins with a shard. The result is nil if um is nil, or the shard is of no live file.
func (um *usageMarker) scan(h codec.Hash, size int64) *shardScan {
	if um == nil {
		return nil
	}
	um.mu.Lock()
	defer um.mu.Unlock()
	use := um.u.Shards[h]
	if use == nil {
		return nil
	}
	use.Size = size
	return &shardScan{um: um, use: use, named: map[codec.Hash]struct{}{}}
}

func (um *usageMarker) xorbLocked(x codec.Hash) *XorbUsage {
	use := um.u.Xorbs[x]
	if use == nil {
		use = new(XorbUsage)
		um.u.Xorbs[x] = use
	}
	return use
}

func (sc *shardScan) file(f *shard.FileInfo) {
	if sc == nil {
		return
	}
	sc.um.mu.Lock()
	defer sc.um.mu.Unlock()
	live := sc.use.isLive(f.Block)
	for _, t := range f.Terms {
		sc.named[t.Xorb] = struct{}{}
		x := sc.um.xorbLocked(t.Xorb)
		if live {
			x.Live.Add(t.Chunks)
		}
	}
}

func (sc *shardScan) xorb(x *shard.XorbInfo) {
	if sc == nil {
		return
	}
	sc.um.mu.Lock()
	defer sc.um.mu.Unlock()
	sc.named[x.Xorb] = struct{}{}
	use := sc.um.xorbLocked(x.Xorb)
	use.Chunks, use.Packed, use.Unpacked = uint32(len(x.Chunks)), int64(x.Packed), int64(x.Unpacked)
}

func (sc *shardScan) end() error {
	if sc == nil {
		return nil
	}
	sc.um.mu.Lock()
	sc.use.Xorbs = make([]codec.Hash, 0, len(sc.named))
	for x := range sc.named {
		sc.use.Xorbs = append(sc.use.Xorbs, x)
	}
	sc.um.mu.Unlock()
	slices.SortFunc(sc.use.Xorbs, codec.Hash.Compare)
	return sc.um.checkMemory()
}

// finish reads the footers of the xorbs of which a part is live.
func (um *usageMarker) finish(ctx context.Context, m *marker) (*Usage, error) {
	u := &um.u
	u.Homeless = len(m.homeless)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers(m.store))
	for _, h := range slices.SortedFunc(maps.Keys(u.Xorbs), codec.Hash.Compare) {
		x := u.Xorbs[h]
		all := codec.ChunkRange{Start: 0, End: min(x.Chunks, codec.MaxXorbChunks)}
		live := x.Live.Count(codec.ChunkRange{Start: 0, End: codec.MaxXorbChunks})
		switch {
		case x.Packed > 0 && live == 0:
			continue // no live file has any of it
		case x.Packed > 0 && live == int(x.Chunks) && x.Live.Count(all) == live:
			x.Used = x.Packed
			continue
		}
		g.Go(func() error { return x.measure(ctx, m.store, h) })
	}
	return u, g.Wait()
}

// measure reads the sizes of the chunks. A missing or damaged xorb counts as live as a whole.
func (x *XorbUsage) measure(ctx context.Context, s origin.Store, h codec.Hash) error {
	in, size, err := origin.ReadXorbInfo(ctx, s, h)
	if origin.IsXorbFault(err) {
		x.Err = err
		x.Packed = cmp.Or(x.Packed, size)
		x.Used = x.Packed
		return nil
	}
	if err != nil {
		return err
	}
	n := in.Len()
	x.Chunks, x.Packed, x.Unpacked = uint32(n), int64(in.PackedEnd[n-1]), int64(in.UnpackedEnd[n-1])
	x.Used = 0
	for r := range x.Live.Ranges(0, codec.MaxXorbChunks) {
		if r.End > x.Chunks {
			x.Err = fmt.Errorf("%s: %w", names.XorbKey(h), codec.Corrupt("xorb", 0, "it has %d chunks, a file has chunks %v", n, r))
			x.Used = x.Packed
			return nil
		}
		start, end := in.PackedRange(r)
		x.Used += end - start
	}
	return nil
}

// bits is a set of numbers below 2^37, 64 of them in an element of the map. A page of a foreign
// store can name any offset, so memory follows the count of numbers and not their size.
type bits map[uint32]uint64

func (b *bits) add(i int64) {
	if *b == nil {
		*b = bits{}
	}
	(*b)[uint32(i/64)] |= 1 << (i % 64)
}

func (b bits) has(i int64) bool { return b[uint32(i/64)]>>(i%64)&1 == 1 }

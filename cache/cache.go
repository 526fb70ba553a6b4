package cache

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/seen"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
)

// Options tune a Cache. The zero value has good defaults.
type Options struct {
	MemoryBytes int64 // unpacked chunks and index pages in memory; 0: 256 MiB
	AheadBytes  int64 // packed chunks of all readaheads; 0: 128 MiB
	NoVerify    bool  // do not compare chunks with their hashes, if the origin proves them

	// Disk stores packed chunks, index pages and whole files; of a local origin, whole files
	// only. The caller that opened it closes it, after the Cache. Its write-behind queue takes
	// up to half of MemoryBytes. nil: none.
	Disk *disk.Store
}

// A Cache is the layer between the engine and a Source. Concurrent readers of the same chunks
// share one request. They also share one unpacking of each chunk that goes through memory. A
// Cache is safe for concurrent use.
type Cache struct {
	src      origin.Source
	local    bool
	noVerify bool
	disk     *disk.Store // nil: none
	packed   *disk.Store // disk, if it also stores chunks and pages; else nil

	memory    *memory
	pages     pageMemory    // index pages used last
	unpacking unpackGroup   // chunks being unpacked, and those unpacked last
	fetches   fetchTable    // packed chunks in transfer, in use, or read ahead
	replicas  replicas      // of corrupt xorbs
	budget    budget        // of readahead
	planSlots chan struct{} // of requests of plans
	seen      *seen.Table   // hashes of chunks, see proofs.go; nil: the origin proves them
	drops     *seen.Drops   // of unproven chunks; nil: the origin proves them
	moved     *movedChunks  // on disk, see moved.go; nil: none are looked for
	helpers   chan struct{}
	stats     counters
}

// counters are the events that Stats reports.
type counters struct {
	memoryHits, aheadHits, diskHits, misses, shared, unpacked atomic.Int64
	pageHits, pageDiskHits, pageMisses, pageShared            atomic.Int64

	memoryBytes, diskBytes, originBytes atomic.Int64 // that reads returned
	corrupt                             atomic.Int64
}

// Stats are counts since the start. They count chunks, except those of pages.
type Stats struct {
	MemoryHits int64 `json:"memory_hits"` // found unpacked in memory
	AheadHits  int64 `json:"ahead_hits"`  // found fetched ahead
	DiskHits   int64 `json:"disk_hits"`   // found on disk
	NotKept    int64 `json:"not_kept"`    // not stored on disk, because the write-behind queue was full
	Misses     int64 `json:"misses"`      // requested from the origin
	Shared     int64 `json:"shared"`      // shared with another reader's fetch or unpacking

	PageHits     int64 `json:"page_hits"`      // index pages found in memory
	PageDiskHits int64 `json:"page_disk_hits"` // found on disk
	PageMisses   int64 `json:"page_misses"`    // requested from the store
	PageShared   int64 `json:"page_shared"`    // shared with another reader's fetch

	// Bytes that reads returned, by the source of their chunks. Reads of xetfs itself count, too.
	FromMemory int64 `json:"from_memory_bytes"` // unpacked for an earlier or concurrent read
	FromDisk   int64 `json:"from_disk_bytes"`
	FromOrigin int64 `json:"from_origin_bytes"`

	Corrupt int64 `json:"corrupt"` // reads that found corrupt content of the origin; a retry counts again

	MemoryBytes int64 `json:"memory_bytes"` // unpacked chunks and index pages in memory now
	AheadBytes  int64 `json:"ahead_bytes"`  // packed chunks fetched ahead now

	Memory MemoryStats `json:"memory"`

	Disk *disk.Stats `json:"disk,omitempty"` // of the disk cache; nil: none
}

// MemoryStats are the bytes of MemoryBytes and AheadBytes by part.
type MemoryStats struct {
	Chunks int64 `json:"chunks"` // unpacked chunks that the memory cache has admitted
	Recent int64 `json:"recent"` // unpacked last
	Pages  int64 `json:"pages"`  // index pages
	Ahead  int64 `json:"ahead"`  // packed chunks fetched ahead
}

// New returns a Cache over src.
func New(src origin.Source, o Options) (*Cache, error) {
	if o.MemoryBytes == 0 {
		o.MemoryBytes = 256 << 20
	}
	if o.AheadBytes == 0 {
		o.AheadBytes = 128 << 20
	}
	var hashes *seen.Table
	var drops *seen.Drops
	if !src.Proves() {
		o.NoVerify = false
		n := max(minSeen, o.MemoryBytes/seenShare)
		hashes, drops, o.MemoryBytes = seen.New(n), new(seen.Drops), o.MemoryBytes-n
	}
	var moved *movedChunks
	if o.Disk != nil && src.Proves() && !src.Local() {
		n := max(minMoved, o.MemoryBytes/movedShare)
		moved, o.MemoryBytes = newMovedChunks(n), o.MemoryBytes-n
	}
	// The chunks that were unpacked last stay. ristretto decides about all others.
	last := min(8<<20, o.MemoryBytes/4)
	m, err := newMemory(o.MemoryBytes-last, last)
	if err != nil {
		return nil, fmt.Errorf("memory cache: %w", err)
	}
	c := &Cache{
		src:       src,
		local:     src.Local(),
		noVerify:  o.NoVerify,
		seen:      hashes,
		drops:     drops,
		moved:     moved,
		disk:      o.Disk,
		memory:    m,
		planSlots: make(chan struct{}, maxPlanned),
		helpers:   make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1)),
	}
	c.unpacking.init(last)
	c.pages.init(o.MemoryBytes)
	c.fetches.init()
	c.fetches.local = c.local
	c.fetches.drops = c.drops
	if !c.local && o.Disk != nil {
		c.packed = o.Disk
		c.fetches.write = c.writeFetch
		c.fetches.writes.init(m, o.MemoryBytes, c.storesPacked)
	}
	c.replicas.init()
	c.budget.max = o.AheadBytes
	return c, nil
}

// FileInfo returns the File Info block of a file.
func (c *Cache) FileInfo(ctx context.Context, id codec.FileID) (*shard.FileInfo, error) {
	return c.src.FileInfo(ctx, id)
}

// OpenFileInfo returns the File Info block of a file or, of a file of many terms, a reader of
// groups of them. See origin.Source.
func (c *Cache) OpenFileInfo(ctx context.Context, id codec.FileID) (*shard.FileInfo, *origin.LargeFile, error) {
	return c.src.OpenFile(ctx, id)
}

// Forget drops the stored result of FileInfo because it does not lead to the file. See
// origin.Source.
func (c *Cache) Forget(id codec.FileID) { c.src.Forget(id) }

// Narrow returns the chunks of term t that hold piece p of a file, and the bytes to skip in
// them.
func (c *Cache) Narrow(ctx context.Context, id codec.FileID, t codec.Term, p codec.Piece) (codec.ChunkRange, int64, error) {
	return c.src.Narrow(ctx, id, t, p)
}

// PackedSize returns the packed bytes of chunks r of xorb x. See origin.Source.
func (c *Cache) PackedSize(x codec.Hash, r codec.ChunkRange) int64 { return c.src.PackedSize(x, r) }

// Hashed reports whether reads of chunks r of xorb x are compared with their hashes.
func (c *Cache) Hashed(ctx context.Context, x codec.Hash, r codec.ChunkRange) (bool, error) {
	if c.noVerify {
		return false, nil
	}
	return c.src.Hashed(ctx, x, r)
}

// Local reports whether a request to the origin costs no more than reading a local file. See
// origin.Source.
func (c *Cache) Local() bool { return c.local }

// Stats returns the present counts.
func (c *Cache) Stats() Stats {
	st := Stats{
		MemoryHits:   c.stats.memoryHits.Load(),
		AheadHits:    c.stats.aheadHits.Load(),
		DiskHits:     c.stats.diskHits.Load(),
		Misses:       c.stats.misses.Load(),
		Shared:       c.stats.shared.Load(),
		PageHits:     c.stats.pageHits.Load(),
		PageDiskHits: c.stats.pageDiskHits.Load(),
		PageMisses:   c.stats.pageMisses.Load(),
		PageShared:   c.stats.pageShared.Load(),
		FromMemory:   c.stats.memoryBytes.Load(),
		FromDisk:     c.stats.diskBytes.Load(),
		FromOrigin:   c.stats.originBytes.Load(),
		Corrupt:      c.stats.corrupt.Load(),
		Memory: MemoryStats{
			Chunks: c.memory.bytes.Load(), Recent: c.unpacking.held(), Pages: c.pages.held(), Ahead: c.budget.inUse(),
		},
	}
	st.MemoryBytes = st.Memory.Chunks + st.Memory.Recent + st.Memory.Pages
	st.AheadBytes = st.Memory.Ahead
	if c.packed != nil {
		st.NotKept = c.fetches.skippedChunks()
	}
	if c.disk != nil {
		d := c.disk.Stats()
		st.Disk = &d
	}
	return st
}

// Close ends all background work, once fetched chunks are queued for the disk. No Read may run.
func (c *Cache) Close() error {
	c.fetches.close()
	c.pages.calls.Wait()
	c.unpacking.close()
	c.memory.close()
	return nil
}

package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/codec/xorb"
)

// errDiskCorrupt is the error of a chunk from disk that does not unpack to its hash. The chunk
// is dropped from disk. A retry reads it from the origin, which is not responsible.
var errDiskCorrupt = fmt.Errorf("chunk in the disk cache is corrupt: %w", errRetry)

// maxDiskTries is how often a reader retries the disk after errDiskCorrupt. Then it bypasses
// the disk.
const maxDiskTries = 3

// storesPacked reports whether chunks from the origin are stored on disk.
func (c *Cache) storesPacked() bool { return c.packed != nil && c.packed.WriteErr() == nil }

// readDisk reads the chunks of a fetch from disk, if all of them are present and belong to
// their xorb. With now it only reads from memory.
func (c *Cache) readDisk(ctx context.Context, f *fetch, now bool) (*xorb.Run, bool) {
	if c.packed == nil || f.skipDisk {
		return nil, false
	}
	run, ok := c.packed.RunIn(f.xorb, f.chunks, disk.RunOptions{
		Buffer:    f.allocate,
		All:       true,
		NoWait:    now,
		Unchecked: true,
	})
	if !ok {
		if now {
			f.buf.free()
		}
		f.buf = nil // the disk may still write to it
		return nil, false
	}
	adopted, ok := c.annotate(ctx, f.xorb, run)
	if ok && (c.noVerify || !isHashed(adopted)) {
		ok = c.packed.Check(f.xorb, run) // no reader does
	}
	if !ok || !c.isKnown(f.xorb, adopted) {
		f.buf.free()
		f.buf = nil
		return nil, false
	}
	f.fromDisk = true
	c.stats.diskHits.Add(int64(f.chunks.Len()))
	return adopted, true
}

// readableOnDisk returns those of chunks r on disk that are known, so that readers get them from
// there. It reads the index alone.
func (c *Cache) readableOnDisk(x codec.Hash, r codec.ChunkRange) (stored codec.ChunkSet) {
	if c.packed == nil {
		return stored
	}
	stored.Add(r)
	for _, gap := range c.packed.Missing(x, r) {
		stored.Remove(gap)
	}
	if c.seen == nil || stored.IsEmpty() {
		return stored
	}
	for i, leaf := range c.leaves(x, r, c.seen.Get) {
		if leaf.Hash == (codec.Hash{}) {
			stored.Remove(codec.ChunkRange{Start: r.Start + uint32(i), End: r.Start + uint32(i) + 1})
		}
	}
	return stored
}

// HasUnknown reports whether some chunks of terms are on disk and neither proven nor seen.
func (c *Cache) HasUnknown(terms []codec.Term) bool {
	if c.packed == nil || c.seen == nil {
		return false
	}
	return slices.ContainsFunc(terms, func(t codec.Term) bool {
		var unknown codec.ChunkSet
		for _, m := range c.MissingForReads(t.Xorb, t.Chunks) {
			unknown.Add(m)
		}
		for _, m := range c.packed.Missing(t.Xorb, t.Chunks) {
			unknown.Remove(m)
		}
		return !unknown.IsEmpty()
	})
}

// isKnown reports whether all chunks of a run from disk are proven or seen. An earlier process may
// have stored other chunks, from a server that lied. A chunk of another size is dropped from disk.
func (c *Cache) isKnown(x codec.Hash, run *xorb.Run) bool {
	if c.seen == nil {
		return true
	}
	for i := run.Chunks.Start; i < run.Chunks.End; i++ {
		if run.Hash(i) != (codec.Hash{}) {
			continue
		}
		leaf := c.seen.Get(x, i)
		if leaf.Hash == (codec.Hash{}) {
			return false
		}
		if leaf.Size != uint64(run.Size(i)) {
			c.packed.Drop(x, codec.ChunkRange{Start: i, End: i + 1})
			return false
		}
	}
	return true
}

// isHashed reports whether all chunks of a run have hashes.
func isHashed(run *xorb.Run) bool {
	return run.Hashes != nil && !slices.Contains(run.Hashes, codec.Hash{})
}

// annotate adds the known hashes to a run from disk. Chunks that cannot belong to their xorb
// are dropped from disk.
func (c *Cache) annotate(ctx context.Context, x codec.Hash, run *xorb.Run) (*xorb.Run, bool) {
	adopted, err := c.src.Annotate(ctx, x, run)
	if errors.Is(err, codec.ErrCorrupt) {
		c.dropFromDisk(x, run)
	}
	if err != nil {
		return nil, false // the origin reports it
	}
	return adopted, true
}

// dropFromDisk drops the chunks of a run that changed on disk. If none changed, all were wrong
// before and are dropped.
func (c *Cache) dropFromDisk(x codec.Hash, run *xorb.Run) {
	c.packed.Check(x, run)
	if len(c.packed.Missing(x, run.Chunks)) == 0 {
		c.packed.Drop(x, run.Chunks)
	}
}

// diskCorrupt returns the error of dropped chunks. It is no codec.ErrCorrupt, which would be
// attributed to the origin.
func diskCorrupt(x codec.Hash, err error) error {
	return fmt.Errorf("xorb %s: %w: %s", x, errDiskCorrupt, err.Error())
}

// writeFetch stores the chunks of a fetch on disk. They replace unknown copies there. Each chunk is
// unpacked and compared with its hash, if known, unless a reader has done so. The error is that of a panic.
func (c *Cache) writeFetch(f *fetch) (err error) {
	defer flight.Guard(&err)
	if c.packed.WriteErr() != nil {
		return nil
	}
	good := func(r codec.ChunkRange) codec.ChunkRange { return c.verifiedFrom(f, r) }
	for r := range verifiedParts([]codec.ChunkRange{f.chunks}, good) {
		c.putOnDisk(f, r)
	}
	return nil
}

// verifiedParts yields the parts of ranges that are verified. good returns the first chunks of a
// range, up to a corrupt one.
func verifiedParts(ranges []codec.ChunkRange, good func(codec.ChunkRange) codec.ChunkRange) iter.Seq[codec.ChunkRange] {
	return func(yield func(codec.ChunkRange) bool) {
		for _, r := range ranges {
			for r.Start < r.End {
				first := good(r)
				if first.Len() > 0 && !yield(first) {
					return
				}
				r.Start = first.End + 1 // past the corrupt one
			}
		}
	}
}

// putOnDisk gives chunks to the disk as soon as it accepts them.
func (c *Cache) putOnDisk(f *fetch, r codec.ChunkRange) {
	t := &c.fetches
	t.mu.Lock()
	f.users++ // no reader
	t.mu.Unlock()
	free := func() { t.leave(f) }
	run := f.annotated.Slice(r)
	err := c.put(f.drops, f.xorb, run, func() error {
		return c.packed.PutRunWait(t.writes.drainCtx, f.xorb, run, free)
	})
	if err != nil { // it is a cache
		free()
	}
	if errors.Is(err, disk.ErrBusy) {
		t.skip(r)
	}
}

// verifiedFrom returns the first chunks of r, up to a corrupt one.
func (c *Cache) verifiedFrom(f *fetch, r codec.ChunkRange) codec.ChunkRange {
	buf := newBuffer(codec.MaxChunkSize)
	defer buf.free()
	for i := r.Start; i < r.End; i++ {
		if f.verified.has(i - f.chunks.Start) {
			continue
		}
		if _, err := c.verify(f.xorb, f.annotated, i, buf.b[:f.annotated.Size(i)], false); err != nil {
			r.End = i
		}
	}
	return r
}

// markVerified notes that a chunk was unpacked and hashed.
func (rd *readOp) markVerified(w *chunkSlot, chunk uint32) {
	if !rd.c.noVerify {
		w.from.verified.mark(chunk - w.from.chunks.Start)
	}
}

// readDiskPage returns an index page from disk, or nil. It drops a page with another hash.
func (c *Cache) readDiskPage(h page.Hash) *page.Page {
	if c.packed == nil {
		return nil
	}
	p, err := c.decodeDiskPage(h)
	if err != nil {
		c.packed.DropPage(h)
	}
	if p != nil {
		c.stats.pageDiskHits.Add(1)
	}
	return p
}

// decodeDiskPage reads a page from disk; nil if it is absent.
func (c *Cache) decodeDiskPage(h page.Hash) (p *page.Page, err error) {
	defer flight.Guard(&err)
	if b, ok := c.packed.Page(h); ok {
		return page.DecodeAs(h, b)
	}
	return nil, nil
}

// putDiskPage stores a checked page on disk.
func (c *Cache) putDiskPage(h page.Hash, p *page.Page) {
	if c.packed != nil {
		_ = c.packed.PutPage(h, p.Encoded()) // it is a cache
	}
}

// OpenFile opens the whole content of a file for the kernel, if it is on disk. The file must be
// closed after use, and cannot be evicted before.
func (c *Cache) OpenFile(file codec.Hash) (*disk.File, bool) {
	if c.disk == nil {
		return nil, false
	}
	return c.disk.OpenFile(file)
}

// HasFile reports whether the whole content of a file is on disk.
func (c *Cache) HasFile(file codec.Hash) bool {
	return c.disk != nil && c.disk.HasFile(file)
}

// FileWasCorrupt reports whether a whole file was found corrupt. Earlier reads of it may have
// been wrong.
func (c *Cache) FileWasCorrupt(file codec.Hash) bool {
	return c.disk != nil && c.disk.WasCorrupt(file)
}

// CanPutFile reports whether a whole file may be stored now. A process that shares the disk
// cache of another running process cannot store files.
func (c *Cache) CanPutFile() bool { return c.disk != nil && c.disk.WriteErr() == nil }

// PutFile stores the whole content of a file on disk. content must end with an error instead of
// io.EOF if it does not match the hash of the file.
func (c *Cache) PutFile(file codec.Hash, size int64, content io.Reader) error {
	if c.disk == nil {
		return disk.ErrClosed
	}
	return c.disk.PutFile(file, size, content)
}

// HasDisk reports whether the Cache has a disk cache.
func (c *Cache) HasDisk() bool { return c.disk != nil }

// Missing returns the parts of r that are not on disk. With a local origin, that is all of r. For
// reads, unknown chunks are missing, too: see MissingForReads.
func (c *Cache) Missing(x codec.Hash, r codec.ChunkRange) []codec.ChunkRange {
	if c.packed == nil {
		return []codec.ChunkRange{r}
	}
	return c.packed.Missing(x, r)
}

// MissingForReads returns the parts of r that reads request from the origin: those of Missing, and the
// unknown chunks.
func (c *Cache) MissingForReads(x codec.Hash, r codec.ChunkRange) []codec.ChunkRange {
	var missing codec.ChunkSet
	missing.Add(r)
	readable := c.readableOnDisk(x, r)
	for k := range readable.Ranges(0, codec.MaxXorbChunks) {
		missing.Remove(k)
	}
	return slices.Collect(missing.Ranges(0, codec.MaxXorbChunks))
}

// Flush waits until readers find the chunks that were given to the disk, at most for maxDrain. It
// is for callers that read chunks of a Run again.
func (c *Cache) Flush(ctx context.Context) {
	if c.packed != nil {
		ctx, cancel := context.WithTimeout(ctx, maxDrain)
		defer cancel()
		_ = c.packed.Flush(ctx) // it is a cache
	}
}

// MarkRedundant marks chunks as redundant, because a whole file on disk has them, too. They are
// evicted first.
func (c *Cache) MarkRedundant(terms []codec.Term) {
	if c.packed != nil {
		c.fetches.enqueueFunc(func() { c.packed.MarkRedundant(terms) })
	}
}

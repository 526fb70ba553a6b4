package cas

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"

	"github.com/xetfs/xetfs/codec"
)

// kindFiles is the kind of values with the files that describe chunks of a xorb.
const kindFiles = "files with chunks of a xorb"

// A fileTerm is a term of a file. The plan of the file has the address of its chunks.
type fileTerm struct {
	chunks codec.ChunkRange
	size   uint32 // unpacked
	file   codec.Hash
	off    int64 // of the term in the file
}

// fileTermSize is the length of an encoded fileTerm.
const fileTermSize = 52

// maxFileTerms bounds the terms of one xorb.
const maxFileTerms = 2 * codec.MaxXorbChunks

// An entry of the index has the terms of files with chunks of a xorb, sorted by their first chunks.
// Equal ranges have one file, the last one.
type entry struct {
	ranges []fileTerm
}

// describe records that a file has terms, from an offset on.
func (c *Client) describe(file codec.Hash, off int64, terms []codec.Term) {
	c.updateIndex(func() {
		for _, t := range terms {
			c.describeLocked(t.Xorb, fileTerm{t.Chunks, t.Size, file, off})
			off += int64(t.Size)
		}
	})
}

// updateIndex calls update with the lock held. Evicted entries are stored in the disk cache.
func (c *Client) updateIndex(update func()) {
	c.mu.Lock()
	var evicted []func()
	c.evicted = &evicted
	update()
	c.evicted = nil
	c.mu.Unlock()
	for _, store := range evicted {
		store()
	}
}

func (c *Client) describeLocked(x codec.Hash, d fileTerm) {
	e := c.entryLocked(x)
	i, found := slices.BinarySearchFunc(e.ranges, d.chunks, func(a fileTerm, r codec.ChunkRange) int { return compareChunks(a.chunks, r) })
	switch {
	case found:
		e.ranges[i] = d
	case len(e.ranges) < maxFileTerms:
		e.ranges = slices.Insert(e.ranges, i, d)
	}
	c.putEntryLocked(x, e)
}

// undescribeLocked removes a file from the entry of a xorb.
func (c *Client) undescribeLocked(x, file codec.Hash) {
	e := c.entryLocked(x)
	e.ranges = slices.DeleteFunc(e.ranges, func(d fileTerm) bool { return d.file == file })
	c.putEntryLocked(x, e)
}

func (c *Client) putEntryLocked(x codec.Hash, e *entry) {
	c.index.Remove(x)
	c.index.Add(x, e, 128+int64(cap(e.ranges))*60)
}

func compareChunks(a, b codec.ChunkRange) int {
	return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
}

// storedRanges returns the ranges of a xorb in the disk cache.
func (c *Client) storedRanges(x codec.Hash) []fileTerm {
	b, ok := c.meta.Value(context.Background(), kindFiles, x[:])
	if !ok || len(b)%fileTermSize != 0 || len(b) > maxFileTerms*fileTermSize {
		return nil
	}
	all := make([]fileTerm, 0, len(b)/fileTermSize)
	for ; len(b) > 0; b = b[fileTermSize:] {
		all = append(all, fileTerm{
			chunks: codec.ChunkRange{Start: binary.LittleEndian.Uint32(b), End: binary.LittleEndian.Uint32(b[4:])},
			off:    int64(binary.LittleEndian.Uint64(b[8:])),
			size:   binary.LittleEndian.Uint32(b[16:]),
			file:   codec.Hash(b[20:]),
		})
	}
	slices.SortFunc(all, func(a, b fileTerm) int { return compareChunks(a.chunks, b.chunks) })
	return all
}

// storeRanges stores the ranges of a xorb in the disk cache.
//
//	offset  size  field
//	     0     …  for each range: 4 bytes, its first chunk; 4, the end of its chunks; 8, the
//	              offset of the term in the file; 4, its unpacked size; 32, the file
func (c *Client) storeRanges(x codec.Hash, ranges []fileTerm) {
	b := make([]byte, 0, fileTermSize*len(ranges))
	for _, d := range ranges {
		b = binary.LittleEndian.AppendUint32(b, d.chunks.Start)
		b = binary.LittleEndian.AppendUint32(b, d.chunks.End)
		b = binary.LittleEndian.AppendUint64(b, uint64(d.off))
		b = binary.LittleEndian.AppendUint32(b, d.size)
		b = append(b, d.file[:]...)
	}
	c.meta.PutValue(kindFiles, x[:], b)
}

// describer returns a file that has chunk i of xorb x, and the place of its term in the file.
func (c *Client) describer(x codec.Hash, i uint32) (d fileTerm, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entryLocked(x)
	at := countUpTo(e.ranges, i, func(d fileTerm) uint32 { return d.chunks.Start })
	for at > 0 {
		at--
		if e.ranges[at].chunks.End > i {
			return e.ranges[at], true
		}
	}
	return d, false
}

// isDescribed reports whether the index has term t of a file.
func (c *Client) isDescribed(file codec.Hash, t codec.Term) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entryLocked(t.Xorb)
	i, found := slices.BinarySearchFunc(e.ranges, t.Chunks, func(a fileTerm, r codec.ChunkRange) int { return compareChunks(a.chunks, r) })
	return found && e.ranges[i].size == t.Size && e.ranges[i].file == file
}

// entryLocked returns the entry of a xorb, from memory or the disk cache. It holds the lock during
// a read of the disk cache, which never waits for long (metacache.Backend).
func (c *Client) entryLocked(x codec.Hash) *entry {
	if e, ok := c.index.Get(x); ok {
		return e
	}
	return &entry{ranges: c.storedRanges(x)}
}

package cache

import (
	"context"
	"hash"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A chunk of a source without proofs is proven, seen or unknown. It is proven if the source has
// its hash (origin.Source.Proven). It is seen if Cache.seen has the hash that a copy from the
// origin had when it was unpacked. All other chunks are unknown.
//
// There is no flag for copies of chunks, in memory or on disk. Each copy is hashed before a reader
// gets it. It is valid if it has the proven hash, or the one in Cache.seen. A chunk that is dropped
// there is therefore dropped everywhere. A chunk goes to the disk after it was hashed.
//
// An unproven chunk on disk is unknown after a remount, and once Cache.seen has forgotten it. A server
// may have lied to an earlier process. Read and RunKnown then request the chunk again, and the new
// copy replaces it on disk. Run alone returns such chunks, and its callers compare the hash of the
// whole file. Their hashes are tentative in Cache.seen, which Leaves returns for proofs. The chunks
// stay unknown until Prove has the same hashes.

// seenShare is the part of the memory that Cache.seen gets, at least minSeen bytes.
const (
	seenShare = 8
	minSeen   = 1 << 20
)

// Proves reports whether the origin proves its files and chunks. See origin.Source.
func (c *Cache) Proves() bool { return c.seen == nil }

// Hold retains the plan of an open file until release is called. See origin.Source.
func (c *Cache) Hold(id codec.FileID) (release func()) { return c.src.Hold(id) }

// ContentHash returns the hash that proves a file without chunk hashes. See origin.Source.
func (c *Cache) ContentHash(id codec.FileID) (h hash.Hash, want []byte, err error) {
	return c.src.ContentHash(id)
}

// Prove stores hashes that the hash of a whole file has proven. A zero hash makes its chunk
// unknown. Copies with other hashes are dropped.
func (c *Cache) Prove(chunks []origin.ChunkHashes) {
	for _, p := range chunks {
		old := c.src.Proven(p.Xorb, p.Chunks())
		for i, leaf := range p.Leaves {
			chunk := p.Start + uint32(i)
			c.seen.Set(p.Xorb, chunk, leaf)
			if c.packed != nil && old != nil && old[i] != leaf && old[i].Hash != (codec.Hash{}) {
				c.packed.Forget(p.Xorb, codec.ChunkRange{Start: chunk, End: chunk + 1})
			}
		}
	}
	c.src.Prove(chunks)
}

// Leaves returns the hashes and sizes of chunks that are proven or seen, or that a Run has unpacked. All
// others are zero. The caller must compare the hash of the whole file.
func (c *Cache) Leaves(x codec.Hash, r codec.ChunkRange) []merkle.Leaf {
	return c.leaves(x, r, c.seen.GetTentative)
}

// leaves returns the hashes and sizes of chunks that are proven or that get returns.
func (c *Cache) leaves(x codec.Hash, r codec.ChunkRange, get func(codec.Hash, uint32) merkle.Leaf) []merkle.Leaf {
	leaves := make([]merkle.Leaf, r.Len())
	copy(leaves, c.src.Proven(x, r))
	for i := range leaves {
		if leaves[i].Hash == (codec.Hash{}) {
			leaves[i] = get(x, r.Start+uint32(i))
		}
	}
	return leaves
}

// Proven returns the hashes and sizes of chunks that are proven. See origin.Source.
func (c *Cache) Proven(x codec.Hash, r codec.ChunkRange) []merkle.Leaf { return c.src.Proven(x, r) }

// DropUnproven drops those of chunks r of xorb x that are not proven from memory and disk, and
// ends the use of their fetches. Readers with a copy keep it.
func (c *Cache) DropUnproven(x codec.Hash, r codec.ChunkRange) {
	proven := c.src.Proven(x, r)
	for at := r.Start; at < r.End; {
		end := at
		for end < r.End && (proven == nil || proven[end-r.Start].Hash == codec.Hash{}) {
			end++
		}
		if end > at {
			c.drop(x, codec.ChunkRange{Start: at, End: end})
		}
		at = end + 1
	}
}

func (c *Cache) drop(x codec.Hash, r codec.ChunkRange) {
	c.drops.Add(x, r) // first, see put
	c.fetches.drop(x, r)
	c.seen.Drop(x, r)
	if c.packed != nil {
		c.packed.Forget(x, r)
	}
}

// isValid reports whether a chunk from memory still has the hash in c.seen.
func (c *Cache) isValid(ch *chunk) bool {
	return c.seen == nil || c.seen.Get(ch.key.xorb, ch.key.index).Hash == ch.hash
}

// inMemoryChunk returns a valid chunk from memory, which the caller must release, or nil.
func (c *Cache) inMemoryChunk(key chunkKey) *chunk {
	ch := c.memory.get(key)
	if ch != nil && !c.isValid(ch) {
		ch.release()
		return nil
	}
	return ch
}

// joinUnpacking is unpackGroup.join without chunks that are not valid.
func (c *Cache) joinUnpacking(key chunkKey) (ch *chunk, cl *unpackCall, lead bool) {
	for {
		ch, cl, lead = c.unpacking.join(key)
		if ch == nil || c.isValid(ch) {
			return ch, cl, lead
		}
		c.unpacking.forget(ch)
		ch.release()
	}
}

// errDropped is the error of chunks that were dropped between their request and their put.
var errDropped = codec.Corrupt("chunks", 0, "other copies of them were found corrupt meanwhile")

// put calls store, which stores chunks of a run on disk, unless they were dropped since the given
// number of drops. It drops chunks that were dropped meanwhile.
func (c *Cache) put(drops int64, x codec.Hash, run *xorb.Run, store func() error) error {
	if c.seen == nil {
		err := store()
		if err == nil {
			c.noteStored(x, run)
		}
		return err
	}
	r := run.Chunks
	if c.drops.Since(drops, x, r) {
		return errDropped
	}
	err := store()
	if c.drops.Since(drops, x, r) {
		c.packed.Forget(x, r)
	}
	return err
}

// Refetch requests chunks from the origin, although some may be in memory or on disk, and compares
// them with no hash. The caller drops or proves them. They are stored once the Unpack of the
// Run has unpacked all of them, as with WaitForDisk.
func (c *Cache) Refetch(ctx context.Context, x codec.Hash, r codec.ChunkRange) (*Run, error) {
	run := &Run{replica: c.replicas.current(x), c: c, xorb: x, drops: c.drops.Count(), unchecked: true, waits: true}
	got, err := (&transfer{c: c, xorb: x}).request(origin.NoCache(ctx), r)
	if err != nil {
		return nil, &replicaError{run.replica, err}
	}
	bare := *got
	bare.Hashes = nil
	run.Run = &bare
	run.expectUnpack()
	return run, nil
}

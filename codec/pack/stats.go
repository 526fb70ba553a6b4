package pack

import (
	"sync/atomic"
	"time"
)

// Stats say what a Writer did so far.
type Stats struct {
	Files, Bytes, Chunks int64 // that are described in shards; more than once counts
	Read                 int64 // bytes, of files that were left out, too
	NewChunks, NewBytes  int64 // that were not stored before, and are now; unpacked
	OldBytes             int64 // that were stored before
	Packed               int64 // what the new chunks take, packed
	Again, AgainBytes    int64 // of the new chunks: stored before, but scattered
	Xorbs, Shards        int64

	// The time that each stage took, the sum of all cores. Read and cut is one stage.
	CutTime, SHATime, HashTime, DecideTime, PackTime, PlaceTime, StoreTime time.Duration
}

// counters are the Stats as they are counted.
type counters struct {
	files, bytes, chunks, read                    atomic.Int64
	newChunks, newBytes, oldBytes, packed         atomic.Int64
	again, againBytes, xorbs, shards              atomic.Int64
	cut, sha, hash, decide, pack, place, storeOne atomic.Int64
}

// Stats returns what was done so far.
func (w *Writer) Stats() Stats {
	s := &w.stats
	return Stats{
		Files: s.files.Load(), Bytes: s.bytes.Load(), Chunks: s.chunks.Load(),
		Read:      s.read.Load(),
		NewChunks: s.newChunks.Load(), NewBytes: s.newBytes.Load(),
		OldBytes: s.oldBytes.Load(),
		Packed:   s.packed.Load(),
		Again:    s.again.Load(), AgainBytes: s.againBytes.Load(),
		Xorbs: s.xorbs.Load(), Shards: s.shards.Load(),

		CutTime: time.Duration(s.cut.Load()), SHATime: time.Duration(s.sha.Load()),
		HashTime: time.Duration(s.hash.Load()), DecideTime: time.Duration(s.decide.Load()),
		PackTime: time.Duration(s.pack.Load()), PlaceTime: time.Duration(s.place.Load()),
		StoreTime: time.Duration(s.storeOne.Load()),
	}
}

// time adds the time from now until the returned function is called to a counter.
func (w *Writer) time(c *atomic.Int64) func() {
	if w.o.Clock == nil {
		return func() {}
	}
	start := w.o.Clock()
	return func() { c.Add(int64(w.o.Clock() - start)) }
}

package cache

import (
	"context"
	"errors"
	"fmt"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// errDropped is the error of a chunk that was kept on disk and does not unpack to its
// hash. It is forgotten there, and whoever asks again has it from the origin, which is
// not to blame.
var errDropped = fmt.Errorf("not the chunk that was kept on disk: %w", errAgain)

// maxDropped is how often a reader asks the disk again after errDropped. Then it goes
// past it.
const maxDropped = 3

// setKept notes which chunks of a reading are on disk. It looks at the index alone.
func (rd *reading) setKept() {
	if rd.c.packed == nil || rd.pastDisk {
		return
	}
	for i := range rd.want {
		rd.want[i].kept = true
	}
	for _, gap := range rd.c.packed.Missing(rd.xorb, rd.r) {
		for i := gap.Start; i < gap.End; i++ {
			rd.want[i-rd.r.Start].kept = false
		}
	}
}

// keptFetch reads the chunks of a fetch from disk, if all of them are there and fit to
// their xorb.
func (c *Cache) keptFetch(ctx context.Context, there *fetch) (*xorb.Run, bool) {
	if c.packed == nil || there.pastDisk || len(c.packed.Missing(there.xorb, there.chunks)) > 0 {
		return nil, false
	}
	run, ok := c.packed.RunIn(there.xorb, there.chunks, there.lend)
	if !ok {
		there.buf = nil // the disk may be writing to it still
		return nil, false
	}
	if run.Chunks == there.chunks {
		run, ok = c.adopt(ctx, there.xorb, run)
	}
	if !ok || run.Chunks != there.chunks {
		there.buf.free()
		there.buf = nil
		return nil, false
	}
	there.disk = true
	c.stats.diskHits.Add(int64(there.chunks.Len()))
	return run, true
}

// adopt makes a run from disk one that knows its hashes. What cannot be of its xorb is
// forgotten on disk.
func (c *Cache) adopt(ctx context.Context, x codec.Hash, run *xorb.Run) (*xorb.Run, bool) {
	adopted, err := c.adopter.Adopt(ctx, x, run)
	if errors.Is(err, codec.ErrCorrupt) {
		c.packed.Drop(x, run.Chunks)
	}
	if err != nil {
		return nil, false // the origin says why
	}
	return adopted, true
}

// dropped forgets chunks that came from disk and returns what is to be said of it. That
// is no codec.ErrCorrupt, which would be the origin's.
func (c *Cache) dropped(x codec.Hash, err error, kept ...codec.ChunkRange) error {
	for _, r := range kept {
		c.packed.Drop(x, r)
	}
	return fmt.Errorf("xorb %s: %w: %s", x, errDropped, err.Error())
}

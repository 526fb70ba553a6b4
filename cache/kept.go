package cache

import (
	"context"
	"errors"
	"fmt"

	"github.com/xetfs/xetfs/cache/disk"
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

// keepsPacked says whether what comes from the origin is kept on disk.
func (c *Cache) keepsPacked() bool { return c.packed != nil && c.packed.WriteErr() == nil }

// keptFetch reads the chunks of a fetch from disk, if all of them are there and fit to
// their xorb: from memory, or else however long that takes.
func (c *Cache) keptFetch(ctx context.Context, there *fetch, now bool) (*xorb.Run, bool) {
	if c.packed == nil || there.pastDisk {
		return nil, false
	}
	run, ok := c.packed.RunIn(there.xorb, there.chunks, disk.RunOptions{
		Buffer:    there.lend,
		All:       true,
		NoWait:    now,
		Unchecked: true,
	})
	if !ok {
		if now {
			there.buf.free()
		}
		there.buf = nil // the disk may be writing to it still
		return nil, false
	}
	adopted, ok := c.adopt(ctx, there.xorb, run)
	if ok && (c.noVerify || adopted.Hashes == nil) {
		ok = c.packed.Check(there.xorb, run) // nobody else does
	}
	if !ok {
		there.buf.free()
		there.buf = nil
		return nil, false
	}
	there.disk = true
	c.stats.diskHits.Add(int64(there.chunks.Len()))
	return c.trusted(adopted), true
}

// adopt makes a run from disk one that knows its hashes. What cannot be of its xorb is
// forgotten on disk.
func (c *Cache) adopt(ctx context.Context, x codec.Hash, run *xorb.Run) (*xorb.Run, bool) {
	adopted, err := c.src.Annotate(ctx, x, run)
	if errors.Is(err, codec.ErrCorrupt) {
		c.forgetKept(x, run)
	}
	if err != nil {
		return nil, false // the origin says why
	}
	return adopted, true
}

// forgetKept forgets of the chunks of a run that came from disk those that are not what
// was written, and all of them if they are: then they were wrong before.
func (c *Cache) forgetKept(x codec.Hash, run *xorb.Run) {
	c.packed.Check(x, run)
	if len(c.packed.Missing(x, run.Chunks)) == 0 {
		c.packed.Drop(x, run.Chunks)
	}
}

// errDroppedOf returns what is to be said of chunks that were forgotten. That is no
// codec.ErrCorrupt, which would be the origin's.
func errDroppedOf(x codec.Hash, err error) error {
	return fmt.Errorf("xorb %s: %w: %s", x, errDropped, err.Error())
}

package cache

import (
	"context"
	"errors"
	"fmt"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// errDiskCorrupt is the error of a chunk that was kept on disk and does not unpack to its
// hash. It is forgotten there, and whoever asks again has it from the origin, which is
// not to blame.
var errDiskCorrupt = fmt.Errorf("not the chunk that was kept on disk: %w", errRetry)

// maxDiskTries is how often a reader asks the disk again after errDiskCorrupt. Then it goes
// past it.
const maxDiskTries = 3

// storesPacked says whether what comes from the origin is kept on disk.
func (c *Cache) storesPacked() bool { return c.packed != nil && c.packed.WriteErr() == nil }

// readDisk reads the chunks of a fetch from disk, if all of them are there and fit to
// their xorb: from memory, or else however long that takes.
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
		f.buf = nil // the disk may be writing to it still
		return nil, false
	}
	adopted, ok := c.annotate(ctx, f.xorb, run)
	if ok && (c.noVerify || adopted.Hashes == nil) {
		ok = c.packed.Check(f.xorb, run) // nobody else does
	}
	if !ok {
		f.buf.free()
		f.buf = nil
		return nil, false
	}
	f.fromDisk = true
	c.stats.diskHits.Add(int64(f.chunks.Len()))
	return c.verifiable(adopted), true
}

// annotate makes a run from disk one that knows its hashes. What cannot be of its xorb is
// forgotten on disk.
func (c *Cache) annotate(ctx context.Context, x codec.Hash, run *xorb.Run) (*xorb.Run, bool) {
	adopted, err := c.src.Annotate(ctx, x, run)
	if errors.Is(err, codec.ErrCorrupt) {
		c.dropFromDisk(x, run)
	}
	if err != nil {
		return nil, false // the origin says why
	}
	return adopted, true
}

// dropFromDisk forgets of the chunks of a run that came from disk those that are not what
// was written, and all of them if they are: then they were wrong before.
func (c *Cache) dropFromDisk(x codec.Hash, run *xorb.Run) {
	c.packed.Check(x, run)
	if len(c.packed.Missing(x, run.Chunks)) == 0 {
		c.packed.Drop(x, run.Chunks)
	}
}

// diskCorrupt returns what is to be said of chunks that were forgotten. That is no
// codec.ErrCorrupt, which would be the origin's.
func diskCorrupt(x codec.Hash, err error) error {
	return fmt.Errorf("xorb %s: %w: %s", x, errDiskCorrupt, err.Error())
}

package cache

import (
	"context"
	"errors"
	"fmt"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/codec"
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
	if ok && (c.noVerify || adopted.Hashes == nil) {
		ok = c.packed.Check(f.xorb, run) // no reader does
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

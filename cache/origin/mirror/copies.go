package mirror

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
)

// parallelFetches is the number of shards that are fetched at once.
const parallelFetches = 16

// Copies are the Mirror of a remote store. They are files with the bytes of its shards.
type Copies struct{ mirrorBase }

// New returns the Mirror of a remote store. It calls note once for a disk that stores no copies,
// and once for each Fetch that leaves shards out.
func New(s origin.Store, f *Folder, note func(string)) *Copies {
	return &Copies{newMirrorBase(s, f, "no copies of shards are stored, so deduplication reads the store", note)}
}

// Local implements origin.CostReporter. A shard may have no copy.
func (c *Copies) Local() bool { return false }

// LoadState implements Mirror. It returns false: the folders of a remote store have no state.
func (c *Copies) LoadState(string, any) bool { return false }

// SaveState implements Mirror. It does nothing.
func (c *Copies) SaveState(string, any) {}

func shardName(h codec.Hash) string { return shardDir + "/" + h.String() }

// Fetch implements Mirror. It downloads the shards of a listing that have no copy yet. It returns
// the shards that fit into half of the folder, newest first. The other half is for files derived
// from them. A shard that is absent or damaged in the store is an error of its ReadAt.
func (c *Copies) Fetch(ctx context.Context, shards []origin.Item) ([]origin.Item, error) {
	fit := c.choose(shards)
	present := map[string]int64{}
	for _, file := range c.folder.List(shardDir) {
		present[file.Name] = file.Size
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelFetches)
	for _, item := range fit {
		p, err := names.ParseKey(item.Key)
		if err != nil {
			continue // not one of ours
		}
		name := shardName(p.Hash)
		c.use(name)
		if size, ok := present[name]; !ok || size != item.Size {
			g.Go(func() (err error) {
				defer flight.Guard(&err)
				if err = c.fetchOnce(ctx, p.Hash); concernsShard(err) {
					return nil
				}
				return err
			})
		}
	}
	return fit, g.Wait()
}

// choose returns the newest shards that fit into the folder, and notes the others.
func (c *Copies) choose(shards []origin.Item) (fit []origin.Item) {
	fit = slices.Clone(shards)
	slices.SortStableFunc(fit, func(a, b origin.Item) int { return b.Modified.Compare(a.Modified) })
	var bytes, leftOut int64
	chosen := fit[:0]
	for _, item := range fit {
		if bytes+item.Size > c.folder.max/2 {
			leftOut += item.Size
			continue
		}
		bytes += item.Size
		chosen = append(chosen, item)
	}
	if n := len(shards) - len(chosen); n > 0 {
		c.note(fmt.Sprintf("%d of %d shards, with %d bytes, are not used for deduplication: their copies have at most %d bytes", n, len(shards), leftOut, c.folder.max/2))
	}
	return chosen
}

// concernsShard reports whether an error concerns one shard alone.
func concernsShard(err error) bool {
	return errors.Is(err, codec.ErrCorrupt) || errors.Is(err, origin.ErrNotFound)
}

// fetchOnce fetches a shard, and remembers that it is damaged. Damaged bytes are fetched again
// without caches, because a cache or the network may have damaged them. An absent shard is not
// remembered, because another process may store it.
func (c *Copies) fetchOnce(ctx context.Context, h codec.Hash) error {
	err := c.fetch(ctx, h)
	if errors.Is(err, codec.ErrCorrupt) {
		err = c.fetch(origin.NoCache(ctx), h)
	}
	if errors.Is(err, codec.ErrCorrupt) {
		c.setBad(h, err)
	}
	return err
}

// fetch stores a copy of a shard. An error of the disk is noted and is no error.
func (c *Copies) fetch(ctx context.Context, h codec.Hash) error {
	if c.isBroken() {
		return nil
	}
	var remote error
	err := c.folder.Create(shardName(h), func(w io.Writer) error {
		err := c.download(ctx, h, w)
		if local := (*diskError)(nil); !errors.As(err, &local) {
			remote = err
		}
		return err
	})
	switch {
	case remote != nil:
		return remote
	case err != nil:
		c.NoteBroken(err)
		return nil
	}
	c.setChecked(h)
	return nil
}

// A diskError is an error of the file that a shard is written to.
type diskError struct{ error }

// download writes a shard and compares its hash with its name.
func (c *Copies) download(ctx context.Context, h codec.Hash, w io.Writer) error {
	sum := merkle.NewChunkHash()
	key := names.ShardKey(h)
	err := origin.ReadWhole(ctx, c.Store, key, 0, func(b []byte, size int64) error {
		if size > c.folder.max {
			return codec.Corrupt("shard", c.folder.max, "it has %d bytes", size)
		}
		_, _ = sum.Write(b)
		if _, err := w.Write(b); err != nil {
			return &diskError{err}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if got := sum.Sum(); got != h {
		return fmt.Errorf("%s: %w", key, codec.Corrupt("shard", 0, "its hash is %s", got))
	}
	return nil
}

// Put implements Mirror. It adds a copy.
func (c *Copies) Put(k names.Key, value []byte) {
	p, err := names.ParseKey(k)
	if err != nil || p.Kind != names.ShardKind || merkle.Chunk(value) != p.Hash || c.isBroken() {
		return
	}
	err = c.folder.Create(shardName(p.Hash), func(w io.Writer) error {
		_, err := w.Write(value)
		return err
	})
	if err != nil {
		c.NoteBroken(err)
		return
	}
	c.setChecked(p.Hash)
}

// ReadAt implements origin.Store. It reads a shard from its copy.
func (c *Copies) ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error {
	file, err := c.open(ctx, k)
	if err != nil {
		return err
	}
	if file != nil {
		defer file.Close()
		if _, err := file.ReadAt(p, off); err == nil {
			return nil
		}
	}
	return c.Store.ReadAt(ctx, k, p, off)
}

// Size implements origin.Store. The size of a shard is that of its copy.
func (c *Copies) Size(ctx context.Context, k names.Key) (int64, error) {
	file, err := c.open(ctx, k)
	if err != nil {
		return 0, err
	}
	if file == nil {
		return c.Store.Size(ctx, k)
	}
	return file.Size, file.Close()
}

// open opens the checked copy of a shard. It returns nil for other objects, and for a shard that
// the disk does not store.
func (c *Copies) open(ctx context.Context, k names.Key) (*File, error) {
	p, err := names.ParseKey(k)
	if err != nil || p.Kind != names.ShardKind {
		return nil, nil //nolint:nilerr,nilnil // the store has it
	}
	if file := c.openCopy(p.Hash); file != nil {
		return file, nil
	}
	if _, err := c.check(p.Hash); err != nil {
		return nil, err
	}
	if err := c.fetchOnce(ctx, p.Hash); err != nil {
		return nil, err
	}
	return c.openCopy(p.Hash), nil
}

// openCopy opens the copy of a shard, and removes a damaged copy. It returns nil without a copy.
func (c *Copies) openCopy(h codec.Hash) *File {
	file, err := c.folder.Open(shardName(h))
	if err != nil {
		if !isMissing(err) {
			c.NoteBroken(err)
		}
		return nil
	}
	if known, err := c.check(h); known && err == nil {
		return file
	}
	if got, err := merkle.ReadChunk(file, file.Size); err != nil || got != h {
		file.Close()
		c.folder.Remove(shardName(h))
		return nil
	}
	c.setChecked(h)
	return file
}

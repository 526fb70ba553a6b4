package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// An EntryError reports an entry that differs from the File Info block in its shard. The shard
// itself is sound.
type EntryError struct {
	File codec.Hash // of the entry
	Err  error
}

func (e *EntryError) Error() string { return e.Err.Error() }

func (e *EntryError) Unwrap() error { return e.Err }

// file compares an entry with the block of its shard. A defect of the shard itself was reported
// before.
func (c *checker) file(ctx context.Context, at place, e *page.Entry) {
	good, table := c.shard(ctx, at, e.ID.Shard)
	if !good {
		return
	}
	head, err := c.head(ctx, e.ID, table)
	if err == nil {
		err = compareEntry(e, head)
	}
	if err != nil {
		c.found(names.ShardKey(e.ID.Shard), at, &EntryError{e.ID.File, err})
	}
}

// head returns the file in the block of an ID, from the table of the shard or else from the shard.
func (c *checker) head(ctx context.Context, id codec.FileID, table []shard.FileHead) (shard.FileHead, error) {
	if table != nil {
		i, ok := slices.BinarySearchFunc(table, id.Block, func(h shard.FileHead, block int64) int { return cmp.Compare(h.Block, block) })
		if !ok {
			return shard.FileHead{}, codec.Corrupt("shard", id.Block, "no file begins here")
		}
		return table[i], nil
	}
	f, err := shard.ReadFileInfo(origin.ReaderAt(ctx, c.store, names.ShardKey(id.Shard)), id.Block)
	if err != nil {
		return shard.FileHead{}, err
	}
	return shard.FileHead{File: f.File, Block: f.Block, Size: f.Size(), SHA256: f.SHA256}, nil
}

// compareEntry compares an entry with the file in its block.
func compareEntry(e *page.Entry, head shard.FileHead) error {
	switch {
	case head.File != e.ID.File:
		return codec.Corrupt("file info block", head.Block, "it is of file %s, the entry says %s", head.File, e.ID.File)
	case head.Size != e.Size:
		return codec.Corrupt("file info block", head.Block, "the terms have %d bytes, the entry says %d", head.Size, e.Size)
	case e.SHA256 != nil && head.SHA256 != [32]byte{} && head.SHA256 != *e.SHA256:
		return codec.Corrupt("file info block", head.Block, "its SHA-256 is %x, the entry says %x", head.SHA256, *e.SHA256)
	}
	return nil
}

// shard checks a shard when it is first needed. It reports whether the shard is good, and
// returns its files by offset if they are still in memory.
func (c *checker) shard(ctx context.Context, at place, h codec.Hash) (good bool, files []shard.FileHead) {
	known := func() (good, known bool, files []shard.FileHead) {
		c.mu.Lock()
		defer c.mu.Unlock()
		good, known = c.shards[h]
		return good, known, c.tables.get(h)
	}
	if good, known, files := known(); known {
		return good, files
	}
	c.loading <- struct{}{}
	defer func() { <-c.loading }()
	if good, known, files := known(); known {
		return good, files
	}
	c.add(&c.report.Shards)
	files, err := c.readShard(ctx, at, h)
	if err != nil {
		c.found(names.ShardKey(h), at, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shards[h] = err == nil
	if err == nil {
		c.tables.put(h, files)
	}
	return err == nil, files
}

// readShard checks everything in a shard: its name, structure and tables. It compares the terms
// with the chunk lists of their xorbs, if these are in the shard, and checks that each xorb
// exists.
func (c *checker) readShard(ctx context.Context, at place, h codec.Hash) ([]shard.FileHead, error) {
	s, err := origin.ReadShard(ctx, c.store, h)
	if err != nil {
		return nil, err
	}
	listed := map[codec.Hash]*shard.XorbInfo{}
	for x, err := range s.Xorbs() {
		if err != nil {
			return nil, err
		}
		listed[x.Xorb] = x
	}
	var files []shard.FileHead
	for f, err := range s.Files() {
		if err != nil {
			return nil, err
		}
		for i, t := range f.Terms {
			if x := listed[t.Xorb]; x != nil {
				if err := x.CheckTerm(t); err != nil {
					return nil, fmt.Errorf("file %s: term %d: %w", f.File, i, err)
				}
			}
			if i == 0 || t.Xorb != f.Terms[i-1].Xorb {
				c.xorb(ctx, at, t.Xorb)
			}
		}
		files = append(files, shard.FileHead{File: f.File, Block: f.Block, Size: f.Size(), SHA256: f.SHA256})
	}
	return files, s.CheckTables()
}

// xorb checks a xorb when it is first needed.
func (c *checker) xorb(ctx context.Context, at place, x codec.Hash) {
	c.mu.Lock()
	_, known := c.xorbs[x]
	c.xorbs[x] = struct{}{}
	c.mu.Unlock()
	if known {
		return
	}
	c.add(&c.report.Xorbs)
	k := names.XorbKey(x)
	size, ok := c.there[x]
	if !ok {
		var err error
		if size, err = c.store.Size(ctx, k); err != nil { // not for a later version
			c.found(k, at, err)
			return
		}
	}
	if c.o.Data {
		c.besides(&c.busy, func() {
			if err := c.checkXorb(ctx, k, x, size); err != nil {
				c.found(k, at, err)
			}
		})
	}
}

// checkXorb unpacks a whole xorb. It returns the first thing that is wrong.
func (c *checker) checkXorb(ctx context.Context, k names.Key, x codec.Hash, size int64) error {
	var first error
	in, err := xorb.Check(origin.ReaderAt(ctx, c.store, k), size, func(fault error) {
		if first == nil {
			first = fault
		}
	})
	switch {
	case err != nil:
		return err
	case first != nil:
		return first
	case in.Root() != x:
		return codec.Corrupt("xorb", 0, "its chunks give the hash %s", in.Root())
	}
	return nil
}

// tables are the files of some shards, by where their blocks begin. Files of one shard
// mostly lie together in a tree, too.
type tables struct {
	files map[codec.Hash][]shard.FileHead
	order []codec.Hash // oldest first
	kept  int
}

// tablesFiles is how many files of shards are kept, with some 100 bytes each.
const tablesFiles = 1 << 20

func (t *tables) get(h codec.Hash) []shard.FileHead { return t.files[h] }

func (t *tables) put(h codec.Hash, files []shard.FileHead) {
	if t.files == nil {
		t.files = map[codec.Hash][]shard.FileHead{}
	}
	for len(t.order) > 0 && t.kept+len(files) > tablesFiles {
		oldest := t.order[0]
		t.order = t.order[1:]
		t.kept -= len(t.files[oldest])
		delete(t.files, oldest)
	}
	t.files[h] = files
	t.order = append(t.order, h)
	t.kept += len(files)
}

// isContextError reports whether err is the end of a context.
func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

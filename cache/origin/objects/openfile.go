package objects

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/metacache"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
)

// termRecord is the length of a term in a shard.
const termRecord = 48

// OpenFile implements Source. It uses only the block that id names for a file of many
// terms, because a search for others would read their blocks whole.
func (o *objects) OpenFile(ctx context.Context, id codec.FileID) (*shard.FileInfo, *origin.LargeFile, error) {
	if fi, ok := o.tryFileInfo(ctx, id); ok {
		return fi, nil, nil
	}
	if !o.local {
		if x, ok := o.meta.Index(ctx, id); ok {
			return nil, o.large(x), nil
		}
		if fi, ok := o.cachedFileInfo(ctx, id); ok {
			return fi, nil, nil
		}
	}
	many, err := o.hasManyTerms(ctx, id)
	if err != nil {
		return nil, nil, fmt.Errorf("file %s: shard %s: %w", id.File, id.Shard, err)
	}
	if many {
		large, err := o.findingLarge.Do(ctx, wantedFile{id, origin.IsNoCache(ctx)}, func(ctx context.Context) (*origin.LargeFile, error) {
			return o.openLarge(ctx, id)
		})
		return nil, large, err
	}
	fi, err := o.FileInfo(ctx, id)
	return fi, nil, err
}

// hasManyTerms reports whether the block that id names has more than MaxTerms terms. False may
// be wrong. It reads no block of a short shard. FileInfo would return the same error after the
// same time.
func (o *objects) hasManyTerms(ctx context.Context, id codec.FileID) (many bool, err error) {
	if id.Block == 0 || id.Shard.IsZero() {
		return false, nil
	}
	f, err := o.openShard(ctx, id.Shard)
	switch {
	case err != nil && (isContextError(err) || !o.local && errors.Is(err, origin.ErrUnavailable)):
		return false, err
	case err != nil || f.size <= id.Block+termRecord*origin.MaxTerms:
		return false, nil
	}
	n, err := shard.TermCount(io.NewSectionReader(f.at(ctx), 0, f.size), id.Block)
	return err == nil && n > origin.MaxTerms, nil
}

// openLarge proves a file of many terms and returns a reader of its terms.
func (o *objects) openLarge(ctx context.Context, id codec.FileID) (*origin.LargeFile, error) {
	select {
	case o.indexing <- struct{}{}:
		defer func() { <-o.indexing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if o.proves(id) {
		if _, err := o.hashedShard(ctx, id.Shard); err != nil {
			return nil, fmt.Errorf("file %s: shard %s: %w", id.File, id.Shard, err)
		}
	}
	var x *metacache.FileIndex
	err := o.fromShard(ctx, id.Shard, func(f *shardFile) (err error) {
		x, err = o.proveLarge(ctx, f, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("file %s: %w", id.File, err)
	}
	o.meta.PutIndex(id, x)
	return o.large(x), nil
}

// proveLarge is prove for a block that is read in groups, once from start to end. It stores a
// hash of each group. Later reads of a group are compared with the hash.
func (o *objects) proveLarge(ctx context.Context, f *shardFile, id codec.FileID) (*metacache.FileIndex, error) {
	var check *fileCheck // nil: the shard proves the file
	if !(o.proves(id) && f.hash == id.Shard && f.proven) {
		check = &fileCheck{get: func(x codec.Hash) (chunkList, error) { return o.chunkList(ctx, f, x) }}
	}
	x := &metacache.FileIndex{Shard: f.hash, Size: f.size, Keyed: f.Meta().Keyed}
	var chunks int64
	var buf []byte
	terms, hashes := o.inPieces(ctx, f), o.inPieces(ctx, f)
	index, err := shard.IndexFile(terms, hashes, id.Block, func(terms []codec.Term, verify []codec.Hash) error {
		if chunks += chunksOf(terms); chunks > maxLeaves {
			return codec.Corrupt("file info block", id.Block, "its terms name more than %d chunks", int64(maxLeaves))
		}
		if !x.Keyed {
			o.remember(f.hash, terms)
		}
		buf = metacache.AppendTerms(buf[:0], terms)
		sum := merkle.Chunk(buf)
		if x.Sums = append(x.Sums, sum); len(x.Sums)*shard.TermGroup <= metacache.MaxTerms {
			o.meta.PutTerms(sum, buf)
		}
		if check == nil {
			return ctx.Err()
		}
		return check.add(ctx, id.Block, terms, verify)
	})
	switch {
	case err != nil:
		return nil, err
	case index.File != id.File:
		return nil, codec.Corrupt("file info block", id.Block, "describes file %s", index.File)
	}
	if check != nil {
		if err := check.end(id.File, id.Block); err != nil {
			return nil, unproven(id.Block, err)
		}
	}
	x.FileIndex = index
	return x, nil
}

// inPieces returns a reader of a shard for sequential reads from any offset. It reads a remote
// shard in large pieces.
func (o *objects) inPieces(ctx context.Context, f *shardFile) io.ReaderAt {
	var r io.ReaderAt = f.at(ctx)
	if !o.local && !f.part.Load().Holds(0, int(f.size)) {
		r = &origin.ReadAhead{Below: r, Size: f.size}
	}
	return io.NewSectionReader(r, 0, f.size)
}

// large returns the LargeFile of a proven file.
func (o *objects) large(x *metacache.FileIndex) *origin.LargeFile {
	return &origin.LargeFile{Index: x.FileIndex, Group: func(ctx context.Context, i int) ([]codec.Term, error) {
		if terms, ok := o.meta.Terms(ctx, x.Sums[i]); ok {
			if !x.Keyed {
				o.remember(x.Shard, terms)
			}
			return terms, nil
		}
		return o.readTerms(ctx, x, i)
	}}
}

// readTerms reads a group of terms again and compares it with its hash. A damaged copy of the
// shard is skipped if another copy exists.
func (o *objects) readTerms(ctx context.Context, x *metacache.FileIndex, i int) ([]codec.Term, error) {
	k := names.ShardKey(x.Shard)
	for try := 0; ; try++ {
		r := origin.ReaderAt(ctx, o.store, k)
		if f := o.shards.find(x.Shard); try == 0 && f != nil {
			r = f.inMemory(r)
		}
		terms, err := x.Group(io.NewSectionReader(r, 0, x.Size), i)
		if err == nil {
			b := metacache.AppendTerms(nil, terms)
			if merkle.Chunk(b) == x.Sums[i] {
				o.meta.PutTerms(x.Sums[i], b)
				return terms, nil
			}
			err = codec.Corrupt("file info block", x.Block, "its terms from term %d on have changed since they were read first", i*shard.TermGroup)
		}
		if isContextError(err) || errors.Is(err, origin.ErrUnavailable) || try >= o.retries(k, err) {
			return nil, fmt.Errorf("%q: %w", k, err)
		}
		ctx = origin.NoCache(ctx)
	}
}

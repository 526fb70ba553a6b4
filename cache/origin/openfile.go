package origin

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
)

// termRecord is the length of a term in a shard.
const termRecord = 48

// OpenFile implements Opening. Of a file of many terms, only the block that id names is
// used: the search for others reads their blocks whole.
func (o *objects) OpenFile(ctx context.Context, id codec.FileID) (*shard.FileInfo, *LargeFile, error) {
	if fi, ok := o.fileInfoNow(ctx, id); ok {
		return fi, nil, nil
	}
	if !o.near {
		if fi, ok := o.keptFileInfo(ctx, id); ok {
			return fi, nil, nil
		}
	}
	if o.hasManyTerms(ctx, id) {
		large, err := o.findingLarge.do(ctx, wantedFile{id, IsFresh(ctx)}, func(ctx context.Context) (*LargeFile, error) {
			return o.openLarge(ctx, id)
		})
		return nil, large, err
	}
	fi, err := o.FileInfo(ctx, id)
	return fi, nil, err
}

// hasManyTerms reports whether the block that id names has more than MaxTerms terms. False
// may be wrong. Of a short shard nothing is read.
func (o *objects) hasManyTerms(ctx context.Context, id codec.FileID) bool {
	if id.Block == 0 || id.Shard.IsZero() {
		return false
	}
	f, err := o.openShard(ctx, id.Shard)
	if err != nil || f.size <= id.Block+termRecord*MaxTerms {
		return false
	}
	n, err := shard.TermCount(io.NewSectionReader(f.at(ctx), 0, f.size), id.Block)
	return err == nil && n > MaxTerms
}

// openLarge proves a file of many terms and returns how to read them.
func (o *objects) openLarge(ctx context.Context, id codec.FileID) (large *LargeFile, err error) {
	if o.named {
		if _, err := o.hashedShard(ctx, id.Shard); err != nil {
			return nil, err
		}
	}
	err = o.fromShard(ctx, id.Shard, func(f *shardFile) error {
		large, err = o.proveLarge(ctx, f, id)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("file %s: %w", id.File, err)
	}
	return large, nil
}

// proveLarge is prove for a block that is read in groups, once from beginning to end. It
// remembers a hash of each group, so that the terms that are read later are those that were
// proven.
func (o *objects) proveLarge(ctx context.Context, f *shardFile, id codec.FileID) (*LargeFile, error) {
	var check *fileCheck // nil: the shard proves the file
	if !(o.named && f.hash == id.Shard && f.proven) {
		check = &fileCheck{get: func(x codec.Hash) (chunkList, error) { return o.chunkList(ctx, f, x) }}
	}
	var (
		sums   []codec.Hash
		chunks int64
		buf    []byte
	)
	x, err := shard.IndexFile(io.NewSectionReader(f.at(ctx), 0, f.size), id.Block, func(terms []codec.Term, verify []codec.Hash) error {
		if chunks += chunksOf(terms); chunks > maxLeaves {
			return codec.Corrupt("file info block", id.Block, "its terms name more than %d chunks", int64(maxLeaves))
		}
		if !f.Meta().Keyed {
			o.remember(f.hash, terms)
		}
		buf = appendTerms(buf[:0], terms)
		sums = append(sums, merkle.Chunk(buf))
		if check == nil {
			return ctx.Err()
		}
		return check.add(ctx, id.Block, terms, verify)
	})
	switch {
	case err != nil:
		return nil, err
	case x.File != id.File:
		return nil, codec.Corrupt("file info block", id.Block, "describes file %s", x.File)
	}
	if check != nil {
		if err := check.end(x.File, id.Block); err != nil {
			return nil, unproven(id.Block, err)
		}
	}
	return &LargeFile{Index: x, Group: func(ctx context.Context, i int) ([]codec.Term, error) {
		return o.readTerms(ctx, f.key, f.size, x, i, sums[i])
	}}, nil
}

// readTerms reads a group of terms again and compares it with its hash. A damaged copy of
// the shard is passed over if there is another.
func (o *objects) readTerms(ctx context.Context, k names.Key, size int64, x *shard.FileIndex, i int, sum codec.Hash) ([]codec.Term, error) {
	for try := 0; ; try++ {
		terms, err := x.Group(io.NewSectionReader(ReaderAt(ctx, o.store, k), 0, size), i)
		if err == nil && merkle.Chunk(appendTerms(nil, terms)) != sum {
			err = codec.Corrupt("file info block", x.Block, "its terms from term %d on have changed since they were read first", i*shard.TermGroup)
		}
		if err == nil {
			return terms, nil
		}
		if passing(err) || errors.Is(err, ErrUnavailable) || try >= o.others(k, err) {
			return nil, fmt.Errorf("%q: %w", k, err)
		}
		ctx = Fresh(ctx)
	}
}

// appendTerms appends the bytes of terms that are hashed.
func appendTerms(b []byte, terms []codec.Term) []byte {
	for i := range terms {
		t := &terms[i]
		b = append(b, t.Xorb[:]...)
		b = binary.LittleEndian.AppendUint32(b, t.Size)
		b = binary.LittleEndian.AppendUint32(b, t.Chunks.Start)
		b = binary.LittleEndian.AppendUint32(b, t.Chunks.End)
	}
	return b
}

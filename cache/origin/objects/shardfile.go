package objects

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/metacache"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
)

const (
	// shardBlock is the part of a shard that is compared with one hash.
	shardBlock = metacache.ShardBlock

	// longShard is the minimum size of a shard that does not stay in memory.
	longShard = 8<<20 + 1
)

// A shardFile is an open shard. A hashed shard was read whole once. Each later read is compared
// with the hashes of its blocks.
type shardFile struct {
	*shard.Reader // over file
	hash          codec.Hash
	key           names.Key
	store         origin.Store
	size          int64
	noCache       bool
	opened        time.Time

	sums   []codec.Hash                // of the blocks; nil: the shard was not read whole
	proven bool                        // all its bytes have the hash that is its name
	part   atomic.Pointer[origin.Part] // compared bytes in memory; nil: none
	ends   *metacache.ShardEnds        // from an earlier read; nil: unknown
}

// at returns a reader of the shard for the time of one call.
func (f *shardFile) at(ctx context.Context) *shardReader {
	if f.noCache {
		ctx = origin.NoCache(ctx)
	}
	return &shardReader{f, origin.ReaderAt(ctx, f.store, f.key)}
}

// detached returns a reader of the shard without the context of a caller.
func (f *shardFile) detached() io.ReaderAt {
	if origin.Local(f.store) {
		return origin.ReaderAt(context.Background(), f.store, f.key)
	}
	return detachedReader{f.store, f.key, f.noCache}
}

// A shardReader reads a shard through one reader of its bytes.
type shardReader struct {
	f     *shardFile
	below io.ReaderAt
}

// ReadAt implements io.ReaderAt.
func (r *shardReader) ReadAt(p []byte, off int64) (int, error) {
	f := r.f
	if part := f.part.Load(); part.Holds(off, len(p)) {
		return copy(p, part.Bytes[off-part.Off:]), nil
	}
	if f.ends.Read(p, off, f.size) {
		return len(p), nil
	}
	if f.sums == nil || off < 0 || off+int64(len(p)) > f.size {
		return r.below.ReadAt(p, off) // it refuses a read behind the end
	}
	start, end := f.blocks(off, len(p))
	b := p
	if int64(len(p)) != end-start {
		b = make([]byte, end-start)
	}
	if _, err := r.below.ReadAt(b, start); err != nil {
		return 0, err
	}
	if err := f.compare(b, start); err != nil {
		return 0, err
	}
	if len(b) == len(p) {
		return len(p), nil
	}
	return copy(p, b[off-start:]), nil
}

// blocks returns where the blocks begin and end that hold n bytes from off on.
func (f *shardFile) blocks(off int64, n int) (start, end int64) {
	start = off / shardBlock * shardBlock
	end = (off + int64(n) + shardBlock - 1) / shardBlock * shardBlock
	return start, min(end, f.size)
}

// compare compares whole blocks, the first of which begins at off, with their hashes.
func (f *shardFile) compare(b []byte, off int64) error {
	for i := off / shardBlock; len(b) > 0; i++ {
		n := min(shardBlock, len(b))
		if merkle.Chunk(b[:n]) != f.sums[i] {
			return codec.Corrupt("shard", i*shardBlock, "its bytes have changed since they were read first")
		}
		b = b[n:]
	}
	return nil
}

// inMemory returns a reader of the bytes in memory, and through r of all others.
func (f *shardFile) inMemory(r io.ReaderAt) io.ReaderAt {
	return newPieceReader(r, f.part.Load())
}

// block returns up to n bytes of the File Info block at off. Most blocks are shorter.
func (f *shardFile) block(ctx context.Context, off int64, n int64) (origin.Part, error) {
	start, _ := f.blocks(off, 0)
	if part := f.part.Load(); part.Holds(off, 1) {
		return *part, nil
	}
	part := origin.Part{Off: start, Size: f.size}
	if start < 0 || start >= f.size {
		return part, nil
	}
	_, end := f.blocks(off, int(n))
	part.Bytes = make([]byte, end-start)
	_, err := f.at(ctx).ReadAt(part.Bytes, start)
	return part, err
}

// errOtherName is the error of a shard with other bytes than its name says.
var errOtherName = codec.Corrupt("shard", 0, "its bytes do not have the hash that is its name")

const (
	// shardTail is the number of bytes at the end of a long shard that stay in memory.
	shardTail = 256 << 10
)

// A detachedReader reads a remote shard for a reader that outlives the call that opens it. It has
// none of the contexts of its callers, so each read has a time limit of its own.
type detachedReader struct {
	s     origin.Store
	k     names.Key
	fresh bool
}

const detachedTimeout = time.Minute // of one read

// ReadAt implements io.ReaderAt.
func (r detachedReader) ReadAt(p []byte, off int64) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), detachedTimeout)
	defer cancel()
	if r.fresh {
		ctx = origin.NoCache(ctx)
	}
	n, err := origin.ReaderAt(ctx, r.s, r.k).ReadAt(p, off)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%q: %w: no answer within %v", r.k, origin.ErrUnavailable, detachedTimeout)
	}
	return n, err
}

// A pieceReader reads an object of which a part is in memory. Another goroutine may remove the
// part at any time.
type pieceReader struct {
	part  atomic.Pointer[origin.Part]
	below io.ReaderAt
}

// ReadAt implements io.ReaderAt. Bytes that are not wholly in the part are read from below.
func (p *pieceReader) ReadAt(b []byte, off int64) (int, error) {
	part := p.part.Load()
	if !part.Holds(off, len(b)) {
		return p.below.ReadAt(b, off)
	}
	return copy(b, part.Bytes[off-part.Off:]), nil
}

// newPieceReader returns a reader of the object of a part; nil: no part.
func newPieceReader(below io.ReaderAt, part *origin.Part) *pieceReader {
	p := &pieceReader{below: below}
	p.part.Store(part)
	return p
}

package casserve

import (
	"context"
	"iter"
	"sort"
	"sync"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// An InfoSource is a Source with the places of all chunks of a xorb, as package objects has it.
type InfoSource interface {
	origin.Source
	origin.InfoReader
}

// A PlaceSource is the part of a Source that a content reads, with the places of chunks.
type PlaceSource interface {
	OpenFile(ctx context.Context, id codec.FileID) (*shard.FileInfo, *origin.LargeFile, error)
	Narrow(ctx context.Context, id codec.FileID, t codec.Term, p codec.Piece) (codec.ChunkRange, int64, error)
	Chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error)
	Places(ctx context.Context, x codec.Hash, r codec.ChunkRange) (origin.Places, error)
	Reject(x codec.Hash) int
	Local() bool
}

// infoPlaces is a PlaceSource over an InfoSource.
type infoPlaces struct{ InfoSource }

// Places implements PlaceSource.
func (s infoPlaces) Places(ctx context.Context, x codec.Hash, r codec.ChunkRange) (origin.Places, error) {
	in, err := s.Info(ctx, x)
	if err != nil {
		return nil, err
	}
	if int(r.End) > in.Len() {
		return nil, codec.Corrupt("term", 0, "names chunks %v of a xorb of %d chunks", r, in.Len())
	}
	return in, nil
}

// StoreOptions tune NewContent and NewMirror. The zero value is good.
type StoreOptions struct {
	// Find returns the id of a file that a scope may read, or io/fs.ErrPermission. nil: every
	// scope has every file, and the source finds it by its hash.
	Find func(ctx context.Context, scope string, file codec.Hash) (codec.FileID, error)
}

// NewContent returns the content of a store, read through a proven Source of it.
func NewContent(s origin.Store, src InfoSource, o StoreOptions) Content {
	c := newContent(infoPlaces{src}, o)
	c.size = func(ctx context.Context, x codec.Hash) (int64, error) { return s.Size(ctx, names.XorbKey(x)) }
	return c
}

// NewMirror returns the content of a source without infos of xorbs. Every file that it opens must
// be proven.
func NewMirror(src PlaceSource, o StoreOptions) Content {
	c := newContent(src, o)
	c.size = func(context.Context, codec.Hash) (int64, error) { return 0, origin.ErrNotFound }
	return c
}

func newContent(src PlaceSource, o StoreOptions) *sourceContent {
	if o.Find == nil {
		o.Find = func(_ context.Context, _ string, file codec.Hash) (codec.FileID, error) {
			return codec.FileID{File: file}, nil
		}
	}
	c := &sourceContent{src: src, find: o.Find, piece: localPiece}
	if !src.Local() {
		c.piece = remotePiece
	}
	c.sums.init()
	return c
}

// sourceContent is the content of a source.
type sourceContent struct {
	src   PlaceSource
	find  func(ctx context.Context, scope string, file codec.Hash) (codec.FileID, error)
	size  func(ctx context.Context, x codec.Hash) (int64, error)
	piece int64 // bytes of a read
	sums  chunkSums
	free  sync.Pool // of *[]byte for reads
}

// XorbSize implements Content. A token for a scope is one for files.
func (c *sourceContent) XorbSize(ctx context.Context, scope string, x codec.Hash) (int64, error) {
	if scope != "" {
		return 0, origin.ErrNotFound
	}
	return c.size(ctx, x)
}

// Open implements Content.
func (c *sourceContent) Open(ctx context.Context, scope string, file codec.Hash) (File, error) {
	id, err := c.find(ctx, scope, file)
	if err != nil {
		return nil, err
	}
	fi, large, err := c.src.OpenFile(ctx, id)
	if err != nil {
		return nil, err
	}
	f := &sourceFile{c: c, id: id}
	if large != nil {
		f.ends, f.group = large.Index.Ends, large.Group
		return f, nil
	}
	f.ends = []int64{fi.Size()}
	f.group = func(context.Context, int) ([]codec.Term, error) { return fi.Terms, nil }
	return f, nil
}

// A sourceFile reads its terms in groups.
type sourceFile struct {
	c     *sourceContent
	id    codec.FileID
	ends  []int64 // offset behind each group
	group func(ctx context.Context, i int) ([]codec.Term, error)
}

// Size implements File.
func (f *sourceFile) Size() int64 {
	if len(f.ends) == 0 {
		return 0
	}
	return f.ends[len(f.ends)-1]
}

// A cutTerm is a term, and the bytes of it before the requested ones.
type cutTerm struct {
	codec.Term
	skip int64
}

// Terms implements File. It reads the first term before it returns, for the bytes to skip.
func (f *sourceFile) Terms(ctx context.Context, from, to int64) (int64, iter.Seq2[codec.Term, error], error) {
	next, stop := iter.Pull2(f.cut(ctx, from, to))
	first, err, ok := next()
	if err != nil || !ok {
		stop()
		return 0, func(func(codec.Term, error) bool) {}, err
	}
	return first.skip, func(yield func(codec.Term, error) bool) {
		defer stop()
		for t := first; ok && yield(t.Term, err); t, err, ok = next() {
		}
	}, nil
}

// cut yields the terms with the bytes [from, to), the first and the last one cut to chunks.
func (f *sourceFile) cut(ctx context.Context, from, to int64) iter.Seq2[cutTerm, error] {
	return func(yield func(cutTerm, error) bool) {
		i := sort.Search(len(f.ends), func(i int) bool { return f.ends[i] > from })
		at := int64(0)
		if i > 0 {
			at = f.ends[i-1]
		}
		for ; i < len(f.ends) && at < to; i++ {
			terms, err := f.group(ctx, i)
			if err != nil {
				yield(cutTerm{}, err)
				return
			}
			for _, t := range terms {
				start, end := at, at+int64(t.Size)
				if at = end; end <= from || start >= to {
					continue
				}
				one, err := f.cutTerm(ctx, t, start, max(from, start), min(to, end))
				if !yield(one, err) || err != nil {
					return
				}
			}
		}
	}
}

// cutTerm cuts t, which begins at byte start of the file, to the chunks with the bytes [from, to).
func (f *sourceFile) cutTerm(ctx context.Context, t codec.Term, start, from, to int64) (cutTerm, error) {
	if from == start && to == start+int64(t.Size) {
		return cutTerm{t, 0}, nil
	}
	r, skip, err := f.c.src.Narrow(ctx, f.id, t, codec.Piece{Off: from, Skip: from - start, Size: to - from})
	if err != nil {
		return cutTerm{}, err
	}
	at, err := f.c.src.Places(ctx, t.Xorb, r)
	if err != nil {
		return cutTerm{}, err
	}
	first, end := at.UnpackedRange(r)
	return cutTerm{codec.Term{Xorb: t.Xorb, Chunks: r, Size: uint32(end - first)}, skip}, nil
}

// Spans implements File.
func (f *sourceFile) Spans(ctx context.Context, x codec.Hash, ranges []codec.ChunkRange) ([]Span, error) {
	spans := make([]Span, len(ranges))
	for i, r := range ranges {
		at, err := f.c.src.Places(ctx, x, r)
		if err != nil {
			return nil, err
		}
		spans[i] = spanOf(at, r)
	}
	return spans, nil
}

func spanOf(at origin.Places, r codec.ChunkRange) Span {
	start, end := at.PackedRange(r)
	return Span{r, start, end}
}

package origin

import (
	"context"
	"io"
	"sync"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
)

// parts are the pieces of far shards that are kept, up to a number of bytes: who opens one
// file of a shard opens others.
type parts struct {
	max int64

	mu    sync.Mutex
	bytes int64                  // guarded by mu
	held  []*shardPart           // oldest first; guarded by mu
	byKey map[codec.Hash]*peeked // guarded by mu
}

// A shardPart is a piece of a shard.
type shardPart struct {
	shard codec.Hash
	r     *peeked
	bytes int64
}

// add keeps the piece of r, and takes away those that were kept longest.
func (p *parts) add(s codec.Hash, r *peeked) {
	n := int64(len(r.part.Load().Bytes))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byKey == nil {
		p.byKey = map[codec.Hash]*peeked{}
	}
	p.byKey[s] = r
	p.held = append(p.held, &shardPart{s, r, n})
	p.bytes += n
	for p.bytes > p.max && len(p.held) > 0 {
		old := p.held[0]
		p.held[0] = nil
		p.held = p.held[1:]
		p.bytes -= old.bytes
		old.r.part.Store(nil)
		if p.byKey[old.shard] == old.r {
			delete(p.byKey, old.shard)
		}
	}
}

// drop forgets the piece of a shard that may be damaged.
func (p *parts) drop(s codec.Hash) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byKey, s)
}

// find returns the piece of shard s that is here, if its byte at off is in it.
func (p *parts) find(s codec.Hash, off int64) (Part, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.byKey[s]
	if r == nil {
		return Part{}, false
	}
	part := r.part.Load()
	if part == nil || off < part.Off || off >= part.Off+int64(len(part.Bytes)) {
		return Part{}, false
	}
	return *part, true
}

// blockPart is how much of a far shard is asked for where a File Info block begins: some
// hundred terms.
const blockPart = 32 << 10

// An early is a piece of a shard that is asked for while its shard is being opened.
type early struct {
	done chan struct{} // closed once part and err are final
	part Part
	err  error
}

// askBlock asks for the block of a file in a far shard that nobody has opened. It returns
// nil where that is of no use.
func (o *objects) askBlock(ctx context.Context, s codec.Hash, id codec.FileID) *early {
	if o.near || s != id.Shard || id.Block == 0 || o.opened(s) != nil {
		return nil
	}
	return o.ask(ctx, names.ShardKey(s), id.Block, blockPart)
}

// ask asks for a piece, and does not wait for it.
func (o *objects) ask(ctx context.Context, k names.Key, off int64, n int) *early {
	e := &early{done: make(chan struct{})}
	go func() {
		defer close(e.done)
		defer guard(&e.err)
		e.part, e.err = peek(ctx, o.store, k, off, n)
	}()
	return e
}

// headPart is how much is asked for of the beginning of a far shard.
const headPart = 48

// askHead asks for the beginning of a far shard; of a near one it returns nil.
func (o *objects) askHead(ctx context.Context, k names.Key) *early {
	if o.near {
		return nil
	}
	return o.ask(ctx, k, 0, headPart)
}

// over returns a reader that has the piece, and all else from below. It must not be used
// when the context is over that the piece was asked with.
func (e *early) over(below io.ReaderAt) io.ReaderAt {
	if e == nil {
		return below
	}
	return earlyReader{e, below}
}

type earlyReader struct {
	*early
	below io.ReaderAt
}

// ReadAt implements io.ReaderAt.
func (r earlyReader) ReadAt(p []byte, off int64) (int, error) {
	if off >= headPart {
		return r.below.ReadAt(p, off)
	}
	<-r.done // it ends with its context
	if r.err != nil {
		return 0, r.err
	}
	if end := off + int64(len(p)); off < r.part.Off || end > r.part.Off+int64(len(r.part.Bytes)) {
		return r.below.ReadAt(p, off)
	}
	return copy(p, r.part.Bytes[off-r.part.Off:]), nil
}

// readBlock reads the File Info block at a known place. begun may be the beginning of it.
// The decoder takes in more than the block, so the end of the shard must look like one.
func (o *objects) readBlock(ctx context.Context, s codec.Hash, block int64, begun *early) (*shard.FileInfo, error) {
	part, ok := o.parts.find(s, block)
	if !ok {
		var err error
		if part, err = o.peekBlock(ctx, s, block, begun); err != nil {
			return nil, err
		}
	}
	r := newPeeked(ctx, o.store, names.ShardKey(s), part)
	return shard.ReadFileInfo(io.NewSectionReader(r, 0, part.Size), block)
}

func (o *objects) peekBlock(ctx context.Context, s codec.Hash, block int64, begun *early) (Part, error) {
	if begun == nil {
		return peek(ctx, o.store, names.ShardKey(s), block, blockPart)
	}
	select {
	case <-begun.done:
		return begun.part, begun.err
	case <-ctx.Done():
		return Part{}, ctx.Err()
	}
}

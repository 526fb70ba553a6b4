package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/metacache"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
)

// maxFetches is the maximum number of shards that are being read or were read in part. Their
// bytes take up to 32 MiB.
const maxFetches = 4

// shardFetches read shards whole. Bytes that arrived before a store failed stay for the next
// reader.
type shardFetches struct {
	store origin.Store
	slots chan struct{}

	mu      sync.Mutex
	running map[codec.Hash]*shardFetch // guarded by mu
	broken  map[codec.Hash]*shardFetch // guarded by mu
}

func newShardFetches(s origin.Store) *shardFetches {
	return &shardFetches{
		store:   s,
		slots:   make(chan struct{}, maxFetches),
		running: map[codec.Hash]*shardFetch{},
		broken:  map[codec.Hash]*shardFetch{},
	}
}

// A shardFetch is a shard whose beginning has arrived.
type shardFetch struct {
	f    *shardFile
	hash *merkle.ChunkHash
	off  int64               // number of bytes that have arrived
	held []byte              // the arrived bytes; the last ones of a long shard
	ends metacache.ShardEnds // complete at the end

	arrived bool     // any bytes since read was called; guarded by shardFetches.mu
	head    [48]byte // the first bytes of the shard
}

// read reads a whole shard and computes its hash. The bytes of a remote shard that is not long
// stay in memory. A shard whose bytes do not have its name is returned, but not proven.
func (p *shardFetches) read(ctx context.Context, s codec.Hash) (*shardFile, error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	w := p.begin(ctx, s)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// A fetch without a waiting reader ends when no bytes arrive for detachedTimeout.
	watch := time.AfterFunc(detachedTimeout, func() { cancel(errNoBytes) })
	defer watch.Stop()
	err := origin.ReadWhole(ctx, p.store, w.f.key, w.off, func(b []byte, size int64) error {
		watch.Reset(detachedTimeout)
		p.noteArrived(w, len(b))
		return w.take(b, size)
	})
	if err == nil && w.off < w.f.size {
		err = codec.Corrupt("shard", w.off, "it ends here, its size is %d", w.f.size)
	}
	if err != nil && errors.Is(context.Cause(ctx), errNoBytes) {
		err = fmt.Errorf("%q: %w: no byte within %v", w.f.key, origin.ErrUnavailable, detachedTimeout)
	}
	p.end(w, err)
	if err != nil {
		return nil, err
	}
	return w.done(origin.Local(p.store)), nil
}

var errNoBytes = errors.New("no bytes")

// begin returns the interrupted fetch of a shard, or a new one.
func (p *shardFetches) begin(ctx context.Context, s codec.Hash) *shardFetch {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.broken[s]
	delete(p.broken, s)
	if w == nil || origin.IsNoCache(ctx) {
		w = &shardFetch{hash: merkle.NewChunkHash()}
		w.f = &shardFile{hash: s, key: names.ShardKey(s), store: p.store, noCache: origin.IsNoCache(ctx), size: -1}
	}
	w.arrived = false
	p.running[s] = w
	dropAny(p.broken, maxFetches-len(p.running))
	return w
}

// end stores the arrived part of a shard if its store failed.
func (p *shardFetches) end(w *shardFetch, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running[w.f.hash] == w {
		delete(p.running, w.f.hash)
	}
	if w.off > 0 && (errors.Is(err, origin.ErrUnavailable) || isContextError(err)) {
		p.broken[w.f.hash] = w
		dropAny(p.broken, maxFetches-len(p.running))
	}
}

func (p *shardFetches) noteArrived(w *shardFetch, n int) {
	if n > 0 {
		p.mu.Lock()
		w.arrived = true
		p.mu.Unlock()
	}
}

// arrive reports whether bytes of a shard arrive, so that its fetch continues without readers.
func (p *shardFetches) arrive(s codec.Hash) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.running[s]
	return w != nil && w.arrived
}

// take takes the next bytes of the shard.
func (w *shardFetch) take(b []byte, size int64) error {
	f := w.f
	if f.size < 0 {
		if err := shard.CheckSize(size); err != nil {
			return err
		}
		f.size = size
		w.held = make([]byte, 0, min(size, longShard))
		if f.long() {
			w.held = make([]byte, 0, 2*shardTail)
		}
	}
	if size != f.size || w.off+int64(len(b)) > size {
		return codec.Corrupt("shard", w.off, "its size changes from %d to %d while it is read", f.size, size)
	}
	_, _ = w.hash.Write(b) // it never fails
	if w.off < int64(len(w.head)) {
		copy(w.head[w.off:], b)
	}
	for len(b) > 0 {
		room := shardBlock - int(w.off%shardBlock)
		n := min(room, len(b))
		if w.off < int64(len(w.ends.Head)) {
			copy(w.ends.Head[w.off:], b)
		}
		w.appendHeld(b[:n])
		b = b[n:]
		if w.off += int64(n); n == room || w.off == size {
			start := (w.off - 1) / shardBlock * shardBlock
			f.sums = append(f.sums, merkle.Chunk(w.held[len(w.held)-int(w.off-start):]))
		}
	}
	return nil
}

// appendHeld appends bytes to those in memory. It retains only the last shardTail bytes of a long
// shard.
func (w *shardFetch) appendHeld(b []byte) {
	if w.f.long() && len(w.held)+len(b) > cap(w.held) {
		w.held = append(w.held[:0], w.held[len(w.held)-shardTail:]...)
	}
	w.held = append(w.held, b...)
}

// done returns the shard after all bytes have arrived.
func (w *shardFetch) done(local bool) *shardFile {
	f := w.f
	f.opened = time.Now()
	f.proven = w.hash.Sum() == f.hash
	if ends := (metacache.ShardEnds{Head: w.head}); f.size >= int64(len(ends.Head)+len(ends.Foot)) {
		copy(ends.Foot[:], w.held[len(w.held)-len(ends.Foot):])
		f.ends = &ends
	}
	if !local {
		held := w.held
		if f.long() { // the footer and most of the tables
			held = bytes.Clone(held[max(0, len(held)-shardTail):])
			copy(w.ends.Foot[:], held[len(held)-len(w.ends.Foot):])
			f.ends = &w.ends // its header needs no second request
		}
		f.part.Store(&origin.Part{Bytes: held, Off: f.size - int64(len(held)), Size: f.size})
	}
	return f
}

func (f *shardFile) long() bool { return f.size >= longShard }

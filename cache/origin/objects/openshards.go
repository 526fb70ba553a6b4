package objects

import (
	"slices"
	"sync"

	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/codec"
)

// shardFiles caches open shards, and the bytes of some of them. Both are bounded.
type shardFiles struct {
	maxHeld int64 // bytes of shards

	mu    sync.Mutex
	open  *lru.Cache[codec.Hash, *shardFile] // guarded by mu
	held  []*shardFile                       // with bytes, oldest first; guarded by mu
	bytes int64                              // of held; guarded by mu
}

// init sets the limits: maxOpen of block hashes and indexes, maxHeld of shards, in bytes.
func (p *shardFiles) init(maxOpen, maxHeld int64) {
	p.maxHeld = maxHeld
	p.open = lru.New(maxOpen, func(_ codec.Hash, f *shardFile) { p.releaseLocked(f) })
}

// cost returns the memory of an open shard without its bytes.
func (f *shardFile) cost() int64 {
	n := int64(1<<10) + int64(len(f.sums))*int64(len(codec.Hash{}))
	if f.Reader != nil && f.Meta().FileTable.Count == 0 {
		n += f.size / 6 // an index of 16 bytes for each block, of 96 bytes or more
	}
	return n
}

// find returns an open shard, or nil.
func (p *shardFiles) find(s codec.Hash) *shardFile {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, _ := p.open.Get(s)
	return f
}

// add stores an open shard. It replaces another open shard with the same hash.
func (p *shardFiles) add(f *shardFile) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if old, ok := p.open.Get(f.hash); ok {
		if old == f {
			return
		}
		p.removeLocked(old)
	}
	p.open.Add(f.hash, f, f.cost())
	if part := f.part.Load(); part != nil {
		p.holdLocked(f, int64(len(part.Bytes)))
	}
}

// holdLocked retains the bytes of a shard and releases those of the oldest shards above the
// limit. It never releases f, because the caller that opened f needs the bytes.
func (p *shardFiles) holdLocked(f *shardFile, n int64) {
	p.held = append(p.held, f)
	p.bytes += n
	for p.bytes > p.maxHeld && len(p.held) > 1 {
		old := p.held[0]
		p.held[0] = nil
		p.held = p.held[1:]
		p.bytes -= int64(len(old.part.Swap(nil).Bytes))
	}
}

// drop closes a shard. It reports whether the shard was open.
func (p *shardFiles) drop(f *shardFile) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if old, ok := p.open.Get(f.hash); !ok || old != f {
		return false
	}
	p.removeLocked(f)
	return true
}

// removeLocked closes a shard and releases its bytes.
func (p *shardFiles) removeLocked(f *shardFile) {
	p.open.Remove(f.hash)
	p.releaseLocked(f)
}

// releaseLocked releases the bytes of a shard.
func (p *shardFiles) releaseLocked(f *shardFile) {
	if i := slices.Index(p.held, f); i >= 0 {
		p.held = slices.Delete(p.held, i, i+1)
		p.bytes -= int64(len(f.part.Swap(nil).Bytes))
	}
}

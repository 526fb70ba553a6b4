package origin

import (
	"container/list"
	"slices"
	"sync"

	"github.com/xetfs/xetfs/codec"
)

// shardFiles are the shards that are open, and the bytes of some of them. Both are bounded.
type shardFiles struct {
	maxOpen int64 // bytes of block hashes and indexes
	maxHeld int64 // bytes of shards

	mu     sync.Mutex
	byUse  list.List                    // of *shardFile, last used first; guarded by mu
	byHash map[codec.Hash]*list.Element // guarded by mu
	open   int64                        // guarded by mu
	held   []*shardFile                 // with bytes, oldest first; guarded by mu
	bytes  int64                        // of held; guarded by mu
}

func (p *shardFiles) init(maxOpen, maxHeld int64) {
	p.maxOpen, p.maxHeld = maxOpen, maxHeld
	p.byHash = map[codec.Hash]*list.Element{}
}

// cost is what an open shard takes in memory, without its bytes.
func (f *shardFile) cost() int64 {
	n := int64(1<<10) + int64(len(f.sums))*int64(len(codec.Hash{}))
	if f.Reader != nil && f.Meta().FileTable.Count == 0 {
		n += f.size / 6 // an index of 16 bytes for each block, of 96 bytes or more
	}
	return n
}

// find returns an open shard; nil: it is not open.
func (p *shardFiles) find(s codec.Hash) *shardFile {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.byHash[s]
	if e == nil {
		return nil
	}
	p.byUse.MoveToFront(e)
	return e.Value.(*shardFile)
}

// add keeps an open shard, in the place of another one of that name.
func (p *shardFiles) add(f *shardFile) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.byHash[f.hash]; e != nil {
		if e.Value.(*shardFile) == f {
			return
		}
		p.removeLocked(e)
	}
	p.byHash[f.hash] = p.byUse.PushFront(f)
	p.open += f.cost()
	for p.open > p.maxOpen && p.byUse.Len() > 1 {
		p.removeLocked(p.byUse.Back())
	}
	if part := f.part.Load(); part != nil {
		p.holdLocked(f, int64(len(part.Bytes)))
	}
}

// holdLocked keeps the bytes of a shard. The last one stays, however large it is: the
// caller that opened it needs them.
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

// drop forgets a shard, and reports whether it was open.
func (p *shardFiles) drop(f *shardFile) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.byHash[f.hash]
	if e == nil || e.Value.(*shardFile) != f {
		return false
	}
	p.removeLocked(e)
	return true
}

// removeLocked forgets a shard and its bytes.
func (p *shardFiles) removeLocked(e *list.Element) {
	f := p.byUse.Remove(e).(*shardFile)
	delete(p.byHash, f.hash)
	p.open -= f.cost()
	if i := slices.Index(p.held, f); i >= 0 {
		p.held = slices.Delete(p.held, i, i+1)
		p.bytes -= int64(len(f.part.Swap(nil).Bytes))
	}
}

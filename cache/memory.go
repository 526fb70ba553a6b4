package cache

import (
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/ristretto/v2"

	"github.com/xetfs/xetfs/cache/arena"
	"github.com/xetfs/xetfs/codec"
)

// A chunkKey names a chunk by its place, which is known before its hash.
type chunkKey struct {
	xorb  codec.Hash
	index uint32
}

// sum is the key for ristretto. Different keys may have one sum, so each lookup also compares
// the whole key.
func (k chunkKey) sum() uint64 {
	return k.xorb.Word(0) ^ uint64(k.index+1)*0x9e3779b97f4a7c15
}

// roomOf is the memory of a chunk of n bytes. The allocator rounds up to its pages, and the
// entry has places in the maps and queues of ristretto. Room of maxWaiting bytes is never more
// entries than the queue of ristretto holds: that queue drops entries silently.
func roomOf(n int) int64 {
	const unit, entry = 8 << 10, 512
	if n <= 32<<10 {
		return int64(n+n/8) + entry
	}
	return int64(n+unit-1)&^(unit-1) + entry
}

// memory stores unpacked chunks in ristretto, which decides about eviction.
//
// A call of ristretto wakes its goroutine on a core that readers need. This costs 3 to 6 % of a
// 4 KiB read from disk. Chunks are therefore offered in groups. Until then lookups find them in
// offers.
type memory struct {
	cache   *ristretto.Cache[uint64, *chunk]
	arena   *arena.Arena
	max     int64        // of waiting
	waiting atomic.Int64 // bytes of offers, and of the queue of ristretto
	bytes   atomic.Int64 // bytes in ristretto

	mu     sync.Mutex
	offers []*chunk // about maxOffers; guarded by mu
}

// maxOffers is how many chunks are given to ristretto at a time.
const maxOffers = 16

// maxWaiting bounds the chunks that ristretto has not counted yet. Its queue has room for tens
// of thousands of entries, which would be gigabytes of chunks.
const maxWaiting = 16 << 20

// newMemory returns a memory of maxBytes, with an arena that has others bytes more for other
// users.
func newMemory(maxBytes, others int64) (*memory, error) {
	m := &memory{max: min(maxWaiting, maxBytes/4), arena: arena.New(maxBytes + others)}
	var err error
	m.cache, err = ristretto.NewCache(&ristretto.Config[uint64, *chunk]{
		NumCounters:        max(10_000, 10*maxBytes/(64<<10)),
		MaxCost:            max(1, maxBytes-m.max),
		BufferItems:        64,
		IgnoreInternalCost: true,
		// ristretto calls it when it takes an entry from its queue.
		Cost: func(c *chunk) int64 {
			m.waiting.Add(-roomOf(len(c.Data)))
			m.bytes.Add(roomOf(len(c.Data)))
			return roomOf(len(c.Data))
		},
		OnExit: func(c *chunk) {
			if c != nil {
				m.bytes.Add(-roomOf(len(c.Data)))
				c.release()
			}
		},
	})
	return m, err
}

// get returns a chunk, which the caller must release; nil if it is absent.
func (m *memory) get(key chunkKey) *chunk {
	c, ok := m.cache.Get(key.sum())
	if ok && c.key == key && c.retain() {
		return c
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if c = m.offeredLocked(key); c != nil {
		c.retain()
	}
	return c
}

func (m *memory) has(key chunkKey) bool {
	c := m.get(key)
	c.release()
	return c != nil
}

func (m *memory) offeredLocked(key chunkKey) *chunk {
	for _, c := range m.offers {
		if c.key == key {
			return c
		}
	}
	return nil
}

// add offers a chunk once. The chunk may be refused or become visible later.
func (m *memory) add(c *chunk) {
	if c.stays() && m.reserve(roomOf(len(c.Data))) {
		c.retain()
		m.set(c)
	}
}

// addCopy is add for bytes of another owner. It copies no bytes that would be refused.
func (m *memory) addCopy(key chunkKey, hash codec.Hash, data []byte) {
	if !m.reserve(roomOf(len(data))) {
		return
	}
	c := copyChunk(m.arena, key, hash, data)
	if !c.stays() {
		m.waiting.Add(-roomOf(len(data)))
		c.release()
		return
	}
	m.set(c)
}

// reserve takes room in waiting, if available.
func (m *memory) reserve(room int64) bool {
	if m.waiting.Add(room) > m.max {
		m.waiting.Add(-room)
		m.flush() // with little room, few offers fill it
		return false
	}
	return true
}

// set takes over one reference of c.
func (m *memory) set(c *chunk) {
	m.mu.Lock()
	m.offers = append(m.offers, c)
	full := len(m.offers) == maxOffers
	m.mu.Unlock()
	if full {
		m.flush()
	}
}

// flush gives all offers to ristretto.
func (m *memory) flush() {
	m.mu.Lock()
	offers := m.offers
	if len(offers) > 0 {
		m.offers = make([]*chunk, 0, maxOffers)
	}
	m.mu.Unlock()
	for _, c := range offers {
		if !m.cache.Set(c.key.sum(), c, 0) {
			m.waiting.Add(-roomOf(len(c.Data)))
			c.release()
		}
	}
}

// shrink reduces the limit by n bytes.
func (m *memory) shrink(n int64) {
	m.cache.UpdateMaxCost(max(1, m.cache.MaxCost()-n))
	m.arena.Shrink(n)
}

func (m *memory) close() {
	m.flush()
	m.cache.Close()
	m.arena.Close()
}

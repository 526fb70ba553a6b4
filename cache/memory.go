package cache

import (
	"sync/atomic"

	"github.com/dgraph-io/ristretto/v2"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
)

// A chunkKey names one chunk by its place, which is known before its hash.
type chunkKey struct {
	xorb  codec.Hash
	index uint32
}

// sum is the key that ristretto sees. Keys that differ may have one sum, so whoever
// finds something compares the whole key.
func (k chunkKey) sum() uint64 {
	return k.xorb.Word(0) ^ uint64(k.index+1)*0x9e3779b97f4a7c15
}

// A kept is an unpacked chunk in memory, or an index page.
type kept struct {
	key  chunkKey
	data []byte
	page *page.Page // whose bytes are data; nil: a chunk
}

// roomOf is what a chunk of n bytes takes in memory: the allocator rounds up to its
// pages, and there is the entry itself with its places in ristretto's maps and queues.
// It is never so little that maxWaiting bytes are more entries than ristretto's queue
// holds: what does not fit there is lost without a word.
func roomOf(n int) int64 {
	const unit, entry = 8 << 10, 512
	if n <= 32<<10 {
		return int64(n+n/8) + entry
	}
	return int64(n+unit-1)&^(unit-1) + entry
}

// memory keeps unpacked chunks in ristretto, which decides what stays.
type memory struct {
	cache   *ristretto.Cache[uint64, *kept]
	max     int64        // of waiting
	waiting atomic.Int64 // bytes handed to ristretto that it has not looked at yet
	bytes   atomic.Int64 // bytes that it keeps
}

// maxWaiting bounds the chunks that ristretto has not counted yet. It queues tens of
// thousands of entries, which would be gigabytes of chunks.
const maxWaiting = 16 << 20

func newMemory(maxBytes int64) (*memory, error) {
	m := &memory{max: min(maxWaiting, maxBytes/4)}
	var err error
	m.cache, err = ristretto.NewCache(&ristretto.Config[uint64, *kept]{
		NumCounters:        max(10_000, 10*maxBytes/(64<<10)),
		MaxCost:            max(1, maxBytes-m.max),
		BufferItems:        64,
		IgnoreInternalCost: true,
		// Called when ristretto takes an entry from its queue.
		Cost: func(k *kept) int64 {
			m.waiting.Add(-roomOf(len(k.data)))
			m.bytes.Add(roomOf(len(k.data)))
			return roomOf(len(k.data))
		},
		OnExit: func(k *kept) {
			if k != nil {
				m.bytes.Add(-roomOf(len(k.data)))
			}
		},
	})
	return m, err
}

func (m *memory) get(key chunkKey) ([]byte, bool) {
	k, ok := m.cache.Get(key.sum())
	if !ok || k.key != key {
		return nil, false
	}
	return k.data, true
}

// add offers a chunk, which may be refused or come into effect later.
func (m *memory) add(key chunkKey, data []byte) {
	if m.reserve(roomOf(len(data))) {
		m.set(&kept{key: key, data: data})
	}
}

// addCopy is add for bytes that belong to somebody else. It copies nothing that would be
// refused anyway.
func (m *memory) addCopy(key chunkKey, data []byte) {
	if m.reserve(roomOf(len(data))) {
		m.set(&kept{key: key, data: append([]byte(nil), data...)})
	}
}

// reserve takes room in the queue, if there is any.
func (m *memory) reserve(room int64) bool {
	if m.waiting.Add(room) > m.max {
		m.waiting.Add(-room)
		return false
	}
	return true
}

func (m *memory) set(k *kept) {
	if !m.cache.Set(k.key.sum(), k, 0) {
		m.waiting.Add(-roomOf(len(k.data)))
	}
}

// shrink takes n bytes away from the room that there is.
func (m *memory) shrink(n int64) { m.cache.UpdateMaxCost(max(1, m.cache.MaxCost()-n)) }

func (m *memory) close() { m.cache.Close() }

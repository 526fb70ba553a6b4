package cache

import (
	"context"
	"math"
	"sync"

	"github.com/xetfs/xetfs/cache/arena"
	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
)

// Pages returns a Getter that stores the index pages of another one in memory and on disk.
// Concurrent readers of a page share one fetch. Each page was checked when it was fetched.
func (c *Cache) Pages(below page.Getter) page.Getter {
	c.pages.use(c.memory)
	return &pageCache{c, below}
}

// A pageCache is a Getter with a memory.
type pageCache struct {
	c     *Cache
	below page.Getter
}

// A pageCall names the fetch of a page by one Getter.
type pageCall struct {
	by   *pageCache
	page page.Hash
}

// Page implements page.Getter.
func (p *pageCache) Page(ctx context.Context, h page.Hash) (*page.Page, error) {
	if got, ok := p.c.pages.get(h); ok {
		p.c.stats.pageHits.Add(1)
		return got, nil
	}
	return p.fetch(ctx, h)
}

// fetch returns a page from disk or from below.
func (p *pageCache) fetch(ctx context.Context, h page.Hash) (*page.Page, error) {
	shared := true
	got, err := p.c.pages.calls.Do(ctx, pageCall{p, h}, func(ctx context.Context) (*page.Page, error) {
		shared = false
		return p.load(ctx, h)
	})
	if ctx.Err() == nil && shared { // with an error of ctx the call may still run
		p.c.stats.pageShared.Add(1)
	}
	return got, err
}

// load is the call of one fetch.
func (p *pageCache) load(ctx context.Context, h page.Hash) (*page.Page, error) {
	if got, ok := p.c.pages.get(h); ok {
		return got, nil // another call has added the page meanwhile
	}
	if got := p.c.readDiskPage(h); got != nil {
		p.c.pages.add(h, got)
		return got, nil
	}
	p.c.stats.pageMisses.Add(1)
	got, err := p.below.Page(ctx, h)
	if err == nil {
		p.c.pages.add(h, got)
		p.c.putDiskPage(h, got)
	}
	return got, err
}

// pageMemory stores the index pages that were used last. The memory of chunks may refuse or
// delay a chunk. A page outside of memory is fetched and checked again for every name in it.
// There are few pages above the leaves and all lookups need them, so leaves do not evict them.
// Evicted pages are offered to the memory of chunks, which compares their worth with chunks.
type pageMemory struct {
	calls  flight.Group[pageCall, *page.Page] // fetches
	once   sync.Once
	behind *memory
	max    int64 // bytes of each level

	mu      sync.Mutex
	levels  [2]*lru.Cache[page.Hash, *page.Page] // leaves, pages above; guarded by mu
	evicted []evictedPage                        // by the present add; guarded by mu
}

type evictedPage struct {
	hash page.Hash
	page *page.Page
}

// pagesShare is the limit for the pages of each level.
const pagesShare = 8 << 20

func (m *pageMemory) init(maxBytes int64) {
	m.max = min(pagesShare, maxBytes/16)
	for i := range m.levels {
		m.levels[i] = lru.New(m.max, func(h page.Hash, p *page.Page) {
			m.evicted = append(m.evicted, evictedPage{h, p})
		})
	}
}

// use takes the room of the pages from the memory of chunks, when the first Getter exists.
func (m *pageMemory) use(behind *memory) {
	m.once.Do(func() {
		behind.shrink(2 * m.max)
		m.behind = behind
	})
}

func (m *pageMemory) get(h page.Hash) (*page.Page, bool) {
	m.mu.Lock()
	for _, level := range m.levels {
		if p, ok := level.Get(h); ok {
			m.mu.Unlock()
			return p, true
		}
	}
	m.mu.Unlock()
	return m.behind.getPage(h)
}

// add stores a page.
func (m *pageMemory) add(h page.Hash, p *page.Page) {
	m.mu.Lock()
	m.levels[min(1, p.Level())].Add(h, p, roomOf(len(p.Encoded())))
	evicted := m.evicted
	m.evicted = nil
	m.mu.Unlock()
	for _, e := range evicted {
		m.behind.addPage(e.hash, e.page)
	}
}

// held returns the bytes of the pages in both levels.
func (m *pageMemory) held() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.levels[0].Cost() + m.levels[1].Cost()
}

// pageKey is the key of a page among the chunks. No xorb has this chunk.
func pageKey(h page.Hash) chunkKey { return chunkKey{codec.Hash(h), math.MaxUint32} }

func (m *memory) getPage(h page.Hash) (*page.Page, bool) {
	key := pageKey(h)
	c, ok := m.cache.Get(key.sum())
	if !ok || c.key != key {
		m.mu.Lock()
		c = m.offeredLocked(key)
		m.mu.Unlock()
	}
	if c == nil || c.page == nil {
		return nil, false
	}
	return c.page, true
}

// addPage is add for a page.
func (m *memory) addPage(h page.Hash, p *page.Page) {
	if m.reserve(roomOf(len(p.Encoded()))) {
		m.set(&chunk{key: pageKey(h), page: p, Bytes: arena.Bytes{Data: p.Encoded()}})
	}
}

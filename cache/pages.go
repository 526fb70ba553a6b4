package cache

import (
	"context"
	"errors"
	"math"
	"sync"

	"github.com/xetfs/xetfs/cache/arena"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
)

// Pages returns a Getter that keeps the index pages of another in the memory of the
// cache. Readers of the same page at the same time share one fetch. Whoever finds a page
// in memory may believe it: it was checked when it came.
func (c *Cache) Pages(below page.Getter) page.Getter {
	c.pages.use(c.memory)
	return &pages{c: c, below: below, calls: map[page.Hash]*pageCall{}}
}

// pages is a Getter with a memory.
type pages struct {
	c     *Cache
	below page.Getter

	mu    sync.Mutex
	calls map[page.Hash]*pageCall // guarded by mu
}

// A pageCall is one page that one reader fetches, and others wait for.
type pageCall struct {
	done chan struct{} // closed once page and err are final
	page *page.Page
	err  error
}

// Page implements page.Getter.
func (p *pages) Page(ctx context.Context, h page.Hash) (*page.Page, error) {
	for {
		if got, ok := p.c.pages.get(h); ok {
			p.c.stats.pageHits.Add(1)
			return got, nil
		}
		call, lead := p.join(h)
		if lead {
			return p.lead(ctx, h, call)
		}
		select {
		case <-call.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if !errors.Is(call.err, errAgain) {
			p.c.stats.pageShared.Add(1)
			return call.page, call.err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// join returns the call for a page. lead says that it is new: the caller must make it.
func (p *pages) join(h page.Hash) (call *pageCall, lead bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if call, ok := p.calls[h]; ok {
		return call, false
	}
	call = &pageCall{done: make(chan struct{})}
	p.calls[h] = call
	return call, true
}

// lead fetches a page for everybody who waits for it.
func (p *pages) lead(ctx context.Context, h page.Hash, call *pageCall) (got *page.Page, err error) {
	defer func() {
		call.page, call.err = got, err
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			call.err = errAgain // ours to suffer, not theirs
		}
		p.mu.Lock()
		delete(p.calls, h)
		p.mu.Unlock()
		close(call.done)
	}()
	defer guard(&err)
	if got, ok := p.c.pages.get(h); ok {
		return got, nil // it came after we looked
	}
	if got, ok, err := p.c.keptPage(ctx, h); ok || err != nil {
		return got, err
	}
	p.c.stats.pageMisses.Add(1)
	got, err = p.below.Page(ctx, h)
	if err == nil {
		p.c.pages.add(h, got)
		p.c.keepPage(h, got)
	}
	return got, err
}

// pageMemory keeps index pages. Those that were used last stay for certain: the memory
// of chunks may refuse or delay what it is offered, and a page that is not kept is
// fetched and checked for every name in it. There are few pages above the leaves and all
// lookups need them, so leaves do not drive them out. What must go is offered to the
// memory of chunks, where it stays if it is worth more than those.
type pageMemory struct {
	once   sync.Once
	behind *memory
	max    int64 // bytes of each queue

	mu     sync.Mutex
	pages  map[page.Hash]*keptPage // guarded by mu
	queues [2]pageQueue            // leaves, pages above; guarded by mu
}

// A pageQueue is pages, oldest first.
type pageQueue struct {
	pages []*keptPage
	bytes int64
}

// A keptPage is a page in a queue. When its turn comes it moves to the back instead of
// out, if it is new there or was used.
type keptPage struct {
	hash page.Hash
	page *page.Page
	used bool
}

// pagesShare is the most that pages take for certain, of leaves and of others each.
const pagesShare = 8 << 20

func (m *pageMemory) init(maxBytes int64) { m.max = min(pagesShare, maxBytes/16) }

// use takes the room of the pages from the memory of chunks, when there are pages.
func (m *pageMemory) use(behind *memory) {
	m.once.Do(func() {
		behind.shrink(2 * m.max)
		m.mu.Lock()
		m.behind, m.pages = behind, map[page.Hash]*keptPage{}
		m.mu.Unlock()
	})
}

func (m *pageMemory) get(h page.Hash) (*page.Page, bool) {
	m.mu.Lock()
	k, ok := m.pages[h]
	if ok {
		k.used = true
	}
	m.mu.Unlock()
	if ok {
		return k.page, true
	}
	return m.behind.getPage(h)
}

// add keeps a page.
func (m *pageMemory) add(h page.Hash, p *page.Page) {
	var out []*keptPage
	m.mu.Lock()
	if _, ok := m.pages[h]; !ok {
		k := &keptPage{hash: h, page: p, used: true}
		m.pages[h] = k
		q := &m.queues[min(1, p.Level())]
		q.pages = append(q.pages, k)
		q.bytes += roomOf(len(p.Encoded()))
		out = q.shrink(m.max)
		for _, k := range out {
			delete(m.pages, k.hash)
		}
	}
	m.mu.Unlock()
	for _, k := range out {
		m.behind.addPage(k.hash, k.page)
	}
}

// shrink takes out pages until no more than max bytes are left.
func (q *pageQueue) shrink(max int64) (out []*keptPage) {
	for q.bytes > max {
		k := q.pages[0]
		q.pages[0] = nil
		q.pages = q.pages[1:]
		if k.used {
			k.used = false
			q.pages = append(q.pages, k)
			continue
		}
		q.bytes -= roomOf(len(k.page.Encoded()))
		out = append(out, k)
	}
	return out
}

// held returns the bytes of pages that are kept for certain.
func (m *pageMemory) held() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.queues[0].bytes + m.queues[1].bytes
}

// pageKey is the key of a page among the chunks. No xorb has so many.
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

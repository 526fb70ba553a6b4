package verify

import (
	"container/list"
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// XorbCacheMemory is the memory of a XorbCache in bytes: three of the largest xorbs fit.
const XorbCacheMemory = 256 << 20

const (
	loadShare     = 3       // 1/loadShare of the memory is for prefetched xorbs; a larger xorb is not cached
	loadPiece     = 4 << 20 // bytes of one request
	piecesPerLoad = 8       // parallel requests of one load
	maxLoads      = 16      // parallel loads, and two of the largest
)

// A XorbCache is a remote store with the most recently used xorbs in memory. The first read of
// a xorb fetches and checks all of it, once. After an eviction, parts of it are read from the
// store, as with origin.NoCache.
type XorbCache struct {
	origin.Store
	most  int64                                         // bytes of xorbs in memory; constant
	ctx   context.Context                               // of the fetches; set by begin
	sizes map[names.Key]int64                           // of the xorbs that may be held; set by begin
	load  func(ctx context.Context, k names.Key) []byte // fetches and checks; nil: it is damaged; set by begin
	slots *semaphore.Weighted                           // of loads, in bytes
	wg    sync.WaitGroup                                // loads

	mu    sync.Mutex
	xorbs map[names.Key]*cachedXorb // requested xorbs; guarded by mu
	order list.List                 // xorbs in memory, last used first; guarded by mu
	bytes int64                     // in memory and in running fetches; guarded by mu
	next  map[names.Key]names.Key   // the request that follows each key; guarded by mu
}

// A cachedXorb is a xorb that was requested.
type cachedXorb struct {
	key  names.Key
	size int64
	done chan struct{} // closed when it was checked

	b     []byte        // nil: it is not in memory; guarded by XorbCache.mu
	place *list.Element // in XorbCache.order; guarded by XorbCache.mu
	used  bool          // guarded by XorbCache.mu
}

var (
	_ origin.PartReader     = (*XorbCache)(nil)
	_ origin.ProgressReader = (*XorbCache)(nil)
	_ origin.WholeReader    = (*XorbCache)(nil)
)

func NewXorbCache(s origin.Store, memory int64) *XorbCache {
	return &XorbCache{
		Store: s,
		most:  memory - memory/8,
		slots: semaphore.NewWeighted(2 * (memory - memory/8) / loadShare),
		xorbs: map[names.Key]*cachedXorb{},
		next:  map[names.Key]names.Key{},
	}
}

// begin sets the xorbs that may be cached and the function that loads one. Earlier reads go to
// the store.
func (c *XorbCache) begin(ctx context.Context, sizes map[names.Key]int64, load func(context.Context, names.Key) []byte) {
	c.ctx, c.sizes, c.load = ctx, sizes, load
}

// ReadAt implements origin.Store.
func (c *XorbCache) ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error {
	if c.copy(ctx, k, p, off) {
		return nil
	}
	return c.Store.ReadAt(ctx, k, p, off)
}

// ReadAtProgress implements origin.ProgressReader.
func (c *XorbCache) ReadAtProgress(ctx context.Context, k names.Key, p []byte, off int64, came func(n int)) error {
	if c.copy(ctx, k, p, off) {
		return nil
	}
	return c.Store.(origin.ProgressReader).ReadAtProgress(ctx, k, p, off, came)
}

// ReadWhole implements origin.WholeReader. It serves shards, which are not cached.
func (c *XorbCache) ReadWhole(ctx context.Context, k names.Key, off int64, take func(b []byte, size int64) error) error {
	return c.Store.(origin.WholeReader).ReadWhole(ctx, k, off, take)
}

// ReadPart implements origin.PartReader.
func (c *XorbCache) ReadPart(ctx context.Context, k names.Key, off int64, n int) (origin.Part, error) {
	b := c.get(ctx, k)
	if b == nil {
		return c.Store.(origin.PartReader).ReadPart(ctx, k, off, n)
	}
	size := int64(len(b))
	if off < 0 {
		off = max(0, size-int64(n))
	}
	off = min(off, size)
	return origin.Part{Bytes: b[off:min(off+int64(n), size)], Off: off, Size: size}, nil
}

// copy fills p from a cached xorb and reports whether it could.
func (c *XorbCache) copy(ctx context.Context, k names.Key, p []byte, off int64) bool {
	b := c.get(ctx, k)
	if b == nil || off < 0 || off+int64(len(p)) > int64(len(b)) {
		return false
	}
	copy(p, b[off:])
	return true
}

// get returns a xorb after its load, or nil if the store has to be read.
func (c *XorbCache) get(ctx context.Context, k names.Key) []byte {
	if origin.IsNoCache(ctx) {
		return nil
	}
	x := c.wait(ctx, k)
	if x == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if x.b == nil {
		return nil
	}
	c.order.MoveToFront(x.place)
	if !x.used {
		x.used = true
		c.prefetchLocked(k)
	}
	return x.b
}

// prefetchLocked starts the loads of the next xorbs in the prefetch order.
func (c *XorbCache) prefetchLocked(k names.Key) {
	for n, bytes := 0, int64(0); n < maxLoads; n++ {
		next, ok := c.next[k]
		if bytes += c.sizes[next]; !ok || n > 0 && bytes > c.most/loadShare {
			return
		}
		c.startLocked(next)
		k = next
	}
}

// wait starts the load of a xorb, unless it was loaded before, and waits for it. It returns nil
// for a xorb that may not be cached, and after the end of ctx.
func (c *XorbCache) wait(ctx context.Context, k names.Key) *cachedXorb {
	x := c.start(k)
	if x == nil {
		return nil
	}
	select {
	case <-x.done:
		return x
	case <-ctx.Done():
		return nil
	}
}

// start returns a xorb and starts its load, if it was not started before.
func (c *XorbCache) start(k names.Key) *cachedXorb {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.startLocked(k)
}

func (c *XorbCache) startLocked(k names.Key) *cachedXorb {
	x := c.xorbs[k]
	size, hold := c.sizes[k]
	if x == nil && hold {
		x = &cachedXorb{key: k, size: size, done: make(chan struct{})}
		c.xorbs[k] = x
		c.wg.Go(func() { c.runLoad(x) })
	}
	return x
}

// runLoad loads a xorb within the limits of memory and of parallel loads.
func (c *XorbCache) runLoad(x *cachedXorb) {
	defer close(x.done)
	turn := max(x.size, 2*c.most/loadShare/maxLoads)
	if c.slots.Acquire(c.ctx, turn) != nil {
		return
	}
	defer c.slots.Release(turn)
	c.makeRoom(x.size)
	b := c.load(c.ctx, x.key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if b == nil {
		c.bytes -= x.size
		return
	}
	x.b, x.place = b, c.order.PushFront(x)
}

// makeRoom evicts xorbs until n more bytes fit, and reserves these.
func (c *XorbCache) makeRoom(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.bytes+n > c.most && c.order.Len() > 0 {
		old := c.order.Remove(c.order.Back()).(*cachedXorb)
		c.bytes -= old.size
		old.b, old.place = nil, nil
	}
	c.bytes += n
}

// prefetchOrder sets the order of coming reads. The first read of a xorb starts the loads of
// the next ones.
func (c *XorbCache) prefetchOrder(order []names.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := 1; i < len(order); i++ {
		c.next[order[i-1]] = order[i]
	}
}

// fetch reads a whole object from the store, in parallel pieces.
func (c *XorbCache) fetch(ctx context.Context, k names.Key, size int64) ([]byte, error) {
	b := make([]byte, size)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(piecesPerLoad)
	for off := int64(0); off < size; off += loadPiece {
		group.Go(func() error {
			return c.Store.ReadAt(ctx, k, b[off:min(off+loadPiece, size)], off)
		})
	}
	return b, group.Wait()
}

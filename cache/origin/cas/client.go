package cas

import (
	"context"
	"hash"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/metacache"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// Options tune a Client. Only Tokens is required.
type Options struct {
	Tokens TokenSource

	// Backend stores plans without addresses, hashes and places of chunks. nil: nothing is stored.
	Backend metacache.Backend

	// Scope names the repositories if Backend is shared with other sources.
	Scope string

	Bytes        int64            // of plans and of places of chunks in memory; 0: 64 MiB
	SegmentBytes int64            // of transfers that reads share, and again of the last ones; 0: 32 MiB
	Block        int64            // bytes of the file that one plan describes; 0: 1 GiB
	Fetch        fetch.Options    // of the connections to each server
	Now          func() time.Time // the clock for lifetimes; nil: time.Now
}

// A Client is a Source of the files that a CAS server describes. File Infos are plans: nothing is
// proven. It is safe for concurrent use.
type Client struct {
	o      Options
	tokens tokens
	hosts  hosts
	meta   *metacache.Cache
	hashes *metacache.ChunkTable
	places places
	now    func() time.Time

	describing flight.Group[codec.FileID, *shard.FileInfo]
	planning   flight.Group[query, *plan]
	batches    chan struct{} // slots of requests for plans of FileInfos

	transfers  *semaphore.Weighted // bytes of large segments
	background sync.WaitGroup      // requests that may have no caller
	closing    context.Context     // ended by Close
	close      context.CancelFunc

	mu           sync.Mutex
	plans        plans                                   // guarded by mu
	infos        *lru.Cache[codec.Hash, *shard.FileInfo] // guarded by mu
	index        *lru.Cache[codec.Hash, *entry]          // by xorb; guarded by mu
	evicted      *[]func()                               // stores evicted entries of index; guarded by mu
	segments     map[codec.Hash][]*segment               // guarded by mu
	doneSegments []*segment                              // complete, oldest first; guarded by mu
	windows      []query                                 // the last ones, in order; guarded by mu
	batchSeq     int64                                   // number of the last batch; guarded by mu
}

var _ origin.Source = (*Client)(nil)

// NewClient returns a Client. It sends no request. Close ends it.
func NewClient(o Options) *Client {
	if o.Bytes == 0 {
		o.Bytes = 64 << 20
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = 32 << 20
	}
	if o.Block == 0 {
		o.Block = 1 << 30
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Fetch.Classify = classify
	meta := metacache.New(o.Backend, o.Scope, false)
	c := &Client{
		o: o, meta: meta, now: o.Now, transfers: semaphore.NewWeighted(o.SegmentBytes),
		hashes:   metacache.NewChunkTable(meta, o.Bytes/8),
		batches:  make(chan struct{}, maxDescribing),
		infos:    lru.New[codec.Hash, *shard.FileInfo](o.Bytes/4, nil),
		segments: map[codec.Hash][]*segment{},
	}
	c.index = lru.New(o.Bytes/8, func(x codec.Hash, e *entry) {
		if c.evicted != nil {
			*c.evicted = append(*c.evicted, func() { c.storeRanges(x, e.ranges) })
		}
	})
	c.closing, c.close = context.WithCancel(context.Background())
	c.tokens.refused = lru.New[string, time.Time](maxRefused, nil)
	c.tokens.source, c.tokens.now, c.tokens.closing = o.Tokens, o.Now, c.closing
	c.hosts.init(o.Fetch, o.Now)
	c.places.init(meta, o.Bytes/4)
	c.plans.init(o.Bytes/4, o.Block)
	return c
}

// Connect requests a token in the background, which the first file would wait for. After a temporary
// error that file requests one itself.
func (c *Client) Connect() {
	c.background.Go(func() { _, _ = c.tokens.get(c.closing) })
}

// RetryToken makes the next read request a token, although the TokenSource has just returned
// origin.ErrNotFound. The caller has seen the repository since.
func (c *Client) RetryToken() { c.tokens.retryAbsent() }

// Close ends background requests, closes the connections and stores what was learned. No other
// call may run.
func (c *Client) Close() {
	c.close()
	c.background.Wait()
	c.hosts.close()
	c.describing.Wait()
	c.planning.Wait()
	c.plans.renews.Wait()
	c.tokens.wait()
	c.places.close()
}

// detach returns a context for a request that may outlive its caller. Close ends it.
func (c *Client) detach(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(c.closing, cancel)
	return ctx, func() { stop(); cancel() }
}

// Proves implements Source.
func (c *Client) Proves() bool { return false }

// Local implements Source.
func (c *Client) Local() bool { return false }

// ContentHash implements Source: the chunk hashes make the name of a file.
func (c *Client) ContentHash(codec.FileID) (hash.Hash, []byte, error) { return nil, nil, nil }

// TryChunks implements Source.
func (c *Client) TryChunks(codec.Hash, codec.ChunkRange, func(n int) []byte) (*xorb.Run, bool) {
	return nil, false
}

// Annotate implements Source.
func (c *Client) Annotate(_ context.Context, x codec.Hash, run *xorb.Run) (*xorb.Run, error) {
	return c.hashes.Annotate(x, run)
}

// Hashed implements Source.
func (c *Client) Hashed(_ context.Context, x codec.Hash, r codec.ChunkRange) (bool, error) {
	return c.hashes.Hashed(x, r), nil
}

// Prove implements Source.
func (c *Client) Prove(chunks []origin.ChunkHashes) {
	c.hashes.Put(chunks)
	for _, h := range chunks {
		c.places.confirm(h.Xorb, h.Start, h.Leaves)
	}
}

// Proven implements Source.
func (c *Client) Proven(x codec.Hash, r codec.ChunkRange) []merkle.Leaf { return c.hashes.Leaves(x, r) }

// Hold implements Source.
func (c *Client) Hold(id codec.FileID) (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plans.holdLocked(id.File, 1)
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.plans.holdLocked(id.File, -1)
	})
}

// Reject implements Source. It drops bytes and places of the xorb.
func (c *Client) Reject(x codec.Hash) int {
	c.mu.Lock()
	c.dropSegmentsLocked(x)
	c.mu.Unlock()
	c.places.drop(x)
	return 0
}

// Forget implements Source. It also drops what was learned of the xorbs of the file, and its windows.
// The terms of the next plan may begin inside of them.
func (c *Client) Forget(id codec.FileID) {
	c.meta.DropValue(kindPlan, id.File[:])
	for x := range c.forgetInMemory(id) {
		c.places.drop(x)
	}
}

// forgetInMemory drops what the fields of c have of a file, and returns its xorbs.
func (c *Client) forgetInMemory(id codec.FileID) map[codec.Hash]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	xorbs := map[codec.Hash]bool{}
	if fi, ok := c.infos.Get(id.File); ok {
		for _, t := range fi.Terms {
			xorbs[t.Xorb] = true
		}
	}
	for x := range xorbs {
		c.dropSegmentsLocked(x)
	}
	c.infos.Remove(id.File)
	c.plans.dropLocked(id.File)
	c.windows = slices.DeleteFunc(c.windows, func(q query) bool { return q.file == id.File })
	return xorbs
}

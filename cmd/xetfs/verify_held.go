package main

import (
	"container/list"
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

const (
	heldMemory = 256 << 20 // of which most is for xorbs: three of the largest
	heldShare  = 3         // one in so many parts is for xorbs nobody has asked for; one that takes more is not held
	heldPiece  = 4 << 20   // that is asked for at once
	heldAsks   = 8         // pieces of one xorb at a time
	heldLoads  = 16        // xorbs at a time, and two of the largest
)

// A heldStore is a far store that has the xorbs that were used last in memory. Who asks for
// a part of one has all of it fetched, and checked, once. When it has made room for others,
// the store is asked for parts of it, and so it is by who wants them fresh.
type heldStore struct {
	readStore
	most  int64                                         // bytes of xorbs in memory; constant
	ctx   context.Context                               // of the fetches; set by begin
	sizes map[names.Key]int64                           // of the xorbs that may be held; set by begin
	load  func(ctx context.Context, k names.Key) []byte // fetches and checks; nil: it is damaged; set by begin
	turns *semaphore.Weighted                           // of loads, in bytes
	going sync.WaitGroup                                // loads

	mu    sync.Mutex
	xorbs map[names.Key]*heldXorb // that were asked for; guarded by mu
	order list.List               // of those in memory, used last comes first; guarded by mu
	bytes int64                   // of those, and on their way; guarded by mu
	next  map[names.Key]names.Key // which will be asked for after which; guarded by mu
}

// A heldXorb is one that was asked for.
type heldXorb struct {
	key  names.Key
	size int64
	done chan struct{} // closed when it was checked

	b     []byte        // nil: it is not in memory; guarded by heldStore.mu
	place *list.Element // in heldStore.order; guarded by heldStore.mu
	used  bool          // guarded by heldStore.mu
}

var (
	_ origin.PartReader     = (*heldStore)(nil)
	_ origin.ProgressReader = (*heldStore)(nil)
	_ origin.WholeReader    = (*heldStore)(nil)
)

func newHeldStore(s readStore, memory int64) *heldStore {
	return &heldStore{
		readStore: s,
		most:      memory - memory/8,
		turns:     semaphore.NewWeighted(2 * (memory - memory/8) / heldShare),
		xorbs:     map[names.Key]*heldXorb{},
		next:      map[names.Key]names.Key{},
	}
}

// begin says which xorbs to hold, and how they come. Nothing is held before.
func (s *heldStore) begin(ctx context.Context, sizes map[names.Key]int64, load func(context.Context, names.Key) []byte) {
	s.ctx, s.sizes, s.load = ctx, sizes, load
}

// ReadAt implements origin.Store.
func (s *heldStore) ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error {
	if s.copy(ctx, k, p, off) {
		return nil
	}
	return s.readStore.ReadAt(ctx, k, p, off)
}

// ReadAtProgress implements origin.ProgressReader.
func (s *heldStore) ReadAtProgress(ctx context.Context, k names.Key, p []byte, off int64, came func(n int)) error {
	if s.copy(ctx, k, p, off) {
		return nil
	}
	return s.readStore.(origin.ProgressReader).ReadAtProgress(ctx, k, p, off, came)
}

// ReadWhole implements origin.WholeReader. It is for shards, which are not held.
func (s *heldStore) ReadWhole(ctx context.Context, k names.Key, off int64, take func(b []byte, size int64) error) error {
	return s.readStore.(origin.WholeReader).ReadWhole(ctx, k, off, take)
}

// ReadPart implements origin.PartReader.
func (s *heldStore) ReadPart(ctx context.Context, k names.Key, off int64, n int) (origin.Part, error) {
	b := s.get(ctx, k)
	if b == nil {
		return s.readStore.(origin.PartReader).ReadPart(ctx, k, off, n)
	}
	size := int64(len(b))
	if off < 0 {
		off = max(0, size-int64(n))
	}
	off = min(off, size)
	return origin.Part{Bytes: b[off:min(off+int64(n), size)], Off: off, Size: size}, nil
}

// copy is ReadAt of what is held, and says whether it is.
func (s *heldStore) copy(ctx context.Context, k names.Key, p []byte, off int64) bool {
	b := s.get(ctx, k)
	if b == nil || off < 0 || off+int64(len(p)) > int64(len(b)) {
		return false
	}
	copy(p, b[off:])
	return true
}

// get returns a xorb, once it has come; nil: the store is to be asked.
func (s *heldStore) get(ctx context.Context, k names.Key) []byte {
	if origin.IsNoCache(ctx) {
		return nil
	}
	x := s.want(ctx, k)
	if x == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.b == nil {
		return nil
	}
	s.order.MoveToFront(x.place)
	if !x.used {
		x.used = true
		s.aheadLocked(k)
	}
	return x.b
}

// aheadLocked makes sure that the xorbs that come after one are on their way.
func (s *heldStore) aheadLocked(k names.Key) {
	for n, bytes := 0, int64(0); n < heldLoads; n++ {
		next, ok := s.next[k]
		if bytes += s.sizes[next]; !ok || n > 0 && bytes > s.most/heldShare {
			return
		}
		s.findLocked(next)
		k = next
	}
}

// want has a xorb fetched and checked, if it was not yet, and waits for that. It returns nil
// for one that is not to be held, or if it has not waited.
func (s *heldStore) want(ctx context.Context, k names.Key) *heldXorb {
	x := s.find(k)
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

// find returns a xorb, which is on its way from now on at the latest.
func (s *heldStore) find(k names.Key) *heldXorb {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.findLocked(k)
}

func (s *heldStore) findLocked(k names.Key) *heldXorb {
	x := s.xorbs[k]
	size, hold := s.sizes[k]
	if x == nil && hold {
		x = &heldXorb{key: k, size: size, done: make(chan struct{})}
		s.xorbs[k] = x
		s.going.Go(func() { s.bring(x) })
	}
	return x
}

// bring has a xorb fetched and checked.
func (s *heldStore) bring(x *heldXorb) {
	defer close(x.done)
	turn := max(x.size, 2*s.most/heldShare/heldLoads)
	if s.turns.Acquire(s.ctx, turn) != nil {
		return
	}
	defer s.turns.Release(turn)
	s.makeRoom(x.size)
	b := s.load(s.ctx, x.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if b == nil {
		s.bytes -= x.size
		return
	}
	x.b, x.place = b, s.order.PushFront(x)
}

// makeRoom takes xorbs away for n bytes, and counts these.
func (s *heldStore) makeRoom(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.bytes+n > s.most && s.order.Len() > 0 {
		old := s.order.Remove(s.order.Back()).(*heldXorb)
		s.bytes -= old.size
		old.b, old.place = nil, nil
	}
	s.bytes += n
}

// follow says in which order xorbs will be asked for. With the first read of one the next
// ones are on their way.
func (s *heldStore) follow(order []names.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 1; i < len(order); i++ {
		s.next[order[i-1]] = order[i]
	}
}

// fetch asks the store for a whole object, many pieces at a time.
func (s *heldStore) fetch(ctx context.Context, k names.Key, size int64) ([]byte, error) {
	b := make([]byte, size)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(heldAsks)
	for off := int64(0); off < size; off += heldPiece {
		group.Go(func() error {
			return s.readStore.ReadAt(ctx, k, b[off:min(off+heldPiece, size)], off)
		})
	}
	return b, group.Wait()
}

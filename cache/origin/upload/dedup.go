package upload

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dedup"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
)

// xorbsPerAnswer bounds an answer of Dedup: 2 GiB of data, some 1.6 MB of chunk lists.
const xorbsPerAnswer = 32

// answerLimit bounds the time of an answer. A client then stores the chunk.
const answerLimit = 10 * time.Second

// Dedup returns a shard that locates a chunk and its neighbours, or origin.ErrNotFound. The chunk
// hashes are keyed: only a client that has a chunk recognises it. The named xorbs are leased before
// their presence is checked.
func (s *Store) Dedup(ctx context.Context, chunk codec.Hash) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	s.index.refresh()
	lists := s.index.locate(chunk)
	if len(lists) == 0 {
		return nil, origin.ErrNotFound
	}
	keys := make([]names.Key, len(lists))
	for i, x := range lists {
		keys[i] = names.XorbKey(x.Xorb)
	}
	missing, err := s.o.Leases.Protect(ctx, keys...)
	if err != nil {
		s.o.Logger.Debug("no answer for deduplication", "err", err)
		return nil, origin.ErrNotFound
	}
	gone := map[names.Key]bool{}
	for _, k := range missing {
		gone[k] = true
	}
	if gone[keys[0]] {
		return nil, origin.ErrNotFound
	}
	var w shard.Writer
	for i, x := range lists {
		if !gone[keys[i]] {
			w.AddXorb(s.keyed(x))
		}
	}
	now := time.Now()
	return w.EncodeKeyed(s.o.Key, now, now.Add(s.o.AnswerLife))
}

// keyed keys the hashes of a chunk list.
func (s *Store) keyed(x *shard.XorbInfo) *shard.XorbInfo {
	for i := range x.Chunks {
		c := &x.Chunks[i]
		c.Dedup = c.Hash.Word(3)%eligible == 0
		c.Hash = merkle.Keyed(c.Hash, s.o.Key)
	}
	return x
}

// eligible: clients ask for one chunk of 1024, by the last word of its hash, and for the first
// chunk of each file.
const eligible = 1024

// An index is the dedup.Index of the store. Shards of other writers are added from time to time.
type index struct {
	s *Store

	mu     sync.Mutex
	index  *dedup.Index       // guarded by mu, as all below; not safe for concurrent use
	known  map[names.Key]bool // shards in index, and corrupt ones
	looked time.Time          // when the store was listed
	busy   bool               // a refresh is under way
}

// refreshPause is the minimum time between two listings of the shards of the store.
const refreshPause = 20 * time.Second

// open reads the index of the store.
func (x *index) open(s *Store) error {
	x.s = s
	return x.load()
}

// load opens the index, or opens it again.
func (x *index) load() error {
	known := map[names.Key]bool{}
	for item, err := range x.s.store.List(x.s.ctx, names.ShardPrefix, "") {
		if err != nil {
			return err
		}
		known[item.Key] = true
	}
	o := x.s.o
	fresh, err := dedup.Open(x.s.ctx, x.s.store, dedup.Options{
		TempFile: o.TempFile, Mirror: o.Mirror,
		Damaged: func(k names.Key, err error) {
			o.Logger.Warn("an object is not used for deduplication", "event", "corrupt", "what", "store", "key", k, "err", err)
		},
	})
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	old := x.index
	x.index, x.known, x.looked = fresh, known, time.Now()
	if old != nil {
		return old.Close()
	}
	return nil
}

func (x *index) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.index == nil {
		return nil
	}
	defer func() { x.index = nil }()
	return x.index.Close()
}

// locate returns the chunk lists of a xorb with a chunk, and of its neighbours. The first list is
// the one with the chunk.
func (x *index) locate(chunk codec.Hash) []*shard.XorbInfo {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.index == nil {
		return nil
	}
	at, _, ok := x.index.Lookup(chunk)
	if !ok {
		return nil
	}
	lists := x.index.Beside(at, xorbsPerAnswer)
	for i, l := range lists {
		if l.Xorb == at {
			lists[0], lists[i] = lists[i], lists[0]
			return lists
		}
	}
	return nil
}

// lookup is Lookup of the index.
func (x *index) lookup(chunk codec.Hash) (codec.Hash, uint32, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.index == nil {
		return codec.Hash{}, 0, false
	}
	return x.index.Lookup(chunk)
}

// learn adds a shard that was just stored.
func (x *index) learn(h codec.Hash) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.learnLocked(names.ShardKey(h), h)
}

// learnLocked adds a shard. A corrupt shard is known, too, so that it is not read again.
func (x *index) learnLocked(k names.Key, h codec.Hash) {
	if x.index == nil || x.known[k] {
		return
	}
	if err := x.index.LearnShard(h); err == nil || errors.Is(err, codec.ErrCorrupt) {
		x.known[k] = true
	}
}

// refresh adds the shards of other writers in the background, if the last time is long ago. After a
// sweep the whole index is read again.
func (x *index) refresh() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.busy || time.Since(x.looked) < refreshPause || x.s.ctx.Err() != nil {
		return
	}
	x.busy = true
	x.s.work.Go(func() {
		err := x.update()
		x.mu.Lock()
		defer x.mu.Unlock()
		x.busy, x.looked = false, time.Now()
		if err != nil && !errors.Is(err, context.Canceled) {
			x.s.o.Logger.Warn("the index for deduplication could not be updated", "event", "index_update", "err", err)
		}
	})
}

func (x *index) update() error {
	x.mu.Lock()
	before := maps.Clone(x.known)
	x.mu.Unlock()
	listed := map[names.Key]codec.Hash{}
	for item, err := range x.s.store.List(x.s.ctx, names.ShardPrefix, "") {
		if err != nil {
			return err
		}
		if p, err := names.ParseKey(item.Key); err == nil {
			listed[item.Key] = p.Hash
		}
	}
	for k := range before {
		if _, ok := listed[k]; !ok {
			return x.load()
		}
	}
	for k, h := range listed {
		x.mu.Lock()
		x.learnLocked(k, h)
		x.mu.Unlock()
	}
	return nil
}

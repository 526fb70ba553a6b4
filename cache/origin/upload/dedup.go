package upload

import (
	"context"
	"errors"
	"maps"
	"slices"
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
// their presence is checked. Concurrent callers share an answer.
func (s *Store) Dedup(ctx context.Context, chunk codec.Hash) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	s.index.refresh()
	b, err := s.answers.Do(ctx, chunk, func(ctx context.Context) ([]byte, error) { return s.answer(ctx, chunk) })
	if err != nil && ctx.Err() != nil {
		s.o.Logger.Debug("no answer for deduplication", "err", err)
		return nil, origin.ErrNotFound
	}
	return b, err
}

// answer is Dedup for all callers. A read of the index may continue after ctx.
func (s *Store) answer(ctx context.Context, chunk codec.Hash) ([]byte, error) {
	lists := s.index.locate(ctx, chunk)
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

// A chunkIndex is the dedup.Index of the store. Shards of other writers are added from time to time.
type chunkIndex struct {
	s *Store

	turn   slots              // one: its holder may read the store, so others wait with their contexts
	stored *dedup.Index       // guarded by turn; not safe for concurrent use
	known  map[names.Key]bool // shards in stored, and corrupt ones; guarded by turn

	mu      sync.Mutex
	looked  time.Time           // when the store was listed; guarded by mu, as all below
	busy    bool                // a refresh is under way
	damaged map[codec.Hash]bool // xorbs whose stored bytes an upload found damaged
}

// refreshPause is the minimum time between two listings of the shards of the store.
const refreshPause = 20 * time.Second

// open reads the index of the store.
func (x *chunkIndex) open(s *Store) error {
	x.s, x.damaged = s, map[codec.Hash]bool{}
	err := x.load()
	x.looked = time.Now()
	return err
}

// load opens the index, or opens it again.
func (x *chunkIndex) load() error {
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
	if err := x.turn.wait(x.s.ctx); err != nil {
		return errors.Join(err, fresh.Close())
	}
	defer x.turn.free()
	old := x.stored
	x.stored, x.known = fresh, known
	if old != nil {
		return old.Close()
	}
	return nil
}

func (x *chunkIndex) close() error {
	if err := x.turn.wait(context.Background()); err != nil {
		return err
	}
	defer x.turn.free()
	if x.stored == nil {
		return nil
	}
	defer func() { x.stored = nil }()
	return x.stored.Close()
}

// locate returns the chunk lists of a xorb with a chunk, and of its neighbours. The first list is
// the one with the chunk.
func (x *chunkIndex) locate(ctx context.Context, chunk codec.Hash) []*shard.XorbInfo {
	if x.turn.wait(ctx) != nil {
		return nil
	}
	defer x.turn.free()
	if x.stored == nil {
		return nil
	}
	at, _, ok := x.stored.Lookup(chunk)
	if !ok || x.isDamaged(at) {
		return nil
	}
	lists := x.stored.Beside(at, xorbsPerAnswer)
	lists = slices.DeleteFunc(lists, func(l *shard.XorbInfo) bool { return x.isDamaged(l.Xorb) })
	for i, l := range lists {
		if l.Xorb == at {
			lists[0], lists[i] = lists[i], lists[0]
			return lists
		}
	}
	return nil
}

// lookup is Lookup of the index.
func (x *chunkIndex) lookup(ctx context.Context, chunk codec.Hash) (codec.Hash, uint32, bool) {
	if x.turn.wait(ctx) != nil {
		return codec.Hash{}, 0, false
	}
	defer x.turn.free()
	if x.stored == nil {
		return codec.Hash{}, 0, false
	}
	at, i, ok := x.stored.Lookup(chunk)
	return at, i, ok && !x.isDamaged(at)
}

// setDamaged leaves out a xorb whose stored bytes are damaged, or admits it again. A client would
// otherwise refer to it again and again, and never send its chunks.
func (x *chunkIndex) setDamaged(h codec.Hash, damaged bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if damaged {
		x.damaged[h] = true
	} else {
		delete(x.damaged, h)
	}
}

func (x *chunkIndex) isDamaged(h codec.Hash) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.damaged[h]
}

// learn adds a stored shard. A corrupt shard is known, too, so that it is not read again. A later
// refresh adds a shard that cannot be read now.
func (x *chunkIndex) learn(ctx context.Context, h codec.Hash) {
	k := names.ShardKey(h)
	if m := x.s.o.Mirror; m != nil {
		// The Mirror makes its copy of the shard now, before other callers wait for the turn.
		if _, err := m.Size(ctx, k); err != nil && !errors.Is(err, codec.ErrCorrupt) {
			return
		}
	}
	if x.turn.wait(ctx) != nil {
		return
	}
	defer x.turn.free()
	if x.stored == nil || x.known[k] {
		return
	}
	if err := x.stored.LearnShard(h); err == nil || errors.Is(err, codec.ErrCorrupt) {
		x.known[k] = true
	}
}

// refresh adds the shards of other writers in the background, if the last time is long ago. After a
// sweep the whole index is read again.
func (x *chunkIndex) refresh() {
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

func (x *chunkIndex) update() error {
	if err := x.turn.wait(x.s.ctx); err != nil {
		return err
	}
	before := maps.Clone(x.known)
	x.turn.free()
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
		if !before[k] {
			x.learn(x.s.ctx, h)
		}
	}
	return nil
}

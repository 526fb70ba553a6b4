package writer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A reuseTracker records the xorbs and shards that a publish relies on: those that
// existed, and those that it stored. It is safe for concurrent use.
type reuseTracker struct {
	ctx    context.Context // of lookups, which have no context of their own
	store  origin.Store
	guard  *sweepGuard
	listed func(names.Key) bool // whether an object existed after the publish began; false: unknown
	shards origin.Store         // for reading shards

	mu   sync.Mutex
	safe map[names.Key]bool // whether the publish may rely on a key; guarded by mu
}

func (r *reuseTracker) init(ctx context.Context, s origin.Store, sg *sweepGuard) {
	r.ctx, r.store, r.guard, r.safe = ctx, s, sg, map[names.Key]bool{}
	r.listed, r.shards = func(names.Key) bool { return false }, s
}

func (r *reuseTracker) known(k names.Key) (safe, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	safe, known = r.safe[k]
	return safe, known
}

// remember records whether the publish may rely on keys.
func (r *reuseTracker) remember(safe bool, keys ...names.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range keys {
		r.safe[k] = safe
	}
	if safe {
		r.guard.record(keys...)
	}
}

// use reports whether the publish may rely on all of some keys that existed.
func (r *reuseTracker) use(ctx context.Context, keys ...names.Key) (bool, error) {
	lost, err := r.guard.protect(ctx, keys...)
	if err != nil {
		return false, err
	}
	for _, k := range lost {
		there, err := r.exists(ctx, k)
		if !there || err != nil {
			return false, err
		}
	}
	r.remember(true, keys...)
	return true, nil
}

func (r *reuseTracker) exists(ctx context.Context, k names.Key) (bool, error) {
	_, err := r.store.Size(ctx, k)
	if errors.Is(err, origin.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// existed is exists after the publish began. The sweep guard protects what exists within its
// window, so a listing of that time needs no further request.
func (r *reuseTracker) existed(ctx context.Context, k names.Key) (bool, error) {
	if r.listed(k) {
		return true, nil
	}
	return r.exists(ctx, k)
}

// hasShard reports whether a shard exists and the publish may rely on it.
func (r *reuseTracker) hasShard(ctx context.Context, s codec.Hash) (bool, error) {
	k := names.ShardKey(s)
	if safe, known := r.known(k); known {
		return safe, nil
	}
	there, err := r.existed(ctx, k)
	if there && err == nil {
		there, err = r.useShard(ctx, s)
	}
	if err != nil {
		return false, fmt.Errorf("shard %v: %w", s, err)
	}
	if !there {
		r.remember(false, k)
	}
	return there, nil
}

// useShard reports whether the publish may rely on a shard that existed. If a sweep wants
// to delete the shard, useShard rescues it together with its xorbs, which the sweep would
// delete, too.
func (r *reuseTracker) useShard(ctx context.Context, s codec.Hash) (bool, error) {
	keys := []names.Key{names.ShardKey(s)}
	if r.guard.isListed(keys[0]) {
		xorbs, err := r.xorbsOf(ctx, s)
		if errors.Is(err, origin.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		keys = append(keys, xorbs...)
	}
	return r.use(ctx, keys...)
}

// xorbsOf returns the keys of the xorbs in the terms of a shard.
func (r *reuseTracker) xorbsOf(ctx context.Context, s codec.Hash) ([]names.Key, error) {
	k := names.ShardKey(s)
	if there, err := r.existed(ctx, k); !there || err != nil {
		return nil, cmp.Or(err, origin.ErrNotFound)
	}
	size, err := r.shards.Size(ctx, k)
	if err != nil {
		return nil, err
	}
	in, err := shard.NewReader(origin.SequentialReader(ctx, r.shards, k, size), size)
	if err != nil {
		return nil, err
	}
	var keys []names.Key
	seen := map[codec.Hash]bool{}
	for f, err := range in.Files() {
		if err != nil {
			return nil, err
		}
		for _, t := range f.Terms {
			if !seen[t.Xorb] {
				seen[t.Xorb] = true
				keys = append(keys, names.XorbKey(t.Xorb))
			}
		}
	}
	return keys, nil
}

// Missing returns the keys of the given shards that do not exist, and of the missing xorbs
// of the others.
func (s *Session) Missing(ctx context.Context, shards []codec.Hash) (missing []names.Key, err error) {
	seen := map[names.Key]bool{}
	for _, h := range shards {
		xorbs, err := s.reuse.xorbsOf(ctx, h)
		if errors.Is(err, origin.ErrNotFound) {
			missing = append(missing, names.ShardKey(h))
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("shard %v: %w", h, err)
		}
		for _, k := range xorbs {
			if seen[k] {
				continue
			}
			seen[k] = true
			there, err := s.reuse.existed(ctx, k)
			if err != nil {
				return nil, err
			}
			if !there {
				missing = append(missing, k)
			}
		}
	}
	return missing, nil
}

// checkShard returns ErrSwept if the publish may not rely on the shard of an entry.
func (r *reuseTracker) checkShard(ctx context.Context, s codec.Hash) error {
	k := names.ShardKey(s)
	safe, known := r.known(k)
	if !known {
		var err error
		if safe, err = r.useShard(ctx, s); err != nil {
			return err
		}
		r.remember(safe, k)
	}
	if !safe {
		return fmt.Errorf("%s: %w", k, ErrSwept)
	}
	return nil
}

// usable is use for lookups without an error. A failed lookup finds nothing, and the chunk
// is stored again.
func (r *reuseTracker) usable(keys ...names.Key) bool {
	var unknown []names.Key
	for _, k := range keys {
		safe, known := r.known(k)
		if known && !safe {
			return false
		}
		if !known {
			unknown = append(unknown, k)
		}
	}
	if len(unknown) == 0 {
		return true
	}
	safe, err := r.use(r.ctx, unknown...)
	if err == nil && !safe && len(unknown) == 1 {
		r.remember(false, unknown...)
	}
	return safe && err == nil
}

// A Stock is a pack.Ledger that listed the store after the publish began.
type Stock interface {
	pack.Ledger

	// Has reports whether the store has an object. False may also mean unknown.
	Has(k names.Key) bool

	// Shards returns a store for reading the shards that Has reports.
	Shards() origin.Store
}

// Known wraps k and records the reused xorbs. Sink records the stored xorbs and shards.
// The shards of other entries count as reused. If k is a pack.Ledger, so is the result. A Stock
// saves requests.
func (s *Session) Known(k pack.ChunkIndex) pack.ChunkIndex {
	if stock, ok := k.(Stock); ok {
		s.reuse.listed, s.reuse.shards = stock.Has, stock.Shards()
	}
	known := trackingIndex{k, &s.reuse}
	if l, ok := k.(pack.Ledger); ok {
		return trackingLedger{known, l}
	}
	return known
}

// A trackingIndex is a pack.ChunkIndex that records reused xorbs.
type trackingIndex struct {
	known pack.ChunkIndex
	reuse *reuseTracker
}

// Lookup implements pack.ChunkIndex.
func (r trackingIndex) Lookup(chunk codec.Hash) (x codec.Hash, index uint32, ok bool) {
	x, index, ok = r.known.Lookup(chunk)
	if !ok || !r.reuse.usable(names.XorbKey(x)) {
		return codec.Hash{}, 0, false
	}
	return x, index, true
}

// A trackingLedger is the same for a pack.Ledger.
type trackingLedger struct {
	trackingIndex
	ledger pack.Ledger
}

// Chunk implements pack.Ledger.
func (r trackingLedger) Chunk(x codec.Hash, index uint32) (codec.Hash, bool) {
	return r.ledger.Chunk(x, index)
}

// File implements pack.Ledger. An unreferenced shard may name xorbs that a sweep wants to
// delete, although the sweep does not list the shard. File therefore checks each of its
// xorbs.
func (r trackingLedger) File(file codec.Hash) (*shard.FileInfo, codec.Hash, bool) {
	in, s, ok := r.ledger.File(file)
	if !ok {
		return nil, codec.Hash{}, false
	}
	if _, known := r.reuse.known(names.ShardKey(s)); !known && r.reuse.guard.isSweeping() {
		xorbs, err := r.reuse.xorbsOf(r.reuse.ctx, s)
		if err != nil || !r.reuse.usable(xorbs...) {
			r.reuse.remember(false, names.ShardKey(s))
			return nil, codec.Hash{}, false
		}
	}
	return in, s, r.reuse.usable(names.ShardKey(s))
}

// Learn implements pack.Ledger.
func (r trackingLedger) Learn(s codec.Hash) bool { return r.ledger.Learn(s) }

// Sink wraps a sink; see Known.
func (s *Session) Sink(sink pack.Sink) pack.Sink { return trackingSink{sink, &s.reuse} }

// A trackingSink is a pack.Sink that records stored objects. An object that existed before
// is reused without a notice.
type trackingSink struct {
	sink  pack.Sink
	reuse *reuseTracker
}

// PutXorb implements pack.Sink.
func (ts trackingSink) PutXorb(ctx context.Context, in *xorb.Info, body []byte) error {
	k := names.XorbKey(in.Xorb)
	if _, err := ts.reuse.guard.protect(ctx, k); err != nil {
		return err
	}
	if err := ts.sink.PutXorb(ctx, in, body); err != nil {
		return err
	}
	ts.reuse.remember(true, k)
	return nil
}

// PutShard implements pack.Sink. The name of the shard is known only afterwards. If a
// sweep was deleting a shard of that name, PutShard stores it once more.
func (ts trackingSink) PutShard(ctx context.Context, w *shard.Writer) (codec.Hash, error) {
	for {
		h, err := ts.sink.PutShard(ctx, w)
		if err != nil {
			return codec.Hash{}, err
		}
		there, err := ts.reuse.use(ctx, names.ShardKey(h))
		if err != nil || there {
			return h, err
		}
	}
}

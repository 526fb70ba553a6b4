package writer

import (
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

// A reuse knows which xorbs and shards a publish relies on, whether they were there or
// were stored by it. It is safe for concurrent use.
type reuse struct {
	ctx    context.Context // of lookups, which have none
	store  origin.Store
	window *window

	mu   sync.Mutex
	safe map[names.Key]bool // whether a key may be relied upon; guarded by mu
}

func (r *reuse) init(ctx context.Context, s origin.Store, w *window) {
	r.ctx, r.store, r.window, r.safe = ctx, s, w, map[names.Key]bool{}
}

func (r *reuse) known(k names.Key) (safe, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	safe, known = r.safe[k]
	return safe, known
}

// settle notes whether keys may be relied upon.
func (r *reuse) settle(safe bool, keys ...names.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range keys {
		r.safe[k] = safe
	}
	if safe {
		r.window.note(keys...)
	}
}

// use says whether keys that were there may be relied upon, all of them.
func (r *reuse) use(ctx context.Context, keys ...names.Key) (bool, error) {
	lost, err := r.window.protect(ctx, keys...)
	if err != nil {
		return false, err
	}
	for _, k := range lost {
		there, err := r.there(ctx, k)
		if !there || err != nil {
			return false, err
		}
	}
	r.settle(true, keys...)
	return true, nil
}

func (r *reuse) there(ctx context.Context, k names.Key) (bool, error) {
	_, err := r.store.Size(ctx, k)
	if errors.Is(err, origin.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// hasShard says whether a shard is there and may be relied upon.
func (r *reuse) hasShard(ctx context.Context, s codec.Hash) (bool, error) {
	k := names.ShardKey(s)
	if safe, known := r.known(k); known {
		return safe, nil
	}
	there, err := r.there(ctx, k)
	if there && err == nil {
		there, err = r.useShard(ctx, s)
	}
	if err != nil {
		return false, fmt.Errorf("shard %v: %w", s, err)
	}
	if !there {
		r.settle(false, k)
	}
	return there, nil
}

// useShard says whether a shard that was there may be relied upon. One that a sweep
// wants to delete is rescued together with its xorbs, which the sweep would delete, too.
func (r *reuse) useShard(ctx context.Context, s codec.Hash) (bool, error) {
	keys := []names.Key{names.ShardKey(s)}
	if r.window.lists(keys[0]) {
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

// xorbsOf returns the keys of the xorbs that the files of a shard are made of.
func (r *reuse) xorbsOf(ctx context.Context, s codec.Hash) ([]names.Key, error) {
	k := names.ShardKey(s)
	size, err := r.store.Size(ctx, k)
	if err != nil {
		return nil, err
	}
	in, err := shard.NewReader(origin.ReaderAt(ctx, r.store, k), size)
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

// Missing returns the xorbs and shards that do not exist of some shards and the files in them.
func (b *Session) Missing(ctx context.Context, shards []codec.Hash) (missing []names.Key, err error) {
	seen := map[names.Key]bool{}
	for _, s := range shards {
		xorbs, err := b.reuse.xorbsOf(ctx, s)
		if errors.Is(err, origin.ErrNotFound) {
			missing = append(missing, names.ShardKey(s))
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("shard %v: %w", s, err)
		}
		for _, k := range xorbs {
			if seen[k] {
				continue
			}
			seen[k] = true
			there, err := b.reuse.there(ctx, k)
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

// checkShard is ErrSwept if the shard of an entry may not be relied upon.
func (r *reuse) checkShard(ctx context.Context, s codec.Hash) error {
	k := names.ShardKey(s)
	safe, known := r.known(k)
	if !known {
		var err error
		if safe, err = r.useShard(ctx, s); err != nil {
			return err
		}
		r.settle(safe, k)
	}
	if !safe {
		return fmt.Errorf("%s: %w", k, ErrSwept)
	}
	return nil
}

// usable is use for lookups that can fail only by finding nothing: then a chunk is
// stored again.
func (r *reuse) usable(keys ...names.Key) bool {
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
		r.settle(false, unknown...)
	}
	return safe && err == nil
}

// Known notes which xorbs are reused, and Sink which xorbs and shards are stored now.
// The shards of entries that were not stored now count as reused. If k is a pack.Ledger,
// so is the result.
func (b *Session) Known(k pack.Known) pack.Known {
	known := reusing{k, &b.reuse}
	if l, ok := k.(pack.Ledger); ok {
		return reusingLedger{known, l}
	}
	return known
}

// A reusing is a Known that notes what is reused.
type reusing struct {
	known pack.Known
	reuse *reuse
}

// Lookup implements pack.Known.
func (r reusing) Lookup(chunk codec.Hash) (x codec.Hash, index uint32, ok bool) {
	x, index, ok = r.known.Lookup(chunk)
	if !ok || !r.reuse.usable(names.XorbKey(x)) {
		return codec.Hash{}, 0, false
	}
	return x, index, true
}

// A reusingLedger is the same for a Ledger.
type reusingLedger struct {
	reusing
	ledger pack.Ledger
}

// Chunk implements pack.Ledger.
func (r reusingLedger) Chunk(x codec.Hash, index uint32) (codec.Hash, bool) {
	return r.ledger.Chunk(x, index)
}

// File implements pack.Ledger. A shard that nothing points to may name xorbs that a sweep
// wants to delete though it does not want to delete the shard, so they are looked at one
// by one.
func (r reusingLedger) File(file codec.Hash) (*shard.FileInfo, codec.Hash, bool) {
	in, s, ok := r.ledger.File(file)
	if !ok {
		return nil, codec.Hash{}, false
	}
	if _, known := r.reuse.known(names.ShardKey(s)); !known && r.reuse.window.sweeping() {
		xorbs, err := r.reuse.xorbsOf(r.reuse.ctx, s)
		if err != nil || !r.reuse.usable(xorbs...) {
			r.reuse.settle(false, names.ShardKey(s))
			return nil, codec.Hash{}, false
		}
	}
	return in, s, r.reuse.usable(names.ShardKey(s))
}

// Learn implements pack.Ledger.
func (r reusingLedger) Learn(s codec.Hash) bool { return r.ledger.Learn(s) }

// Sink see Known.
func (b *Session) Sink(s pack.Sink) pack.Sink { return storing{s, &b.reuse} }

// A storing is a Sink that notes what is stored. What is there already is reused by it,
// without saying so.
type storing struct {
	sink  pack.Sink
	reuse *reuse
}

// PutXorb implements pack.Sink.
func (s storing) PutXorb(ctx context.Context, in *xorb.Info, body []byte) error {
	k := names.XorbKey(in.Xorb)
	if _, err := s.reuse.window.protect(ctx, k); err != nil {
		return err
	}
	if err := s.sink.PutXorb(ctx, in, body); err != nil {
		return err
	}
	s.reuse.settle(true, k)
	return nil
}

// PutShard implements pack.Sink. Its name is known only afterwards; if a sweep was just
// deleting what has that name, it is put once more.
func (s storing) PutShard(ctx context.Context, w *shard.Writer) (codec.Hash, error) {
	for {
		h, err := s.sink.PutShard(ctx, w)
		if err != nil {
			return codec.Hash{}, err
		}
		there, err := s.reuse.use(ctx, names.ShardKey(h))
		if err != nil || there {
			return h, err
		}
	}
}

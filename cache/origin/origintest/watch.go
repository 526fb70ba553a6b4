package origintest

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// A Call is one call of a store method.
type Call struct {
	Op   string // the method: "ReadAt", "PutIfMatch"
	Key  names.Key
	Off  int64 // of ReadAt
	Size int   // of ReadAt
}

// A Watched is a store that records its calls.
type Watched struct {
	origin.Store

	// Before is called before each call, unless it is nil. Its error replaces the result of the
	// call. It must be set before the store is used.
	Before func(context.Context, Call) error

	mu    sync.Mutex
	calls []Call // guarded by mu
}

// Watch returns a store that forwards each call to s.
func Watch(s origin.Store) *Watched { return &Watched{Store: s} }

// Calls returns the calls since the last call of Calls.
func (w *Watched) Calls() []Call {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := w.calls
	w.calls = nil
	return calls
}

// Reads returns the calls of ReadAt since the last call of Calls or Reads.
func (w *Watched) Reads() []Call {
	return slices.DeleteFunc(w.Calls(), func(c Call) bool { return c.Op != "ReadAt" })
}

func (w *Watched) note(ctx context.Context, c Call) error {
	w.mu.Lock()
	w.calls = append(w.calls, c)
	w.mu.Unlock()
	if w.Before == nil {
		return nil
	}
	return w.Before(ctx, c)
}

// ReadAt implements origin.Store.
func (w *Watched) ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error {
	if err := w.note(ctx, Call{Op: "ReadAt", Key: k, Off: off, Size: len(p)}); err != nil {
		return err
	}
	return w.Store.ReadAt(ctx, k, p, off)
}

// Size implements origin.Store.
func (w *Watched) Size(ctx context.Context, k names.Key) (int64, error) {
	if err := w.note(ctx, Call{Op: "Size", Key: k}); err != nil {
		return 0, err
	}
	return w.Store.Size(ctx, k)
}

// Get implements origin.Store.
func (w *Watched) Get(ctx context.Context, k names.Key, seen origin.Tag) ([]byte, origin.Tag, error) {
	if err := w.note(ctx, Call{Op: "Get", Key: k}); err != nil {
		return nil, "", err
	}
	return w.Store.Get(ctx, k, seen)
}

// List implements origin.Store.
func (w *Watched) List(ctx context.Context, prefix string, after names.Key) iter.Seq2[origin.Item, error] {
	if err := w.note(ctx, Call{Op: "List", Key: names.Key(prefix)}); err != nil {
		return func(yield func(origin.Item, error) bool) { yield(origin.Item{}, err) }
	}
	return w.Store.List(ctx, prefix, after)
}

// Local implements origin.CostReporter.
func (w *Watched) Local() bool { return origin.Local(w.Store) }

// RejectKey implements origin.KeyRejecter.
func (w *Watched) RejectKey(k names.Key) int {
	if r, ok := w.Store.(origin.KeyRejecter); ok {
		return r.RejectKey(k)
	}
	return 0
}

// Copies returns a store in which every object has a copy in each of stores. The copies of one
// key may differ. The first copy is used until it is rejected. The store is local if the first
// one is.
func Copies(stores ...origin.Store) origin.Store {
	return &copies{Store: stores[0], all: stores, rejected: map[names.Key][]int{}}
}

type copies struct {
	origin.Store
	all []origin.Store

	mu       sync.Mutex
	rejected map[names.Key][]int // the number of rejects of each copy of a key; guarded by mu
}

// RejectKey implements origin.KeyRejecter.
func (c *copies) RejectKey(k names.Key) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rejected[k] == nil {
		c.rejected[k] = make([]int, len(c.all))
	}
	c.rejected[k][c.bestLocked(k)]++
	return len(c.all) - 1
}

func (c *copies) bestLocked(k names.Key) int {
	best, least := 0, 0
	for i, n := range c.rejected[k] {
		if i == 0 || n < least {
			best, least = i, n
		}
	}
	return best
}

func (c *copies) of(k names.Key) origin.Store {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[c.bestLocked(k)]
}

// ReadAt implements origin.Store.
func (c *copies) ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error {
	return c.of(k).ReadAt(ctx, k, p, off)
}

// Size implements origin.Store.
func (c *copies) Size(ctx context.Context, k names.Key) (int64, error) {
	return c.of(k).Size(ctx, k)
}

// Local implements origin.CostReporter, by the first store.
func (c *copies) Local() bool { return origin.Local(c.Store) }

package sweep_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/names"
)

// A wire is the way of a process to the store that it shares with others. Calls take
// time, questions and answers are lost, and the process dies.
type wire struct {
	p       *process
	s       origin.WriteStore
	changes func(*process, origintest.Call) // receives calls that change the store; may be nil

	mu    sync.Mutex
	left  int // calls that change the store before the process dies; guarded by mu
	half  bool
	alive bool // guarded by mu
}

// connect gives a process a wire. It dies with the call that would be the n-th to change
// the store; 0: it lives on. With half that call is still done.
func (p *process) connect(s origin.WriteStore, n int, half bool) *wire {
	if n == 0 {
		n = -1
	}
	return &wire{p: p, s: s, left: n, half: half, alive: true}
}

// do makes a call.
func (w *wire) do(ctx context.Context, c origintest.Call, call func() error) error {
	dice := w.p.fate(c)
	if err := w.p.pass(ctx, w.p.delay(dice)); err != nil {
		return err
	}
	done, err := w.dying(c, call)
	if done {
		return err
	}
	roll := dice.Float64() / max(w.p.loss, 1e-9)
	switch {
	case !c.Changes() || c.Op == "Sync" || roll > 1:
		w.tell(c)
		err = call()
	case roll < 0.5:
		w.tell(c)
		_ = call()
		err = fmt.Errorf("%s: the answer was lost: %w", c.Key, origin.ErrUnknown)
	case roll < 0.75 || c.Op != "PutIfMatch":
		return fmt.Errorf("%s: the question was lost: %w", c.Key, origin.ErrUnknown)
	default:
		return fmt.Errorf("%s: refused for no reason: %w", c.Key, origin.ErrConflict)
	}
	if c.Changes() {
		w.p.sleep(w.p.delay(dice)) // until the answer comes
	}
	return err
}

func (w *wire) tell(c origintest.Call) {
	if w.changes != nil && (c.Changes() || *trace) {
		w.changes(w.p, c)
	}
}

// dying reports whether the process is dead, or dies with this call.
func (w *wire) dying(c origintest.Call, call func() error) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.alive && c.Changes() {
		w.left--
	}
	switch {
	case !w.alive:
		return true, origintest.ErrCrashed
	case w.left != 0 || !c.Changes():
		return false, nil
	}
	w.alive = false
	if w.half {
		w.tell(c)
		_ = call()
	}
	return true, origintest.ErrCrashed
}

// delay returns how long a call is under way, one way.
func (p *process) delay(dice *rand.Rand) time.Duration {
	d := time.Millisecond + time.Duration(dice.Int64N(int64(200*time.Millisecond)))
	if dice.Float64() < p.pauses && p.mayPause() {
		d += time.Duration(dice.Int64N(int64(p.long)))
	}
	return d
}

// mayPause reports whether a process may pause once more.
func (p *process) mayPause() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left--
	return p.left >= 0
}

func (w *wire) ReadAt(ctx context.Context, k names.Key, b []byte, off int64) error {
	return w.do(ctx, origintest.Call{Op: "ReadAt", Key: k, Off: off, Size: len(b)}, func() error { return w.s.ReadAt(ctx, k, b, off) })
}

func (w *wire) Size(ctx context.Context, k names.Key) (n int64, err error) {
	err = w.do(ctx, origintest.Call{Op: "Size", Key: k}, func() error {
		n, err = w.s.Size(ctx, k)
		return err
	})
	return n, err
}

func (w *wire) Get(ctx context.Context, k names.Key, seen origin.Tag) (b []byte, tag origin.Tag, err error) {
	err = w.do(ctx, origintest.Call{Op: "Get", Key: k}, func() error {
		b, tag, err = w.s.Get(ctx, k, seen)
		return err
	})
	if err == nil && w.p.rules.blind != nil {
		b, err = w.p.rules.blind(k, b)
	}
	return b, tag, err
}

func (w *wire) List(ctx context.Context, prefix string, after names.Key) iter.Seq2[origin.Item, error] {
	return func(yield func(origin.Item, error) bool) {
		err := w.do(ctx, origintest.Call{Op: "List", Key: names.Key(prefix)}, func() error { return nil })
		if err != nil {
			yield(origin.Item{}, err)
			return
		}
		for item, err := range w.s.List(ctx, prefix, after) {
			if !yield(item, err) {
				return
			}
		}
	}
}

func (w *wire) PutIfAbsent(ctx context.Context, k names.Key, b []byte) (tag origin.Tag, err error) {
	err = w.do(ctx, origintest.Call{Op: "PutIfAbsent", Key: k}, func() error {
		tag, err = w.s.PutIfAbsent(ctx, k, b)
		return err
	})
	return tag, err
}

func (w *wire) PutIfMatch(ctx context.Context, k names.Key, b []byte, old origin.Tag) (tag origin.Tag, err error) {
	err = w.do(ctx, origintest.Call{Op: "PutIfMatch", Key: k}, func() error {
		tag, err = w.s.PutIfMatch(ctx, k, b, old)
		return err
	})
	return tag, err
}

func (w *wire) Delete(ctx context.Context, k names.Key) error {
	return w.do(ctx, origintest.Call{Op: "Delete", Key: k}, func() error { return w.s.Delete(ctx, k) })
}

func (w *wire) Sync(ctx context.Context) error {
	return w.do(ctx, origintest.Call{Op: "Sync"}, func() error { return w.s.Sync(ctx) })
}

package origintest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// ErrCrashed is the error of every call of a Faults after the crash.
var ErrCrashed = errors.New("crashed, as the test wants")

// A Faults is a WriteStore between one writer and the store that it shares with others.
// It loses results, refuses calls without a reason, and crashes the writer. The fields must be
// set before the first call. The zero values cause no faults.
type Faults struct {
	// Before, if it is not nil, is called before each call, without a lock. It may block or let
	// other writers run first. Its error replaces the result, and the store is not called.
	Before func(context.Context, Call) error

	// CrashAt is the number of the changing call (Call.Changes) that crashes the writer, from 1;
	// 0: never. With Applied, this call still changes the store. Later calls do nothing. This
	// and all later calls return ErrCrashed.
	CrashAt int
	Applied bool

	Lost     float64 // probability that a put or delete succeeds and returns ErrUnknown
	Vanished float64 // probability that it does nothing and returns ErrUnknown
	Refused  float64 // probability that a PutIfMatch returns ErrConflict without a conflict
	Seed     uint64  // of the random numbers

	BadCache bool // one bit of each value is wrong, except with origin.NoCache

	store origin.WriteStore

	mu      sync.Mutex
	dice    *rand.Rand // guarded by mu
	changes int        // calls that change the store, so far; guarded by mu
	dead    bool       // guarded by mu
}

var _ origin.WriteStore = (*Faults)(nil)

// WithFaults returns a Faults that forwards each call to s.
func WithFaults(s origin.WriteStore) *Faults { return &Faults{store: s} }

// Changes reports whether the call can change the store, or make it durable.
func (c Call) Changes() bool {
	switch c.Op {
	case "PutIfAbsent", "PutIfMatch", "Delete", "Sync":
		return true
	}
	return false
}

// Changes returns the number of calls so far that could change the store.
func (f *Faults) Changes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changes
}

// Crashed reports whether the writer has crashed.
func (f *Faults) Crashed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead
}

// A fate is the decision about one call.
type fate struct {
	apply  bool
	answer error // replaces the result of the store; nil: no replacement
}

// decide decides the fate of a call.
func (f *Faults) decide(ctx context.Context, c Call) fate {
	if f.Before != nil {
		if err := f.Before(ctx, c); err != nil {
			return fate{answer: err}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.Changes() {
		f.changes++
	}
	switch {
	case f.dead:
		return fate{answer: ErrCrashed}
	case f.CrashAt > 0 && c.Changes() && f.changes >= f.CrashAt:
		f.dead = true
		return fate{apply: f.Applied, answer: ErrCrashed}
	case !c.Changes() || c.Op == "Sync":
		return fate{apply: true}
	}
	return f.rollLocked(c)
}

func (f *Faults) rollLocked(c Call) fate {
	if f.dice == nil {
		f.dice = rand.New(rand.NewPCG(f.Seed, 7))
	}
	switch p := f.dice.Float64(); {
	case p < f.Lost:
		return fate{true, fmt.Errorf("%s: the answer was lost: %w", c.Key, origin.ErrUnknown)}
	case p < f.Lost+f.Vanished:
		return fate{false, fmt.Errorf("%s: the question was lost: %w", c.Key, origin.ErrUnknown)}
	case c.Op == "PutIfMatch" && p < f.Lost+f.Vanished+f.Refused:
		return fate{false, fmt.Errorf("%s: refused, as the test wants: %w", c.Key, origin.ErrConflict)}
	}
	return fate{apply: true}
}

// do calls the store as decide has decided. The answer of the fate precedes an error of the
// store.
func (f *Faults) do(ctx context.Context, c Call, call func() error) error {
	fate := f.decide(ctx, c)
	if !fate.apply {
		return fate.answer
	}
	if err := call(); err != nil && fate.answer == nil {
		return err
	}
	return fate.answer
}

// Local implements origin.CostReporter.
func (f *Faults) Local() bool { return origin.Local(f.store) }

// ReadAt implements origin.Store.
func (f *Faults) ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error {
	return f.do(ctx, Call{Op: "ReadAt", Key: k, Off: off, Size: len(p)}, func() error {
		defer f.damage(ctx, p)
		return f.store.ReadAt(ctx, k, p, off)
	})
}

// Size implements origin.Store.
func (f *Faults) Size(ctx context.Context, k names.Key) (size int64, err error) {
	err = f.do(ctx, Call{Op: "Size", Key: k}, func() error {
		size, err = f.store.Size(ctx, k)
		return err
	})
	return size, err
}

// Get implements origin.Store.
func (f *Faults) Get(ctx context.Context, k names.Key, seen origin.Tag) (value []byte, tag origin.Tag, err error) {
	err = f.do(ctx, Call{Op: "Get", Key: k}, func() error {
		value, tag, err = f.store.Get(ctx, k, seen)
		f.damage(ctx, value)
		return err
	})
	return value, tag, err
}

// damage changes a value that was read.
func (f *Faults) damage(ctx context.Context, value []byte) {
	if f.BadCache && len(value) > 0 && !origin.IsNoCache(ctx) {
		value[len(value)/2] ^= 1
	}
}

// List implements origin.Store.
func (f *Faults) List(ctx context.Context, prefix string, after names.Key) iter.Seq2[origin.Item, error] {
	return func(yield func(origin.Item, error) bool) {
		if fate := f.decide(ctx, Call{Op: "List", Key: names.Key(prefix)}); !fate.apply {
			yield(origin.Item{}, fate.answer)
			return
		}
		for item, err := range f.store.List(ctx, prefix, after) {
			if !yield(item, err) {
				return
			}
		}
	}
}

// PutIfAbsent implements origin.WriteStore.
func (f *Faults) PutIfAbsent(ctx context.Context, k names.Key, value []byte) (tag origin.Tag, err error) {
	err = f.do(ctx, Call{Op: "PutIfAbsent", Key: k, Size: len(value)}, func() error {
		tag, err = f.store.PutIfAbsent(ctx, k, value)
		return err
	})
	return tag, err
}

// PutIfMatch implements origin.WriteStore.
func (f *Faults) PutIfMatch(ctx context.Context, k names.Key, value []byte, tag origin.Tag) (now origin.Tag, err error) {
	err = f.do(ctx, Call{Op: "PutIfMatch", Key: k, Size: len(value)}, func() error {
		now, err = f.store.PutIfMatch(ctx, k, value, tag)
		return err
	})
	return now, err
}

// Delete implements origin.WriteStore.
func (f *Faults) Delete(ctx context.Context, k names.Key) error {
	return f.do(ctx, Call{Op: "Delete", Key: k}, func() error { return f.store.Delete(ctx, k) })
}

// Sync implements origin.WriteStore.
func (f *Faults) Sync(ctx context.Context) error {
	return f.do(ctx, Call{Op: "Sync"}, func() error { return f.store.Sync(ctx) })
}

package writer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// errSweeping reports that a sweep is deleting a needed object at the moment.
var errSweeping = fmt.Errorf("a sweep is deleting this data; try again in a minute: %w", origin.ErrUnavailable)

// DefaultLease is the minimum time for which Leases protect an object.
const DefaultLease = 4 * time.Hour

// Leases protect the objects of unfinished uploads from sweeps. An upload spans many requests:
// the client learns of a chunk, sends a shard that names its xorb, then a commit. Leases hold
// between these requests. Objects that no live version uses are protected, too.
//
// Leases are sweep guards that Run renews in time, so their proof is that of a guard. A guard
// drops its keys at once: each lasts for one to two lives after the last Protect.
//
// Leases only make commits succeed. A process that stops for longer than a window loses them, and
// so does one that ends. A commit therefore protects and checks all its objects by its own guard
// (Session.Protect), while they are leased. Leases are safe for concurrent use.
type Leases struct {
	w    *Writer
	life time.Duration

	mu     sync.Mutex
	guards []leaseGuard // oldest first; guarded by mu
}

// A leaseGuard is a guard, and the time at which it began.
type leaseGuard struct {
	*sweepGuard
	opened time.Time
}

// OpenLeases returns Leases without objects. life: 0 means DefaultLease.
func (w *Writer) OpenLeases(life time.Duration) *Leases {
	if life == 0 {
		life = DefaultLease
	}
	return &Leases{w: w, life: life}
}

// Protect protects objects for at least one life, and returns those that do not exist. It does not
// wait while a sweep deletes one of them, which is origin.ErrUnavailable.
func (l *Leases) Protect(ctx context.Context, keys ...names.Key) (missing []names.Key, err error) {
	for try := 1; ; try++ {
		g, err := l.current(ctx)
		if err != nil {
			return nil, err
		}
		missing, err = g.protectExisting(ctx, keys)
		if !errors.Is(err, ErrSwept) || try == maxTries {
			return missing, err
		}
		l.replace(ctx, g)
	}
}

// protectExisting protects keys, records those that exist, and returns the others.
func (sg *sweepGuard) protectExisting(ctx context.Context, keys []names.Key) (missing []names.Key, err error) {
	if _, err := sg.protect(ctx, keys...); err != nil {
		return nil, err
	}
	missing, err = sg.missing(ctx, keys)
	if err == nil {
		sg.record(without(keys, missing)...)
	}
	return missing, err
}

// without returns the keys that are not in others.
func without(keys, others []names.Key) []names.Key {
	if len(others) == 0 {
		return keys
	}
	drop := map[names.Key]bool{}
	for _, k := range others {
		drop[k] = true
	}
	return slices.DeleteFunc(slices.Clone(keys), func(k names.Key) bool { return drop[k] })
}

// missing returns the keys without an object.
func (sg *sweepGuard) missing(ctx context.Context, keys []names.Key) (missing []names.Key, err error) {
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(putsAtOnce)
	for _, k := range keys {
		g.Go(func() error {
			_, err := sg.w.store.Size(ctx, k)
			if !errors.Is(err, origin.ErrNotFound) {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			missing = append(missing, k)
			return nil
		})
	}
	return missing, g.Wait()
}

// current returns the newest guard. It opens one if the newest is older than a life.
func (l *Leases) current(ctx context.Context) (*sweepGuard, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.w.o.Clock()
	if n := len(l.guards); n > 0 && elapsed(l.guards[n-1].opened, now) < l.life {
		return l.guards[n-1].sweepGuard, nil
	}
	g, err := l.open(ctx)
	if err == nil {
		l.guards = append(l.guards, leaseGuard{g, now})
	}
	return g, err
}

func (l *Leases) open(ctx context.Context) (*sweepGuard, error) {
	g, err := l.w.openSweepGuard(ctx)
	if err == nil {
		g.noWait = true
	}
	return g, err
}

// replace replaces a guard that has lost an object by one with its other objects.
func (l *Leases) replace(ctx context.Context, old *sweepGuard) {
	old.mu.Lock()
	keys := old.reusedLocked()
	old.mu.Unlock()
	fresh, err := l.open(ctx)
	if err == nil {
		_, err = fresh.protectExisting(ctx, keys)
	}
	if err != nil {
		l.w.o.Logger.Warn("leases of uploads were lost", "event", "leases_lost", "objects", len(keys), "err", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.IndexFunc(l.guards, func(g leaseGuard) bool { return g.sweepGuard == old })
	switch {
	case i < 0: // another caller was faster
	case err != nil:
		l.guards = slices.Delete(l.guards, i, i+1)
	default:
		l.guards[i].sweepGuard = fresh
	}
}

// Renew renews the guards whose window is half over, and drops those older than two lives.
func (l *Leases) Renew(ctx context.Context) {
	l.mu.Lock()
	now := l.w.o.Clock()
	l.guards = slices.DeleteFunc(l.guards, func(g leaseGuard) bool { return elapsed(g.opened, now) >= 2*l.life })
	guards := slices.Clone(l.guards)
	l.mu.Unlock()
	for _, g := range guards {
		_, err := g.renew(ctx)
		switch {
		case errors.Is(err, ErrSwept):
			l.replace(ctx, g.sweepGuard)
		case err != nil && ctx.Err() == nil:
			l.w.o.Logger.Warn("the leases of uploads could not be renewed", "event", "leases_late", "err", err)
		}
	}
}

// Run renews the leases until ctx ends.
func (l *Leases) Run(ctx context.Context) {
	for l.w.o.Sleep(ctx, max(time.Millisecond, l.w.catalog.Settings().Window/8)) == nil {
		l.Renew(ctx)
	}
}

// Protect protects objects until the session ends, and returns those that do not exist. The
// session then publishes entries with these shards without a further check. A caller names the xorbs
// of each shard, too. A sweep may list a xorb and not the shard, which may be younger than the list.
func (s *Session) Protect(ctx context.Context, keys ...names.Key) (missing []names.Key, err error) {
	if missing, err = s.guard.protectExisting(ctx, keys); err != nil {
		return nil, err
	}
	s.reuse.remember(true, without(keys, missing)...)
	s.reuse.remember(false, missing...)
	return missing, nil
}

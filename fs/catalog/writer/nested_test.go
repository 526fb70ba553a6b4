package writer

import (
	"context"
	"errors"
	iofs "io/fs"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

// A symbol whose first version would be hidden by another in a mount, or hide another, is
// refused. Symbols without a live version do not count.
func TestCheckNested(t *testing.T) {
	d := newFixture(t, origintest.Memory())
	for _, symbol := range []string{"me", "you/a", "you/b", "they/a/b", "me-too", "gone", "was/gone"} {
		d.must(d.replace(symbol, "f=1"))
	}
	for _, symbol := range []string{"gone", "was/gone"} {
		if err := d.Delete(t.Context(), symbol, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ symbol, hidden, by string }{
		{"me/proj", "me/proj", "me"},
		{"me/a/b", "me/a/b", "me"},
		{"you", "you/a", "you"},
		{"they/a", "they/a/b", "they/a"},
		{"they", "they/a/b", "they"},
		{"me", "", ""}, // it is live
		{"me-too/a", "me-too/a", "me-too"},
		{"m", "", ""},
		{"yo/a", "", ""},
		{"gone/a", "", ""},
		{"was", "", ""},
	} {
		_, err := d.Begin(t.Context(), tt.symbol, PublishOptions{})
		var nested *catalog.NestedError
		switch {
		case tt.hidden == "" && err != nil:
			t.Errorf("%s: %v", tt.symbol, err)
		case tt.hidden != "" && (!errors.As(err, &nested) || *nested != catalog.NestedError{Hidden: tt.hidden, By: tt.by}):
			t.Errorf("%s: %v, want %s hidden by %s", tt.symbol, err, tt.hidden, tt.by)
		}
	}
}

// A nestedRace is two first publishes of me and me/proj at one store.
type nestedRace struct {
	t     *testing.T
	store origin.WriteStore
}

// publish publishes a symbol through a store.
func (r nestedRace) publish(s origin.WriteStore, symbol string) error {
	return publishOnce(newFixture(r.t, s), symbol)
}

// publishOnce publishes a symbol that must not be nested.
func publishOnce(d *fixture, symbol string) error {
	b, err := d.Begin(context.Background(), symbol, PublishOptions{})
	if err == nil {
		_, err = b.Replace(context.Background(), seqOf(entriesOf("f=1")))
	}
	return err
}

// isLive reports whether a symbol has a live version.
func (r nestedRace) isLive(symbol string) bool {
	r.t.Helper()
	_, err := newFixture(r.t, r.store).Catalog().Latest(r.t.Context(), symbol)
	if err != nil && !errors.Is(err, iofs.ErrNotExist) {
		r.t.Fatal(err)
	}
	return err == nil
}

// wantNested checks the outcome of a publish that yields.
func (r nestedRace) wantNested(symbol string, err error) {
	r.t.Helper()
	if !errors.As(err, new(*catalog.NestedError)) {
		r.t.Errorf("publish of %s: %v, want a NestedError", symbol, err)
	}
	if r.isLive(symbol) {
		r.t.Errorf("%s is live", symbol)
	}
}

// wantLive checks the outcome of a publish that succeeds.
func (r nestedRace) wantLive(symbol string, err error) {
	r.t.Helper()
	if err != nil {
		r.t.Errorf("publish of %s: %v", symbol, err)
	}
	if !r.isLive(symbol) {
		r.t.Errorf("%s is not live", symbol)
	}
}

// isSwap reports whether a call creates a reference.
func isSwap(c origintest.Call) bool {
	p, err := names.ParseKey(c.Key)
	return c.Op == "PutIfAbsent" && err == nil && p.Kind == names.RefKind
}

var nestedPairs = []struct{ first, second string }{{"me", "me/proj"}, {"me/proj", "me"}}

// The second publish began before the first one ended, and is refused without a change.
func TestNestedBeforeCommit(t *testing.T) {
	for _, tt := range nestedPairs {
		r := nestedRace{t, origintest.Memory()}
		d := newFixture(t, r.store)
		b, err := d.Begin(t.Context(), tt.second, PublishOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r.wantLive(tt.first, r.publish(r.store, tt.first))
		_, err = b.Replace(t.Context(), seqOf(entriesOf("f=1")))
		r.wantNested(tt.second, err)
		if _, err := r.store.Size(t.Context(), names.RefKey(tt.second)); !errors.Is(err, origin.ErrNotFound) {
			t.Errorf("reference of %s: %v", tt.second, err)
		}
	}
}

// One publish happens as a whole just before the swap of the other, which yields.
func TestNestedBeforeSwap(t *testing.T) {
	for _, tt := range nestedPairs {
		r := nestedRace{t, origintest.Memory()}
		f := origintest.WithFaults(r.store)
		f.Before = func(_ context.Context, c origintest.Call) error {
			if isSwap(c) {
				r.wantLive(tt.first, r.publish(r.store, tt.first))
			}
			return nil
		}
		r.wantNested(tt.second, r.publish(f, tt.second))
		r.wantLive(tt.first, nil)
	}
}

// Both publishes have swapped before one of them looks. The hidden symbol yields.
func TestNestedAfterSwaps(t *testing.T) {
	for _, tt := range nestedPairs {
		r := nestedRace{t, origintest.Memory()}
		swap, swapped := make(chan struct{}), make(chan struct{})
		late := origintest.WithFaults(r.store) // swaps when the other one has
		late.Before = func(_ context.Context, c origintest.Call) error {
			if isSwap(c) {
				<-swap
			}
			return nil
		}
		early := origintest.WithFaults(r.store) // looks when the other one has swapped
		var done atomic.Bool                    // the swap of the early one
		early.Before = func(_ context.Context, c origintest.Call) error {
			if (c.Op == "Get" || c.Op == "List") && done.CompareAndSwap(true, false) {
				close(swap)
				<-swapped
			}
			if isSwap(c) {
				done.Store(true)
			}
			return nil
		}
		var lateErr error
		lateFixture := newFixture(t, late)
		go func() {
			defer close(swapped)
			lateErr = publishOnce(lateFixture, tt.second)
		}()
		for { // the late one looks for nested symbols before its swap
			if _, err := r.store.Size(t.Context(), names.SettingsKey()); err == nil && len(keysOf(t, r.store, names.VersionsPrefix(tt.second))) > 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		earlyErr := r.publish(early, tt.first)
		if tt.second == "me/proj" {
			r.wantNested("me/proj", lateErr)
			r.wantLive("me", earlyErr)
		} else { // me waited for me/proj, whose writer did not look meanwhile
			r.wantNested("me", lateErr)
			r.wantLive("me/proj", earlyErr)
		}
	}
}

// A hidden symbol yields while the writer of the other one waits.
func TestNestedWait(t *testing.T) {
	r := nestedRace{t, origintest.Memory()}
	hidden := newFixture(t, r.store)
	row := hidden.must(hidden.replace("me/proj", "f=1")) // as if its writer had not looked yet
	d := newFixture(t, r.store)
	o := d.options()
	o.Sleep = func(ctx context.Context, _ time.Duration) error { return hidden.Delete(ctx, "me/proj", row.Number) }
	w := newTestPublisher(t, r.store, o)
	b, err := w.Begin(t.Context(), "me", PublishOptions{Nested: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Replace(t.Context(), seqOf(entriesOf("f=1"))); err != nil {
		t.Fatal(err)
	}
	if err := w.yieldNested(t.Context(), &names.Version{Symbol: "me"}); err != nil {
		t.Error(err)
	}
	r.wantLive("me", nil)
}

// Any order of two first publishes leaves at most one symbol, and that of a publish that
// succeeded.
func TestNestedAtOnce(t *testing.T) {
	for seed := range uint64(100) {
		r := nestedRace{t, origintest.Memory()}
		newFixture(t, r.store) // creates the catalog
		var wg sync.WaitGroup
		errs := map[string]*error{"me": new(error), "me/proj": new(error)}
		for symbol, err := range errs {
			dice := rand.New(rand.NewPCG(seed, uint64(len(symbol))))
			f := origintest.WithFaults(r.store)
			var mu sync.Mutex
			f.Before = func(context.Context, origintest.Call) error {
				mu.Lock()
				pause := time.Duration(dice.IntN(200)) * time.Microsecond
				mu.Unlock()
				time.Sleep(pause)
				return nil
			}
			d := newFixture(t, f)
			wg.Go(func() { *err = publishOnce(d, symbol) })
		}
		wg.Wait()
		live := 0
		for symbol, err := range errs {
			if *err == nil {
				r.wantLive(symbol, nil)
				live++
				continue
			}
			r.wantNested(symbol, *err)
		}
		if live > 1 {
			t.Fatalf("seed %d: both symbols are live", seed)
		}
	}
}

// A writer that is killed after its swap leaves a symbol that the catalog reports as hidden.
func TestNestedCrash(t *testing.T) {
	for _, tt := range nestedPairs {
		r := nestedRace{t, origintest.Memory()}
		f := origintest.WithFaults(r.store)
		var swapped atomic.Bool
		f.Before = func(_ context.Context, c origintest.Call) error {
			if swapped.Load() && c.Op != "Sync" {
				return origintest.ErrCrashed
			}
			if isSwap(c) {
				swapped.Store(true)
				r.wantLive(tt.first, r.publish(r.store, tt.first))
			}
			return nil
		}
		_ = r.publish(f, tt.second)
		by, err := newFixture(t, r.store).Catalog().HiddenBy(t.Context(), "me/proj", func(string) bool { return true })
		if by != "me" || err != nil {
			t.Errorf("me/proj is hidden by %q, %v", by, err)
		}
		r.wantLive(tt.second, nil)
	}
}

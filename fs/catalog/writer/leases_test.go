package writer

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// leaseFixture returns a fixture, Leases of two hours, and the keys of two xorbs. The first exists.
func leaseFixture(t *testing.T) (d *fixture, l *Leases, there, gone names.Key) {
	t.Helper()
	d = newFixture(t, origintest.Memory())
	there, gone = names.XorbKey(codec.Hash{1}), names.XorbKey(codec.Hash{2})
	if err := origintest.Replace(d.store, there, []byte("old")); err != nil {
		t.Fatal(err)
	}
	return d, d.OpenLeases(2 * time.Hour), there, gone
}

func mustProtect(t *testing.T, p interface {
	Protect(ctx context.Context, keys ...names.Key) ([]names.Key, error)
}, want []names.Key, keys ...names.Key) {
	t.Helper()
	missing, err := p.Protect(t.Context(), keys...)
	if err != nil || !slices.Equal(missing, want) {
		t.Fatalf("missing %v, %v, want %v", missing, err, want)
	}
}

// A leased object is kept by the sweep that is announced, and by the next one.
func TestLeaseKeeps(t *testing.T) {
	d, l, there, gone := leaseFixture(t)
	first := announceSweep(t, d.store, 0, there, gone)
	mustProtect(t, l, []names.Key{gone}, there, gone)
	if doomed := first.decide(d.Now().Add(time.Hour)); slices.Contains(doomed, there) {
		t.Error("the first sweep deletes the object")
	}
	first.finish(nil)
	second := announceSweep(t, d.store, 1, there)
	d.Pass(40 * time.Minute) // more than half a window
	l.Renew(t.Context())
	if !slices.Contains(second.kept(), there) {
		t.Error("the second sweep was not asked to keep the object")
	}
}

// A lease ends after at most two lives without a use.
func TestLeaseEnds(t *testing.T) {
	d, l, there, _ := leaseFixture(t)
	mustProtect(t, l, nil, there)
	for range 8 {
		d.Pass(30 * time.Minute)
		l.Renew(t.Context())
	}
	sweep := announceSweep(t, d.store, 0, there)
	d.Pass(30 * time.Minute)
	l.Renew(t.Context())
	if len(l.guards) > 0 || len(sweep.kept()) > 0 {
		t.Errorf("%d guards, kept %v", len(l.guards), sweep.kept())
	}
}

// Leases do not wait for a sweep that is deleting.
func TestLeaseWhileDeleting(t *testing.T) {
	d, l, there, _ := leaseFixture(t)
	sweep := announceSweep(t, d.store, 0, there)
	doomed := sweep.decide(d.Now().Add(time.Hour))
	if _, err := l.Protect(t.Context(), there); !errors.Is(err, errSweeping) {
		t.Errorf("error %v", err)
	}
	sweep.finish(doomed)
	mustProtect(t, l, []names.Key{there}, there)
}

// A process that stopped for longer than a window keeps the leases of the objects that still exist.
func TestLeaseAfterStop(t *testing.T) {
	d, l, there, other := leaseFixture(t)
	if err := origintest.Replace(d.store, other, []byte("old")); err != nil {
		t.Fatal(err)
	}
	mustProtect(t, l, nil, there, other)
	d.Pass(90 * time.Minute)
	if err := d.store.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	mustProtect(t, l, []names.Key{other}, other)
	sweep := announceSweep(t, d.store, 0, there)
	d.Pass(40 * time.Minute)
	l.Renew(t.Context())
	if !slices.Contains(sweep.kept(), there) {
		t.Error("the sweep was not asked to keep the object")
	}
}

// A session protects the xorbs of a shard that no sweep lists.
func TestSessionProtect(t *testing.T) {
	d, _, there, gone := leaseFixture(t)
	sweep := announceSweep(t, d.store, 0, there)
	s, err := d.Begin(t.Context(), "m", PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	mustProtect(t, s, []names.Key{gone}, there, gone)
	if !slices.Contains(sweep.kept(), there) {
		t.Error("the sweep was not asked to keep the object")
	}
}

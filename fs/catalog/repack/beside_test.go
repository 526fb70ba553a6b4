package repack_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog/repack"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// A hookedStore calls a function before one change of a key with some prefix.
type hookedStore struct {
	origin.WriteStore
	prefix string
	before func()
	once   sync.Once // for before
}

func (h *hookedStore) run(k names.Key) {
	if len(k) > len(h.prefix) && string(k[:len(h.prefix)]) == h.prefix {
		h.once.Do(h.before)
	}
}

func (h *hookedStore) PutIfAbsent(ctx context.Context, k names.Key, value []byte) (origin.Tag, error) {
	h.run(k)
	return h.WriteStore.PutIfAbsent(ctx, k, value)
}

func (h *hookedStore) PutIfMatch(ctx context.Context, k names.Key, value []byte, tag origin.Tag) (origin.Tag, error) {
	h.run(k)
	return h.WriteStore.PutIfMatch(ctx, k, value, tag)
}

// A publish, deletion or snapshot beside a repack happens, at each step of the repack.
func TestBeside(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, prefix := range []string{names.XorbPrefix, names.ShardPrefix, names.PagePrefix, names.VersionPrefix, names.RefPrefix, names.SnapshotPrefix} {
		for name, change := range map[string]func(s *fixture) error{
			"publish": func(s *fixture) error {
				tree := changing(12, 3000, 12) // as the newest version, and one file more
				tree["late"] = noise(99, 3000)
				_, _, err := publish(s.writer(s.store), s.store, "m", tree)
				return err
			},
			"new symbol": func(s *fixture) error {
				_, _, err := publish(s.writer(s.store), s.store, "new", changing(12, 3000, 9))
				return err
			},
			"delete": func(s *fixture) error { return s.writer(s.store).Delete(ctx, "m", 3) },
			"snapshot": func(s *fixture) error {
				_, err := s.writer(s.store).Snapshot(ctx, "late", "", map[string]names.AsOf{"m": {}}, true)
				return err
			},
		} {
			t.Run(name+" before "+prefix, func(t *testing.T) {
				s := newFixture(t)
				s.fill()
				var want map[string]string
				h := &hookedStore{WriteStore: s.store, prefix: prefix}
				h.before = func() {
					if err := change(s); err != nil {
						t.Error(err)
					}
					want = view(t, s.store)
				}
				if _, err := s.repackOver(h, eager); err != nil {
					t.Fatal(err)
				}
				equalViews(t, "after the repack", view(t, s.store), want)
				s.sweepNow()
				equalViews(t, "after a sweep", view(t, s.store), want)
				s.repack(eager)
				s.sweep()
				equalViews(t, "after another repack and sweep", view(t, s.store), want)
				s.check()
			})
		}
	}
}

// A publish that began before a repack and ends after it.
func TestPublishAround(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.fill()
	want := view(t, s.store)
	h := &hookedStore{WriteStore: s.store, prefix: names.VersionPrefix}
	h.before = func() { s.repack(eager) }
	tree := changing(12, 3000, 12)
	tree["late"] = noise(99, 3000)
	row, _, err := publish(s.writer(h), h, "m", tree)
	if err != nil {
		t.Fatal(err)
	}
	s.sweepNow()
	s.sweep()
	got := view(t, s.store)
	if row.Number != 5 || len(got) != len(want)+1 {
		t.Errorf("version %d, and a reader sees %v", row.Number, got)
	}
	s.check()
}

// A tree that was opened before a repack can be read until the time of grace is over. Then its
// objects are gone. The same holds for a snapshot of a deleted version.
func TestOldTree(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.fill()
	s.publish("alone", files{"a": noise(41, 20_000), "b": noise(42, 20_000)}) // a tree that only a snapshot has
	s.publish("alone", files{"b": noise(42, 20_000)})
	w := s.writer(s.store)
	ctx := context.Background()
	_, err := w.Snapshot(ctx, "alone", "", map[string]names.AsOf{"alone": {Form: names.ByNumber}}, false)
	if err = errors.Join(err, w.Delete(ctx, "alone", 0)); err != nil {
		t.Fatal(err)
	}
	old := map[string]names.Row{}
	if old["latest"], err = w.Catalog().Latest(ctx, "m"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kept", "alone"} {
		snap, err := w.Catalog().Snapshot(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(old, snap.Rows)
	}
	sums := map[string]string{}
	for name, row := range old {
		sums[name] = readTree(t, s.store, row)
	}
	s.pass(2 * grace) // no deletion keeps a tree any more
	s.repack(eager)
	s.sweepNow()
	for name, row := range old {
		if got := readTree(t, s.store, row); got != sums[name] {
			t.Errorf("%s: %s, want %s", name, got, sums[name])
		}
	}
	s.sweep()
	for name, row := range old {
		if _, err := s.store.Size(ctx, names.PageKey(row.Root)); err == nil {
			t.Errorf("%s: the old tree stays", name)
		}
	}
}

// A repack uses a xorb of a killed one, and a whole sweep deletes the xorb before the repack commits.
// The repack fails or stores the xorb again: no version needs what is gone. If the sweep waits before
// its deletions meanwhile, the repack keeps the xorb.
func TestReuseBesideSweep(t *testing.T) {
	t.Parallel()
	killed := func() *fixture {
		s := newFixture(t)
		s.fill()
		f := origintest.WithFaults(s.store)
		f.Before = func(_ context.Context, c origintest.Call) error {
			if c.Op == "PutIfAbsent" && strings.HasPrefix(string(c.Key), names.ShardPrefix) {
				return origintest.ErrCrashed
			}
			return nil
		}
		if _, err := s.repackOver(f, eager); err == nil {
			t.Fatal("the repack was not killed")
		}
		s.pass(grace + time.Second)
		return s
	}
	reuses := func(r *repack.Report) {
		t.Helper()
		if r == nil || r.Reused.Objects == 0 {
			t.Errorf("the second repack uses no xorb of the first one: %+v", r)
		}
	}

	s := killed()
	want := view(t, s.store)
	r, err := s.repackOver(&hookedStore{WriteStore: s.store, prefix: names.ShardPrefix, before: func() { s.sweepNow() }}, eager)
	reuses(r)
	if err != nil && !errors.Is(err, writer.ErrSwept) {
		t.Error(err)
	}
	equalViews(t, "around a whole sweep", view(t, s.store), want)
	s.check()

	s = killed()
	s.sweepWhile(func() { reuses(s.repack(eager)) })
	equalViews(t, "within a sweep", view(t, s.store), want)
	s.check()
}

// With a symbol, only its data is replaced. Another symbol that shares some of it moves, too.
func TestSymbol(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.fill()
	want := view(t, s.store)
	o := eager
	o.Symbol = "other/one"
	r := s.repack(o)
	all := repack.NewPlan(r.Usage, o.MaxUnused, nil)
	if len(r.Plan.Xorbs) == 0 || len(r.Plan.Xorbs) >= len(all.Xorbs) {
		t.Errorf("%d xorbs are replaced, of all %d", len(r.Plan.Xorbs), len(all.Xorbs))
	}
	s.sweep()
	equalViews(t, "after the sweep", view(t, s.store), want)
	s.check()
}

// A damaged xorb stays, with the rest of the plan done.
func TestDamagedXorb(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.fill()
	r := s.repack(repack.Options{MaxUnused: 0.05, DryRun: true})
	var bad names.Key
	for x := range r.Plan.Xorbs {
		if k := names.XorbKey(x); r.Usage.Xorbs[x].Used == r.Usage.Xorbs[x].Packed && (bad == "" || k < bad) {
			bad = k
		}
	}
	value, tag, err := s.store.Get(context.Background(), bad, "")
	if err != nil {
		t.Fatal(err)
	}
	for i := 8; i < 3000 && i < len(value); i++ {
		value[i] ^= 1
	}
	if _, err := s.store.PutIfMatch(context.Background(), bad, value, tag); err != nil {
		t.Fatal(err)
	}
	if r := s.repack(eager); r.Xorbs.Objects == 0 {
		t.Error("nothing is copied")
	}
	if _, err := s.store.Size(context.Background(), bad); err != nil {
		t.Error(err)
	}
	n := 0
	_, err = sweep.Check(context.Background(), s.store, origin.Pages(s.store), sweep.CheckOptions{
		Data: true, Found: func(sweep.Finding) { n++ },
	})
	if err != nil || n != 1 {
		t.Errorf("%v, and %d findings, want that of the xorb", err, n)
	}
}

// Many files may use one missing xorb. Each pass over a shard warns of it once.
func TestMissingXorb(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.fill()
	plan := s.repack(repack.Options{MaxUnused: 0.05, DryRun: true})
	for x := range plan.Plan.Xorbs {
		if u := plan.Usage.Xorbs[x]; u.Used == u.Packed { // it is replaced for its shard alone
			if err := s.store.Delete(context.Background(), names.XorbKey(x)); err != nil {
				t.Fatal(err)
			}
		}
	}
	var log bytes.Buffer
	o := eager
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	r := s.repack(o)
	const shards, passes = 2, 2 // with such files; the second pass begins when a xorb is found missing
	if n := strings.Count(log.String(), "cannot be proven"); n == 0 || n > shards*passes || r.Left <= shards*passes {
		t.Errorf("%d warnings of %d files, want at most %d:\n%s", n, r.Left, shards*passes, log.String())
	}
}

// The least memory is enough for a small store. Less is refused with a sentence.
func TestMemory(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.fill()
	o := eager
	if _, err := sweep.Survey(context.Background(), s.store, origin.Pages(s.store), 1, nil); !errors.Is(err, sweep.ErrMemory) {
		t.Errorf("a usage in one byte: %v", err)
	}
	o.Memory = repack.MinMemory - 1
	if _, err := s.repackOver(s.store, o); !errors.Is(err, sweep.ErrMemory) {
		t.Errorf("less than the least memory: %v", err)
	}
	o.Memory++
	if _, err := s.repackOver(s.store, o); err != nil {
		t.Error(err)
	}
}

package repack_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog/repack"
)

// fill makes a store with work for a repack: two symbols that share files, deleted versions, and
// a snapshot of one of them.
func (s *fixture) fill() {
	s.t.Helper()
	shared := noise(77, 30_000)
	for v := range 5 {
		tree := changing(12, 3000, 3*v)
		tree["shared"] = shared
		s.publish("m", tree)
	}
	s.publish("other/one", files{"a": shared, "b": noise(5, 100), "gone": noise(6, 20_000)})
	s.publish("other/one", files{"a": shared, "b": noise(5, 100)})
	s.publish("empty", files{"x": noise(8, 10)})
	w, ctx := s.writer(s.store), context.Background()
	if _, err := w.Snapshot(ctx, "kept", "", map[string]names.AsOf{"m": {Form: names.ByNumber, Number: 2}, "other/one": {}}, false); err != nil {
		s.t.Fatal(err)
	}
	err := errors.Join(w.Delete(ctx, "m", 0, 1, 2), w.Delete(ctx, "other/one", 0), w.Delete(ctx, "empty", 0))
	if err != nil {
		s.t.Fatal(err)
	}
	s.pass(grace + time.Second)
}

var eager = repack.Options{MaxUnused: 0.05}

// A repack that is killed at any call to the store leaves all versions as they are, and the next
// one completes. The next sweeps leave what a sweep after an undisturbed repack leaves.
func TestKilled(t *testing.T) {
	t.Parallel()
	first := newFixture(t)
	first.fill()
	want := view(t, first.store)
	smooth := fixtureAt(t, first.time())
	smooth.store = copyAt(t, first)
	smooth.repack(eager)
	smooth.sweep()
	smooth.sweep()
	equalViews(t, "an undisturbed repack", view(t, smooth.store), want)
	smooth.check()
	least := map[string]int64{}
	for _, prefix := range []string{names.XorbPrefix, names.ShardPrefix} {
		least[prefix] = sizes(t, smooth.store, prefix).Objects
	}
	for n, alive := 1, true; alive; n++ {
		s := fixtureAt(t, first.time())
		s.store = copyAt(t, s, first.store)
		f := origintest.WithFaults(s.store)
		f.CrashAt, f.Applied = n, n%2 == 0
		_, err := s.repackOver(f, eager)
		if alive = f.Crashed(); alive == (err == nil) {
			t.Errorf("killed at call %d: %v, error %v", n, alive, err)
		}
		if got := view(t, s.store); !maps.Equal(got, want) {
			t.Fatalf("killed at call %d: a reader sees\n%v\nwant\n%v", n, got, want)
		}
		s.repack(eager)
		if r := s.repack(repack.Options{MaxUnused: eager.MaxUnused, DryRun: true}); !r.Plan.IsEmpty() {
			t.Errorf("killed at call %d: a third run replaces %+v and %+v, with %d bytes unused", n, r.Plan.Replaced, r.Plan.Lists, r.Usage.UnusedBytes())
		}
		s.sweep()
		s.sweep()
		if got := view(t, s.store); !maps.Equal(got, want) {
			t.Fatalf("killed at call %d, repacked and swept: a reader sees\n%v\nwant\n%v", n, got, want)
		}
		for prefix, few := range least {
			if got := sizes(t, s.store, prefix); got.Objects > few {
				t.Errorf("killed at call %d: %d objects of %s, want %d", n, got.Objects, prefix, few)
			}
		}
		if n%9 == 0 {
			s.check()
		}
	}
}

// A transfer damages each object once. The second read is sound, so that the repack replaces the same objects as
// without damage.
func TestDamagedTransfers(t *testing.T) {
	t.Parallel()
	first := newFixture(t)
	first.fill()
	smooth := fixtureAt(t, first.time())
	smooth.store = copyAt(t, first)
	want := smooth.repack(eager)
	s := fixtureAt(t, first.time())
	s.store = copyAt(t, s, first.store)
	bad := origintest.WithFaults(s.store)
	bad.BadCache = true
	got, err := s.repackOver(bad, eager)
	if err != nil {
		t.Fatal(err)
	}
	if got.Left != 0 || got.Xorbs != want.Xorbs || got.Shards != want.Shards {
		t.Errorf("%d files were left, stored %+v and %+v, want %+v and %+v", got.Left, got.Xorbs, got.Shards, want.Xorbs, want.Shards)
	}
	equalViews(t, "after a repack with damaged transfers", view(t, s.store), view(t, first.store))
	s.check()
}

// copyAt returns a copy of a store on the clock of a fixture, older than the time of grace.
func copyAt(t *testing.T, s *fixture, of ...origin.Store) origin.WriteStore {
	t.Helper()
	from := origin.Store(s.store)
	if len(of) > 0 {
		from = of[0]
	}
	now := s.time()
	s.setTime(now.Add(-2 * grace))
	store := origintest.MemoryAt(s.time)
	for item, err := range from.List(context.Background(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		b, _, err := from.Get(context.Background(), item.Key, "")
		if err == nil {
			_, err = store.PutIfAbsent(context.Background(), item.Key, b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s.setTime(now)
	return store
}

// A repack of a folder that is killed at some calls.
func TestKilledFolder(t *testing.T) {
	t.Parallel()
	for n, alive := 2, true; alive; n += 23 {
		d, err := dir.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		origintest.Close(t, d)
		s := fixtureAt(t, time.Now())
		s.store = d
		s.fill()
		want := view(t, d)
		f := origintest.WithFaults(d)
		f.CrashAt = n
		_, _ = s.repackOver(f, eager) // the error is that of the crash
		alive = f.Crashed()
		equalViews(t, "after the crash", view(t, d), want)
		if r := s.repack(eager); alive && r.Plan.IsEmpty() && r.Symbols > 0 {
			t.Error("nothing to do, and something done")
		}
		equalViews(t, "after the second run", view(t, d), want)
		s.check()
		if r := s.repack(eager); !r.Plan.IsEmpty() {
			t.Errorf("killed at call %d: the third run replaces %+v", n, r.Plan)
		}
	}
}

// Lost answers of the store do not harm.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	first := newFixture(t)
	first.fill()
	want := view(t, first.store)
	for seed := range uint64(20) {
		s := fixtureAt(t, first.time())
		s.store = copyAt(t, s, first.store)
		f := origintest.WithFaults(s.store)
		f.Lost, f.Vanished, f.Refused, f.Seed = 0.2, 0.05, 0.05, seed
		_, err := s.repackOver(f, eager)
		if got := view(t, s.store); !maps.Equal(got, want) {
			t.Fatalf("seed %d: %v: a reader sees\n%v\nwant\n%v", seed, err, got, want)
		}
	}
}

// A fullStore has no space for xorbs.
type fullStore struct{ origin.WriteStore }

func (f fullStore) PutIfAbsent(ctx context.Context, k names.Key, value []byte) (origin.Tag, error) {
	if strings.HasPrefix(string(k), names.XorbPrefix) {
		return "", fmt.Errorf("%s: %w", k, syscall.ENOSPC)
	}
	return f.WriteStore.PutIfAbsent(ctx, k, value)
}

// The error of a full store names the xorb that has no space, and no shard that is read.
func TestFullStore(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	large := files{} // more than a xorb holds, so that one is full in the middle of a shard
	for i := range 37 {
		large[fmt.Sprintf("%02d", i)] = noise(i, 2<<20)
	}
	s.publish("m", large)
	for i := range 4 {
		delete(large, fmt.Sprintf("%02d", i))
	}
	s.publish("m", large)
	if err := s.writer(s.store).Delete(t.Context(), "m", 0); err != nil {
		t.Fatal(err)
	}
	want := view(t, s.store)
	_, err := s.repackOver(fullStore{s.store}, eager)
	if !errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), names.ShardPrefix) {
		t.Errorf("error %v", err)
	}
	equalViews(t, "on a full store", view(t, s.store), want)
}

package repack_test

import (
	"cmp"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog/repack"
)

// snapshot makes a snapshot of the newest versions of symbols.
func (s *fixture) snapshot(name string, symbols ...string) {
	s.t.Helper()
	rows := map[string]names.AsOf{}
	for _, symbol := range symbols {
		rows[symbol] = names.AsOf{}
	}
	if _, err := s.writer(s.store).Snapshot(s.t.Context(), name, "", rows, false); err != nil {
		s.t.Fatal(err)
	}
}

// repackSnapshots repacks and expects new rows in a number of snapshots.
func (s *fixture) repackSnapshots(want int) {
	s.t.Helper()
	if r := s.repack(repack.Options{}); r.Snapshots != want {
		s.t.Fatalf("%d snapshots have new rows, want %d", r.Snapshots, want)
	}
	s.pass(time.Second)
}

// has reports whether the root page of a tree exists.
func (s *fixture) has(row names.Row) bool {
	_, err := s.store.Size(s.t.Context(), names.PageKey(row.Root))
	return err == nil
}

// The trees of a snapshot that a repack replaced stay for the time of grace, also after another
// repack. Then they are garbage.
func TestReplacedInSnapshot(t *testing.T) {
	t.Parallel()
	for repacks := 1; repacks <= 3; repacks++ {
		s := newFixture(t)
		row := s.publish("m", files{"a": noise(1, 30_000), "b": noise(2, 30_000)})
		s.snapshot("kept", "m")
		s.publish("m", files{"a": noise(1, 30_000), "c": noise(3, 30_000)})
		if err := s.writer(s.store).Delete(t.Context(), "m", 0); err != nil {
			t.Fatal(err)
		}
		s.pass(grace + time.Second)
		for i := range repacks {
			s.publish("m", files{"a": noise(1, 30_000), "d": noise(10+i, 30_000)})
			s.repackSnapshots(1)
		}
		s.sweepNow()
		if !s.has(row) {
			t.Errorf("%d repacks: the tree is deleted within the time of grace", repacks)
		}
		s.sweep()
		if s.has(row) {
			t.Errorf("%d repacks: the tree stays after the time of grace", repacks)
		}
		s.check()
	}
}

// A sweep does not need trees that were replaced before the time of grace. The next repack moves
// another symbol of the snapshot.
func TestReplacedLongAgo(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	ctx, w := t.Context(), s.writer(s.store)
	var m, other []names.Row
	for i := range 3 {
		m = append(m, s.publish("m", files{"a": noise(i, 300)}))
		other = append(other, s.publish("other", files{"b": noise(i, 300)}))
		if i == 0 {
			s.snapshot("kept", "m", "other")
		}
	}
	if err := errors.Join(w.Delete(ctx, "m", 0), w.Delete(ctx, "other", 0)); err != nil {
		t.Fatal(err)
	}
	move := func(to map[page.Hash]page.Hash) {
		t.Helper()
		r, err := w.BeginRepack(ctx)
		if err != nil {
			t.Fatal(err)
		}
		n, err := r.Snapshot(ctx, "kept", func(_ context.Context, row names.Row) (page.Hash, error) {
			return cmp.Or(to[row.Root], row.Root), nil
		})
		if n != len(to) || err != nil {
			t.Fatal(n, err)
		}
	}
	move(map[page.Hash]page.Hash{m[0].Root: m[1].Root, other[0].Root: other[1].Root})
	s.sweep()
	if s.has(other[0]) {
		t.Error("the tree stays after the time of grace")
	}
	move(map[page.Hash]page.Hash{m[1].Root: m[2].Root})
	s.sweepNow()
}

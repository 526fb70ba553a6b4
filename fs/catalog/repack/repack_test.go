package repack_test

import (
	"context"
	"testing"

	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog/repack"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// A store that lost most of its versions is as small as a fresh one after repack and sweep.
func TestPrunedStore(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	const count, size, versions = 60, 40_000, 12
	for v := range versions {
		s.publish("m", changing(count, size, v))
	}
	fresh := newFixture(t)
	fresh.publish("m", changing(count, size, versions-1))
	if _, err := s.writer(s.store).Prune(context.Background(), "m", writer.KeepRule{Last: 1}, false); err != nil {
		t.Fatal(err)
	}
	s.sweep()
	want := view(t, s.store)
	before := sizes(t, s.store, "")
	r := s.repack(repack.Options{MaxUnused: 0.05})
	equalViews(t, "before the sweep", view(t, s.store), want)
	s.check()
	s.sweep()
	equalViews(t, "after the sweep", view(t, s.store), want)
	s.check()
	after, least := sizes(t, s.store, ""), sizes(t, fresh.store, "")
	t.Logf("before %+v, after %+v, fresh %+v, plan: replaced %+v, copied %d, read %d", before, after, least, r.Plan.Replaced, r.Plan.Copy, r.Read)
	if float64(after.Bytes) > 1.1*float64(least.Bytes) {
		t.Errorf("%d bytes after repack and sweep, a fresh store has %d", after.Bytes, least.Bytes)
	}
	if n := sizes(t, s.store, names.XorbPrefix); n.Objects != 1 {
		t.Errorf("%d xorbs", n.Objects)
	}
	if again := s.repack(repack.Options{MaxUnused: 0.05}); !again.Plan.IsEmpty() {
		t.Errorf("a second run replaces %+v and %+v", again.Plan.Replaced, again.Plan.Lists)
	}
}

// Many small publishes end in few objects, and all versions stay.
func TestSmallPublishes(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	tree := files{}
	const versions = 40
	for v := range versions {
		tree[string(rune('a'+v%26))+"/x"] = noise(v, 2000)
		s.publish("m", tree)
	}
	want := view(t, s.store)
	s.repack(repack.Options{MaxUnused: 0.05})
	s.sweep()
	equalViews(t, "after the sweep", view(t, s.store), want)
	s.check()
	if x, sh := sizes(t, s.store, names.XorbPrefix), sizes(t, s.store, names.ShardPrefix); x.Objects != 1 || sh.Objects != 1 {
		t.Errorf("%d xorbs and %d shards", x.Objects, sh.Objects)
	}
	// The next publish finds the chunks at their new places.
	w := s.writer(s.store)
	row, stats, err := publish(w, s.store, "m", tree)
	if err != nil || row.Number != versions {
		t.Fatal(row, err)
	}
	if stats.NewBytes != 0 {
		t.Errorf("%d bytes were stored again", stats.NewBytes)
	}
}

package repack_test

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/xetfs/xetfs/fs/catalog/writer"
)

var full = flag.Bool("full", false, "run the tests of stores with full histories, for minutes")

// 30 publishes that change a tenth of 400 files, of which the newest version stays.
func TestFullPruned(t *testing.T) {
	if !*full {
		t.Skip("without -full")
	}
	s := newFixture(t)
	const count, size, versions = 400, 256 << 10, 31
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
	start := time.Now()
	r := s.repack(eager)
	took := time.Since(start)
	s.sweep()
	equalViews(t, "after the sweep", view(t, s.store), want)
	after, least := sizes(t, s.store, ""), sizes(t, fresh.store, "")
	t.Logf("before %+v, after %+v, fresh %+v; replaced %+v, stored %+v, read %d in %v", before, after, least, r.Plan.Replaced, r.Xorbs, r.Read, took)
	if float64(after.Bytes) > 1.1*float64(least.Bytes) {
		t.Errorf("%d bytes after repack and sweep, a fresh store has %d", after.Bytes, least.Bytes)
	}
}

// 2,000 small publishes.
func TestFullSmall(t *testing.T) {
	if !*full {
		t.Skip("without -full")
	}
	s := newFixture(t)
	d := s.store
	tree := files{}
	for v := range 2000 {
		tree[fmt.Sprintf("d%d/f%d", v%9, v%90)] = noise(v, 2000)
		s.publish("m", tree)
	}
	want := view(t, d)
	before := sizes(t, d, "")
	start := time.Now()
	r := s.repack(eager)
	took := time.Since(start)
	equalViews(t, "after the repack", view(t, d), want)
	again := s.repack(eager)
	t.Logf("before %+v, stored %+v and %+v in %v; plan %+v and %+v", before, r.Xorbs, r.Shards, took, r.Plan.Replaced, r.Plan.Lists)
	if !again.Plan.IsEmpty() || len(again.Usage.Xorbs) > 20 || len(again.Usage.Shards) > 20 {
		t.Errorf("all versions use %d xorbs and %d shards", len(again.Usage.Xorbs), len(again.Usage.Shards))
	}
}

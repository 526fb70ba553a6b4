package writer

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

func TestSnapshot(t *testing.T) {
	inStores(t, func(t *testing.T, s origin.WriteStore) {
		d := newFixture(t, s)
		for i := range 3 {
			d.must(d.replace("m", fmt.Sprintf("a=%d", i)))
			d.must(d.replace("n", fmt.Sprintf("b=%d", i)))
		}
		snap := func(name string, replace bool, symbols map[string]names.AsOf) error {
			_, err := d.Snapshot(t.Context(), name, "why", symbols, replace)
			return err
		}
		if err := snap("rel-1", false, map[string]names.AsOf{"m": {}, "n": {Form: names.ByNumber, Number: 1}}); err != nil {
			t.Fatal(err)
		}
		if err := snap("rel-1", false, map[string]names.AsOf{"m": {}}); !errors.Is(err, iofs.ErrExist) {
			t.Errorf("a name twice: %v", err)
		}
		if err := snap("x", false, map[string]names.AsOf{"m": {}, "none": {}}); !errors.Is(err, iofs.ErrNotExist) {
			t.Errorf("a symbol that is not there: %v", err)
		}
		if err := snap("x", false, map[string]names.AsOf{"m": {Form: names.ByIdentity, Identity: rowOf(t, d, 0).Identity}}); err == nil {
			t.Error("a tree that is no version")
		}
		if err := snap("a/b", false, map[string]names.AsOf{"m": {}}); err == nil {
			t.Error("a slash in the name")
		}
		if err := d.Delete(t.Context(), "n", 1); err != nil {
			t.Fatal(err)
		}
		if got := d.see("n", "snap:rel-1"); got != "1: b=1" {
			t.Errorf("a deleted version: %q", got)
		}
		if err := snap("Rel 2", true, map[string]names.AsOf{"n": {Form: names.BySnapshot, Snapshot: "rel-1"}}); err != nil {
			t.Fatal(err)
		}
		if err := snap("rel-1", true, map[string]names.AsOf{"m": {Form: names.ByAge, Number: 2}}); err != nil {
			t.Fatal(err)
		}
		if got := d.see("m", "snap:rel-1") + ", " + d.see("n", "snap:Rel 2"); got != "1: a=1, 1: b=1" {
			t.Error(got)
		}
		if got := snapshotsOf(t, d.Catalog()); !slices.Equal(got, []string{"Rel 2", "rel-1"}) {
			t.Errorf("snapshots %q", got)
		}
		for _, want := range []error{nil, iofs.ErrNotExist} {
			if err := d.DeleteSnapshot(t.Context(), "rel-1"); !errors.Is(err, want) {
				t.Errorf("delete: %v, want %v", err, want)
			}
		}
		if err := d.DeleteSnapshot(t.Context(), "a/b"); !errors.Is(err, iofs.ErrNotExist) {
			t.Errorf("delete what cannot be: %v", err)
		}
	})
}

func snapshotsOf(t testing.TB, c *catalog.StoreCatalog) []string {
	t.Helper()
	var found []string
	for name, err := range c.Snapshots(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, name)
	}
	return found
}

// A snapshot that took so long that a sweep may not wait for it is made again.
func TestSnapshotWindow(t *testing.T) {
	d := newFixture(t, origintest.Memory())
	d.must(d.replace("m", "a=0"))
	f := origintest.WithFaults(d.store)
	d.Writer.store = f
	d.catalog = fresh(t, f)
	reads := 0
	f.Before = func(_ context.Context, c origintest.Call) error {
		if c.Key == names.RefKey("m") {
			if reads++; reads == 1 {
				d.Pass(time.Hour)
			}
		}
		return nil
	}
	if _, err := d.Snapshot(t.Context(), "rel", "", map[string]names.AsOf{"m": {}}, false); err != nil || reads != 2 {
		t.Errorf("%v after %d reads", err, reads)
	}
}

func TestDelete(t *testing.T) {
	d := newFixture(t, origintest.Memory())
	for i := range 4 {
		d.must(d.replace("m", fmt.Sprintf("a=%d", i)))
	}
	tests := []struct {
		symbol  string
		numbers []uint64
		refuse  string
		latest  string
		listed  string
	}{
		{"m", nil, "no version", "3: a=3", "m"},
		{"none", []uint64{0}, "no such symbol", "3: a=3", "m"},
		{"m", []uint64{1, 7}, "version 7 never existed", "3: a=3", "m"},
		{"m", []uint64{3, 3}, "", "2: a=2", "m"},
		{"m", []uint64{0, 3}, "version 3 was deleted", "2: a=2", "m"},
		{"m", []uint64{0}, "", "2: a=2", "m"},
		{"m", []uint64{2, 1}, "", "ENOENT all versions were deleted, or moved to another symbol", ""},
	}
	for _, tt := range tests {
		err := d.Delete(t.Context(), tt.symbol, tt.numbers...)
		if (err == nil) != (tt.refuse == "") || err != nil && !strings.Contains(err.Error(), tt.refuse) {
			t.Errorf("delete %v: %v, want %q", tt.numbers, err, tt.refuse)
		}
		if got := d.see("m", ""); got != tt.latest {
			t.Errorf("delete %v: newest is %q, want %q", tt.numbers, got, tt.latest)
		}
		if got := symbolsOf(t, d.Catalog()); got != tt.listed {
			t.Errorf("delete %v: symbols %q, want %q", tt.numbers, got, tt.listed)
		}
	}
	d.must(d.replace("m", "a=4"))
	if got := d.see("m", ""); got != "4: a=4" {
		t.Errorf("numbers go on: %q", got)
	}
	if got := symbolsOf(t, d.Catalog()); got != "m" {
		t.Errorf("symbols %q", got)
	}
}

func TestPrune(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 3, n, 0, 0, 0, 0, time.UTC) }
	tests := []struct {
		name string
		keep KeepRule
		live []uint64 // afterwards; 3 and 4 were deleted before, 9 is gone, 4 is in a snapshot
	}{
		{"newest", KeepRule{Last: 1}, []uint64{8}},
		{"last", KeepRule{Last: 3}, []uint64{8, 7, 6}},
		{"all", KeepRule{Last: 100}, []uint64{8, 7, 6, 5, 2, 1, 0}},
		{"since", KeepRule{Since: day(6)}, []uint64{8, 7, 6, 5}},
		{"last or since", KeepRule{Last: 5, Since: day(6)}, []uint64{8, 7, 6, 5, 2}},
		{"snapshots", KeepRule{Last: 1, Snapshots: true}, []uint64{8, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := longHistory(t, origintest.Memory())
			if _, err := d.Snapshot(t.Context(), "old", "", map[string]names.AsOf{"m": {Form: names.ByNumber, Number: 1}}, false); err != nil {
				t.Fatal(err)
			}
			before := liveOf(t, d.Catalog(), "m")
			dry, err := d.Prune(t.Context(), "m", tt.keep, true)
			if err != nil || !slices.Equal(liveOf(t, d.Catalog(), "m"), before) {
				t.Fatalf("a dry run: %v", err)
			}
			rows, err := d.Prune(t.Context(), "m", tt.keep, false)
			if err != nil || !slices.Equal(rows, dry) {
				t.Errorf("prune: %v, %v", rows, err)
			}
			if got := liveOf(t, d.Catalog(), "m"); !slices.Equal(got, tt.live) || len(rows) != len(before)-len(got) {
				t.Errorf("%v are live, want %v", got, tt.live)
			}
			if rows, err := d.Prune(t.Context(), "m", tt.keep, false); len(rows) != 0 || err != nil {
				t.Errorf("a second time: %v, %v", rows, err)
			}
		})
	}
	d := newFixture(t, origintest.Memory())
	if _, err := d.Prune(t.Context(), "none", KeepRule{Last: 1}, true); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("no symbol: %v", err)
	}
}

// A rule that keeps nothing is refused: its time may be one that was not set.
func TestPruneNoRule(t *testing.T) {
	d := longHistory(t, origintest.Memory())
	before := liveOf(t, d.Catalog(), "m")
	for _, keep := range []KeepRule{{}, {Snapshots: true}, {Last: -1}} {
		if _, err := d.Prune(t.Context(), "m", keep, false); err == nil {
			t.Errorf("%+v: no error", keep)
		}
	}
	if got := liveOf(t, d.Catalog(), "m"); !slices.Equal(got, before) {
		t.Errorf("%v are live, want %v", got, before)
	}
}

// The change that makes a version, or a snapshot, is given up well before the window ends.
func TestTimed(t *testing.T) {
	s := origintest.Memory()
	f := origintest.WithFaults(s)
	refs := map[names.Key]int{}
	f.Before = func(ctx context.Context, c origintest.Call) error {
		if p, err := names.ParseKey(c.Key); err != nil || !c.Changes() || p.Kind != names.RefKind && p.Kind != names.SnapshotKind {
			return nil
		}
		end, ok := ctx.Deadline()
		if refs[c.Key]++; !ok || time.Until(end) > time.Hour/2 {
			t.Errorf("%s %s has until %v", c.Op, c.Key, end)
		}
		return nil
	}
	d := newFixture(t, f)
	d.must(d.replace("m", "a=1"))
	d.must(d.replace("m", "a=2"))
	for _, replace := range []bool{false, true} {
		if _, err := d.Snapshot(t.Context(), "rel", "", map[string]names.AsOf{"m": {}}, replace); err != nil {
			t.Fatal(err)
		}
	}
	if refs[names.RefKey("m")] != 2 || refs[names.SnapshotKey("rel")] != 2 {
		t.Errorf("%v", refs)
	}
}

// Deletions that are long ago take little room in the head.
func TestForget(t *testing.T) {
	k := newManualClock()
	d := newFixtureWith(t, origintest.MemoryAt(k.Now), k)
	for i := range 2*manyIntervals + 20 {
		d.must(d.replace("m", fmt.Sprintf("a=%d", i%3)))
		if i%2 == 1 {
			if err := d.Delete(t.Context(), "m", uint64(i)); err != nil {
				t.Fatal(err)
			}
		}
		d.Pass(24 * time.Hour)
	}
	f := origintest.WithFaults(d.store)
	f.Before = func(_ context.Context, c origintest.Call) error {
		if c.Op == "List" {
			t.Errorf("a publish, which adds no deletions, looks for old ones: %v", c)
		}
		return nil
	}
	other := newFixtureWith(t, f, k)
	other.must(other.replace("m", "a=9"))
	var head *names.Version
	var err error
	for head, err = range d.Catalog().History(t.Context(), "m") {
		break
	}
	if err != nil {
		t.Fatal(err)
	}
	old, young := 0, 0
	for _, gone := range head.Deleted {
		if gone.Seq == 0 {
			old++
		} else {
			young++
		}
	}
	if old == 0 || young < 14 {
		t.Errorf("%d deletions are long ago, %d are not", old, young)
	}
	if got := d.see("m", "1"); got != "ENOENT version 1 was deleted long ago" {
		t.Error(got)
	}
}

func TestRepairRef(t *testing.T) {
	type outcome struct{ latest, refuse string }
	tests := []struct {
		name   string
		damage func(t *testing.T, d *fixture)
		pick   func(keys []names.Key) names.Key
		want   outcome
	}{
		{"it is sound", func(*testing.T, *fixture) {}, nil, outcome{"3: a=3", "needs no repair"}},
		{"it is lost", loseRef, nil, outcome{"3: a=3", ""}},
		{"it is damaged", func(t *testing.T, d *fixture) { breakObject(t, d.store, names.RefKey("m")) }, nil, outcome{"3: a=3", ""}},
		{"the newest element is lost, too", func(t *testing.T, d *fixture) {
			loseRef(t, d)
			loseElement(t, d, "3*")
		}, nil, outcome{"2: a=2", ""}},
		{"an older element is lost", func(t *testing.T, d *fixture) {
			loseRef(t, d)
			loseElement(t, d, "2*")
		}, nil, outcome{"1: a=1", ""}},
		{"the first element is lost", func(t *testing.T, d *fixture) {
			loseRef(t, d)
			loseElement(t, d, "0*")
		}, nil, outcome{"ENOENT no such symbol", "no version is complete"}},
		{"nothing is left", func(t *testing.T, d *fixture) {
			loseRef(t, d)
			loseElement(t, d, "")
		}, nil, outcome{"ENOENT no such symbol", "no elements"}},
		{"two are the newest", func(t *testing.T, d *fixture) { race(t, d) }, nil, outcome{"ENOENT no such symbol", "pick one: [ver/"}},
		{"two are the newest, one picked", func(t *testing.T, d *fixture) { race(t, d) }, func(keys []names.Key) names.Key { return keys[1] }, outcome{"4: lost=1", ""}},
		{"picked what is not there", loseRef, func([]names.Key) names.Key { return "ver/x" }, outcome{"ENOENT no such symbol", "none of its versions"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newFixture(t, origintest.Memory())
			for i := range 4 {
				d.must(d.replace("m", fmt.Sprintf("a=%d", i)))
			}
			tt.damage(t, d)
			pick := names.Key("")
			if tt.pick != nil {
				pick = tt.pick(newestElements(t, d))
			}
			_, err := d.RepairRef(t.Context(), "m", pick)
			if (err == nil) != (tt.want.refuse == "") || err != nil && !strings.Contains(err.Error(), tt.want.refuse) {
				t.Errorf("repair: %v, want %q", err, tt.want.refuse)
			}
			if got := see(t, fresh(t, d.store), "m", names.AsOf{}); got != tt.want.latest {
				t.Errorf("newest is %q, want %q", got, tt.want.latest)
			}
		})
	}
}

func loseRef(t *testing.T, d *fixture) {
	if err := d.store.Delete(t.Context(), names.RefKey("m")); err != nil {
		t.Fatal(err)
	}
}

// loseElement deletes the elements of the version list whose keys go on in some way.
func loseElement(t *testing.T, d *fixture, rest string) {
	for _, k := range keysOf(t, d.store, names.VersionsPrefix("m")+rest) {
		if err := d.store.Delete(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	d.reopen()
}

// race publishes version 4 twice, of which one loses, and loses the ref. The one that
// lost has its key second.
func race(t *testing.T, d *fixture) {
	f := origintest.WithFaults(d.store)
	f.Before = func(_ context.Context, c origintest.Call) error {
		if c.Op == "PutIfMatch" {
			return origintest.ErrCrashed
		}
		return nil
	}
	loser := newFixture(t, f)
	loser.Pass(time.Hour)
	if _, err := loser.replace("m", "lost=1"); !errors.Is(err, origintest.ErrCrashed) {
		t.Fatal(err)
	}
	d.must(d.replace("m", "won=1"))
	loseRef(t, d)
}

// newestElements returns the keys of version 4.
func newestElements(t *testing.T, d *fixture) []names.Key {
	return keysOf(t, d.store, names.VersionsPrefix("m")+"4*")
}

package writer

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeebo/blake3"
	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

// longHistory returns a history with all cases: versions 0 to 9, one per day from
// 2026-03-01 at noon. Versions 3, 4 and then 9 are deleted. The store keeps 4 rows in an
// element.
func longHistory(t *testing.T, s origin.WriteStore) *fixture {
	d := newFixture(t, s)
	d.Pass(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Sub(d.Now()))
	for i := range 10 {
		d.must(d.replace("m", fmt.Sprintf("a=%d", i)))
		if i == 6 {
			if _, err := d.Snapshot(t.Context(), "rel", "", map[string]names.AsOf{"m": {Form: names.ByNumber, Number: 4}}, false); err != nil {
				t.Fatal(err)
			}
			if err := d.Delete(t.Context(), "m", 3, 4); err != nil {
				t.Fatal(err)
			}
		}
		d.Pass(24 * time.Hour)
	}
	if err := d.Delete(t.Context(), "m", 9); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestAsOf(t *testing.T) {
	inStores(t, func(t *testing.T, s origin.WriteStore) {
		d := longHistory(t, s)
		d.must(d.replace("gone", "a=1"))
		if err := d.Delete(t.Context(), "gone", 0); err != nil {
			t.Fatal(err)
		}
		root0, err := d.Catalog().Resolve(t.Context(), "m", names.AsOf{Form: names.ByNumber})
		if err != nil {
			t.Fatal(err)
		}
		tests := []struct{ symbol, at, want string }{
			{"m", "", "8: a=8"},
			{"m", "latest", "8: a=8"},
			{"m", "0", "0: a=0"},
			{"m", "2", "2: a=2"},
			{"m", "8", "8: a=8"},
			{"m", "3", "ENOENT version 3 was deleted, by change 8"},
			{"m", "4", "ENOENT version 4 was deleted, by change 8"},
			{"m", "9", "ENOENT version 9 was deleted, by change 12"},
			{"m", "10", "ENOENT version 10 never existed, the highest is 9"},
			{"m", "18446744073709551615", "ENOENT version 18446744073709551615 never existed, the highest is 9"},
			{"m", "-1", "8: a=8"},
			{"m", "-4", "5: a=5"},
			{"m", "-5", "2: a=2"},
			{"m", "-7", "0: a=0"},
			{"m", "-8", "ENOENT no version -8, the number of live versions is 7"},
			{"m", "2026-02-28", "ENOENT no live version is from 2026-02-28T23:59:59.999999999Z or before"},
			{"m", "2026-03-01T00:00:00Z", "ENOENT no live version is from 2026-03-01T00:00:00Z or before"},
			{"m", "2026-03-01", "0: a=0"}, // published at noon of that day
			{"m", "2026-03-02", "1: a=1"},
			{"m", "2026-03-02T12:00:00Z", "1: a=1"},
			{"m", "2026-03-02T11:59:59.999999999Z", "0: a=0"},
			{"m", "2026-03-02T12:00:00+01:00", "0: a=0"},
			{"m", "2026-03-05T18:00:00Z", "2: a=2"}, // 3 and 4 were deleted
			{"m", "2100-01-01", "8: a=8"},
			{"m", "snap:rel", "4: a=4"},
			{"m", "snap:none", "ENOENT snapshot none: no snapshot has this name"},
			{"gone", "snap:rel", "ENOENT not in snapshot rel"},
			{"m", "ver:" + root0.Identity.String(), "0: a=0"},
			{"whatever", "ver:" + root0.Identity.String(), "0: a=0"},
			{"m", "ver:" + strings.Repeat("a", 64), "ENOENT no version and no snapshot has the tree ver:" + strings.Repeat("a", 64)},
			{"gone", "", "ENOENT all versions were deleted, or moved to another symbol"},
			{"gone", "0", "ENOENT version 0 was deleted, by change 2"},
			{"gone", "-1", "ENOENT no version -1, the number of live versions is 0"},
			{"gone", "2100-01-01", "ENOENT no live version is from 2100-01-01T23:59:59.999999999Z or before"},
			{"none", "", "ENOENT no such symbol"},
			{"none", "12", "ENOENT no such symbol"},
			{"none", "snap:rel", "ENOENT not in snapshot rel"},
		}
		for _, tt := range tests {
			if got := d.see(tt.symbol, tt.at); got != tt.want {
				t.Errorf("%s@%s: %q, want %q", tt.symbol, tt.at, got, tt.want)
			}
		}
		if got := liveOf(t, fresh(t, s), "m"); !slices.Equal(got, []uint64{8, 7, 6, 5, 2, 1, 0}) {
			t.Errorf("live %v", got)
		}
	})
}

// A simple model predicts each version, for random histories of writers whose clocks stop,
// jump and run backwards.
func TestAsOfProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := newFixture(t, origintest.Memory())
		live := map[uint64]names.Row{}
		var all []names.Row
		for range rapid.IntRange(1, 30).Draw(rt, "changes") {
			d.Pass(time.Duration(rapid.IntRange(-2, 2).Draw(rt, "clock")) * time.Second)
			if len(live) > 0 && rapid.IntRange(0, 3).Draw(rt, "kind") == 0 {
				numbers := slices.Sorted(maps.Keys(live))
				victims := rapid.SliceOfNDistinct(rapid.SampledFrom(numbers), 1, min(3, len(numbers)), rapid.ID).Draw(rt, "victims")
				if err := d.Delete(t.Context(), "m", victims...); err != nil {
					rt.Fatal(err)
				}
				for _, n := range victims {
					delete(live, n)
				}
				continue
			}
			row, err := d.replace("m", fmt.Sprintf("a=%d", len(all)))
			if err != nil {
				rt.Fatal(err)
			}
			if n := len(all); row.Number != uint64(n) || n > 0 && !row.Time.After(all[n-1].Time) {
				rt.Fatalf("row %d is %+v", n, row)
			}
			live[row.Number] = row
			all = append(all, row)
		}
		checkAsOf(rt, fresh(t, d.store), all, live)
	})
}

// checkAsOf requests every version in every form.
func checkAsOf(t *rapid.T, c *catalog.StoreCatalog, all []names.Row, live map[uint64]names.Row) {
	ctx := context.Background()
	numbers := slices.Sorted(maps.Keys(live))
	ask := func(at names.AsOf, want int) { // an index of numbers; -1: none
		row, err := c.Resolve(ctx, "m", at)
		switch {
		case want < 0 && err == nil:
			t.Fatalf("%v = %d, want none", at, row.Number)
		case want >= 0 && (err != nil || row != live[numbers[want]]):
			t.Fatalf("%v = %d, %v, want %d", at, row.Number, err, numbers[want])
		}
	}
	ask(names.AsOf{}, len(numbers)-1)
	for i := range uint64(len(all) + 1) {
		ask(names.AsOf{Form: names.ByNumber, Number: i}, slices.Index(numbers, i))
		ask(names.AsOf{Form: names.ByAge, Number: i + 1}, max(-1, len(numbers)-1-int(i)))
	}
	for _, row := range all { // deleted ones, too
		want := names.Row{Root: row.Root, Identity: row.Identity, Entries: row.Entries, Bytes: row.Bytes, Pinned: true}
		if got, err := c.Resolve(ctx, "m", names.AsOf{Form: names.ByIdentity, Identity: row.Identity}); err != nil || got != want {
			t.Fatalf("version %d by identity = %+v, %v, want %+v", row.Number, got, err, want)
		}
		for _, d := range []time.Duration{-1, 0, 1} {
			at := row.Time.Add(d)
			want := len(numbers) - 1
			for want >= 0 && live[numbers[want]].Time.After(at) {
				want--
			}
			ask(names.AsOf{Form: names.ByTime, Time: at}, want)
		}
	}
}

// A thousand versions are N/128 reads to the oldest, and one to the newest.
func TestAsOfReads(t *testing.T) { synctest.Test(t, testAsOfReads) } // a check of the store is valid for a second

func testAsOfReads(t *testing.T) {
	const versions, block = 1000, 128
	s := origintest.Memory()
	k := newManualClock()
	o := k.options()
	o.Settings.Block = block
	d := &fixture{t, newTestPublisher(t, s, o), k, s}
	for i := range versions {
		d.must(d.replace("m", fmt.Sprintf("a=%d", i%7)))
	}
	if err := d.Delete(t.Context(), "m", 500); err != nil {
		t.Fatal(err)
	}
	w := origintest.Watch(s)
	reads := func(at string) int {
		c, err := catalog.Open(t.Context(), w, origin.Pages(w))
		if err != nil {
			t.Fatal(err)
		}
		w.Calls()
		asOf, err := names.ParseAsOf(at)
		if err != nil {
			t.Fatal(err)
		}
		row, err := c.Resolve(t.Context(), "m", asOf)
		if err != nil {
			t.Fatal(err)
		}
		if asOf.Form == names.ByNumber && row.Number != asOf.Number {
			t.Errorf("version %s is %d", at, row.Number)
		}
		return len(w.Calls())
	}
	for at, want := range map[string]int{"": 1, "999": 1, "998": 2, "-100": 2, "-105": 3, "400": 6, "0": 9, "2100-01-01": 1} {
		if got := reads(at); got != want {
			t.Errorf("%q: %d reads, want %d", at, got, want)
		}
	}
	live := liveOf(t, fresh(t, s), "m")
	if len(live) != versions-1 || slices.Contains(live, 500) || !slices.IsSortedFunc(live, func(a, b uint64) int { return int(b) - int(a) }) {
		t.Errorf("%d live versions", len(live))
	}
}

// Opening the newest version reads the ref and the root page. The next call reads the ref,
// and an unchanged ref is not sent.
func TestLatestReads(t *testing.T) { synctest.Test(t, testLatestReads) } // a check of the store is valid for a second

func testLatestReads(t *testing.T) {
	s := origintest.Memory()
	d := newFixture(t, s)
	d.must(d.replace("m", "a=1"))
	w := origintest.Watch(s)
	c, err := catalog.Open(t.Context(), w, origin.Pages(w))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Open(t.Context(), "m", names.AsOf{}); err != nil {
		t.Fatal(err)
	}
	if n := len(w.Calls()); n != 3 {
		t.Errorf("%d reads to open, want 3", n)
	}
	for _, want := range []uint64{0, 0, 1} {
		if want == 1 {
			d.must(d.replace("m", "a=2"))
		}
		row, err := c.Latest(t.Context(), "m")
		if n := len(w.Calls()); n != 1 || err != nil || row.Number != want {
			t.Errorf("Latest = %d, %v, %d reads", row.Number, err, n)
		}
	}
}

// Rows of section 12 of catalog.md, about refs and the version list.
func TestDamage(t *testing.T) {
	headOf := func(t *testing.T, s origin.WriteStore) names.Key {
		seen, err := fresh(t, s).ReadRef(t.Context(), "m")
		if err != nil {
			t.Fatal(err)
		}
		return seen.Ref.Head
	}
	oldest := func(t *testing.T, s origin.WriteStore) names.Key {
		return keysOf(t, s, names.VersionsPrefix("m")+"3*")[0] // the element with rows 0 to 3
	}
	remove := func(t *testing.T, s origin.WriteStore, k names.Key) {
		if err := s.Delete(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name   string
		damage func(*testing.T, origin.WriteStore)
		see    map[string]string // what begins the answer
		refuse string            // what publishing says; "": it works
	}{
		{
			"vref damaged",
			func(t *testing.T, s origin.WriteStore) { breakObject(t, s, names.RefKey("m")) },
			map[string]string{"": "corrupt", "0": "corrupt"}, "vref",
		},
		{
			"vref missing",
			func(t *testing.T, s origin.WriteStore) { remove(t, s, names.RefKey("m")) },
			map[string]string{"": "ENOENT no such symbol", "3": "ENOENT no such symbol"}, "",
		},
		{
			"vref of another symbol",
			func(t *testing.T, s origin.WriteStore) {
				newFixture(t, s).must(newFixture(t, s).replace("n", "x=1"))
				if err := origintest.Replace(s, names.RefKey("m"), origintest.Get(t, s, names.RefKey("n"))); err != nil {
					t.Fatal(err)
				}
			},
			map[string]string{"": "corrupt"}, "it is that of",
		},
		{
			"head missing",
			func(t *testing.T, s origin.WriteStore) { remove(t, s, headOf(t, s)) },
			map[string]string{"": "5: a=5", "5": "5: a=5", "-1": "5: a=5", "2100-01-01": "5: a=5", "4": "lost ver/", "-2": "lost ver/"}, "nothing can follow",
		},
		{
			"head damaged",
			func(t *testing.T, s origin.WriteStore) { breakObject(t, s, headOf(t, s)) },
			map[string]string{"": "5: a=5", "4": "corrupt ver/"}, "nothing can follow",
		},
		{
			"older element missing",
			func(t *testing.T, s origin.WriteStore) { remove(t, s, oldest(t, s)) },
			map[string]string{"": "5: a=5", "4": "4: a=4", "3": "lost older versions: ver/", "-4": "lost"}, "",
		},
		{
			"older element damaged",
			func(t *testing.T, s origin.WriteStore) { breakObject(t, s, oldest(t, s)) },
			map[string]string{"": "5: a=5", "0": "corrupt older versions: ver/"}, "",
		},
		{
			"made by a newer xetfs",
			func(t *testing.T, s origin.WriteStore) {
				b := []byte(strings.Replace(string(origintest.Get(t, s, names.RefKey("m"))), `"format":2`, `"format":3`, 1))
				text, _, _ := bytes.Cut(b, []byte("\n"))
				b = fmt.Appendf(nil, "%s\n%x\n", text, blake3.Sum256(text))
				if err := origintest.Replace(s, names.RefKey("m"), b); err != nil {
					t.Fatal(err)
				}
			},
			map[string]string{"": " "}, "newer xetfs",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newFixture(t, origintest.Memory())
			for i := range 6 {
				d.must(d.replace("m", fmt.Sprintf("a=%d", i)))
			}
			tt.damage(t, d.store)
			for at, want := range tt.see {
				asOf, err := names.ParseAsOf(at)
				if err != nil {
					t.Fatal(err)
				}
				if got := see(t, fresh(t, d.store), "m", asOf); !strings.HasPrefix(got, want) {
					t.Errorf("%s: %q, want %q", at, got, want)
				}
			}
			before := keysOf(t, d.store, "")
			_, err := newFixture(t, d.store).replace("m", "a=new")
			switch {
			case tt.refuse == "" && err != nil:
				t.Errorf("publish: %v", err)
			case tt.refuse != "" && (err == nil || !strings.Contains(err.Error(), tt.refuse)):
				t.Errorf("publish: %v, want %q", err, tt.refuse)
			case tt.refuse != "" && tt.name == "made by a newer xetfs" && !slices.Equal(before, keysOf(t, d.store, "")):
				t.Error("something was written")
			}
		})
	}
}

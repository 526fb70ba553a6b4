package writer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/names"
)

// newestVersions returns the newest live version of each symbol, by reading every ref.
func newestVersions(t testing.TB, s origin.Store) map[string]names.Row {
	t.Helper()
	c := fresh(t, s)
	all, err := c.RefSymbols(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	newest := map[string]names.Row{}
	for _, symbol := range all {
		if row, err := c.Latest(context.Background(), symbol); err == nil {
			newest[symbol] = row
		}
	}
	return newest
}

// liveSymbols returns the symbols with a live version.
func liveSymbols(t testing.TB, s origin.Store) []string {
	t.Helper()
	return slices.Sorted(maps.Keys(newestVersions(t, s)))
}

// notListed returns the symbols that the list lacks, or the whole list if it names a symbol twice. A
// symbol counts if its newest version is the same before and after: it was live all the time.
func notListed(t testing.TB, s origin.Store) []string {
	t.Helper()
	before := newestVersions(t, s)
	listed := strings.Fields(symbolsOf(t, fresh(t, s)))
	slices.Sort(listed)
	if once := slices.Compact(slices.Clone(listed)); len(once) < len(listed) {
		return listed
	}
	after := newestVersions(t, s)
	var missing []string
	for symbol, row := range before {
		if after[symbol] == row && !slices.Contains(listed, symbol) {
			missing = append(missing, symbol)
		}
	}
	return missing
}

func TestSymbols(t *testing.T) {
	inStores(t, func(t *testing.T, s origin.WriteStore) {
		d := newFixture(t, s)
		if got := symbolsOf(t, d.Catalog()); got != "" {
			t.Errorf("symbols %q", got)
		}
		for _, symbol := range []string{"b/c", "b", "ä", "b.c", "gone"} {
			d.must(d.replace(symbol, "a=1"))
		}
		if err := d.Delete(t.Context(), "gone", 0); err != nil {
			t.Fatal(err)
		}
		for _, state := range []string{"loose", "compacted", "damaged", "compacted again", "rebuilt", "without"} {
			want := "b b.c b/c ä"
			switch state {
			case "compacted", "compacted again":
				if n, err := d.compact(t.Context(), false); n != 4 || err != nil {
					t.Errorf("%s: %d, %v", state, n, err)
				}
			case "rebuilt":
				if n, err := d.RebuildSymbols(t.Context()); n != 4 || err != nil {
					t.Errorf("%s: %d, %v", state, n, err)
				}
			case "damaged":
				breakObject(t, s, keysOf(t, s, names.SymbolPrefix)[0])
				want = "b b.c b/c gone ä" // each may be live
			case "without":
				for _, k := range keysOf(t, s, names.SymbolPrefix) {
					if err := s.Delete(t.Context(), k); err != nil {
						t.Fatal(err)
					}
				}
				want = "b b.c b/c gone ä"
			}
			if got := symbolsOf(t, fresh(t, s)); got != want {
				t.Errorf("%s: %q, want %q", state, got, want)
			}
			if n := len(keysOf(t, s, names.SymbolPrefix)); state != "loose" && state != "without" && n != 1 {
				t.Errorf("%s: %d keys", state, n)
			}
		}
	})
}

// A writer that finds very many keys compacts them, and the listing stays cheap.
func TestCompactByItself(t *testing.T) {
	t.Parallel()
	s := origintest.Memory()
	d := newFixture(t, s)
	most := 0
	for i := range 1000 {
		d.must(d.replace(fmt.Sprintf("s%d", i), "a=1"))
		most = max(most, len(keysOf(t, s, names.SymbolPrefix)))
	}
	if most < fewSymbolKeys || most > manySymbolKeys+2 {
		t.Errorf("up to %d keys", most)
	}
	w := origintest.Watch(s)
	if n := len(strings.Fields(symbolsOf(t, fresh(t, w)))); n != 1000 {
		t.Errorf("%d symbols", n)
	}
	if n := len(w.Calls()); n != 3 { // settings, one listing, one list
		t.Errorf("%d reads", n)
	}
}

// A compaction corrects a wrong entry of the list, but not while the entry may still
// become right.
func TestCompactSurplus(t *testing.T) {
	add := func(t *testing.T, d *fixture, s names.Symbol) {
		t.Helper()
		s.Time = d.now()
		if err := d.put(t.Context(), names.SymbolKey(s), nil); err != nil {
			t.Fatal(err)
		}
	}
	age := func(t *testing.T, d *fixture) { // two windows later another writer adds a symbol
		d.Pass(3 * time.Hour)
		add(t, d, names.Symbol{Name: "live", Seq: 1})
	}
	tests := []struct {
		name  string
		do    func(t *testing.T, d *fixture)
		after string
		keys  int // of the symbol list, after it
	}{
		{"never committed, just now", func(t *testing.T, d *fixture) { add(t, d, names.Symbol{Name: "x", Seq: 1}) }, "live x", 2},
		{"never committed, long ago", func(t *testing.T, d *fixture) { add(t, d, names.Symbol{Name: "x", Seq: 1}); age(t, d) }, "live", 1},
		{"not committed again, just now", func(t *testing.T, d *fixture) { add(t, d, names.Symbol{Name: "gone", Seq: 3}) }, "gone live", 2},
		{"not committed again, long ago", func(t *testing.T, d *fixture) { add(t, d, names.Symbol{Name: "gone", Seq: 3}); age(t, d) }, "live", 1},
		{"lost against a deletion", func(t *testing.T, d *fixture) { add(t, d, names.Symbol{Name: "gone", Seq: 2}) }, "live", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := newManualClock()
			d := newFixtureWith(t, origintest.MemoryAt(k.Now), k)
			for _, symbol := range []string{"gone", "live"} {
				d.must(d.replace(symbol, "a=1"))
			}
			if err := d.Delete(t.Context(), "gone", 0); err != nil {
				t.Fatal(err)
			}
			if _, err := d.RebuildSymbols(t.Context()); err != nil {
				t.Fatal(err)
			}
			tt.do(t, d)
			if _, err := d.compact(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			if got := symbolsOf(t, fresh(t, d.store)); got != tt.after {
				t.Errorf("symbols %q, want %q", got, tt.after)
			}
			if keys := keysOf(t, d.store, names.SymbolPrefix); len(keys) != tt.keys {
				t.Errorf("keys %q", keys)
			}
		})
	}
}

// After each step of random publishes, deletions, compactions and crashes, the list has
// all live symbols. It has no other symbol once it is built again and no killed change can
// still happen.
func TestSymbolsProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		clock := newManualClock()
		s := origintest.MemoryAt(clock.Now)
		newFixture(t, s)
		seed := uint64(0)
		for range rapid.IntRange(1, 25).Draw(rt, "steps") {
			f := origintest.WithFaults(s)
			seed++
			f.Seed = seed
			if rapid.IntRange(0, 3).Draw(rt, "fault") == 0 {
				f.CrashAt = rapid.IntRange(1, 8).Draw(rt, "crash")
				f.Applied = rapid.Bool().Draw(rt, "applied")
			}
			d := newFixture(t, s)
			d.Pass(time.Duration(rapid.IntRange(-3, 3).Draw(rt, "clock")) * 24 * time.Hour)
			d.store, d.Writer.store = f, f
			symbol := rapid.SampledFrom([]string{"a", "b", "c/d"}).Draw(rt, "symbol")
			switch rapid.IntRange(0, 5).Draw(rt, "kind") {
			case 0, 1:
				_, _ = d.replace(symbol, "x=1")
			case 2, 3:
				if live := liveIn(d, symbol); len(live) > 0 {
					_ = d.Delete(t.Context(), symbol, live...)
				}
			case 4:
				_, _ = d.compact(t.Context(), false)
			default:
				_, _ = d.RebuildSymbols(t.Context())
			}
			if missing := notListed(t, s); len(missing) > 0 {
				rt.Fatalf("not listed: %q", missing)
			}
		}
		clock.Pass(3 * time.Hour)
		d := newFixture(t, s)
		d.must(d.replace("z", "a=1")) // the newest key has the time
		n, err := d.RebuildSymbols(t.Context())
		if err != nil {
			rt.Fatal(err)
		}
		live := liveSymbols(t, s)
		if got := strings.Fields(symbolsOf(t, fresh(t, s))); n != len(live) || !slices.Equal(got, live) {
			rt.Errorf("%d symbols in the list, %q, and %q are live", n, got, live)
		}
	})
}

// liveIn is liveOf for a symbol that may not be there.
func liveIn(d *fixture, symbol string) []uint64 {
	var found []uint64
	for row, err := range d.Catalog().Live(context.Background(), symbol) {
		if err != nil {
			return nil
		}
		found = append(found, row.Number)
	}
	return found
}

// The same with writers and compactors at once, in a folder, whose listings are not of
// one moment.
func TestSymbolsAtOnce(t *testing.T) {
	s, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	d := newFixture(t, s)
	for i := range 20 {
		d.must(d.replace(fmt.Sprintf("always%d", i), "a=1"))
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for i := range 2 {
		w := newFixture(t, s)
		wg.Go(func() {
			for n := range 10 {
				symbol := fmt.Sprintf("w%d", i)
				row, err := w.replace(symbol, fmt.Sprintf("a=%d", n))
				if err == nil && n%2 == 1 {
					err = w.Delete(t.Context(), symbol, row.Number, row.Number-1)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
		c := newFixture(t, s)
		c.o.Random = nil
		c.o.fill()
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := c.compact(t.Context(), i == 0); err != nil && !strings.Contains(err.Error(), "symbol list") {
					t.Error(err)
				}
			}
		})
	}
	for range 30 {
		if missing := notListed(t, s); len(missing) > 0 {
			t.Errorf("not listed: %q", missing)
		}
	}
	close(stop)
	wg.Wait()
	if n, err := d.RebuildSymbols(t.Context()); n != 20 || err != nil {
		t.Errorf("%d symbols, %v", n, err)
	}
}

package writer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

// Steps that a writer may die in. Each begins with the versions 0 to 4 of m, of which 1
// was deleted, a symbol gone without live versions, and a snapshot.
var steps = []struct {
	name   string
	symbol string // that changes
	do     func(ctx context.Context, d *fixture) error
}{
	{"first version", "new", func(_ context.Context, d *fixture) error {
		_, err := d.replace("new", "a=1 d/ d/b=2")
		return err
	}},
	{"next version", "m", func(_ context.Context, d *fixture) error {
		_, err := d.replace("m", wideTree(20, "y"))
		return err
	}},
	{"update", "m", func(_ context.Context, d *fixture) error {
		_, err := d.update("m", "-a d/e/f=3")
		return err
	}},
	{"back from the dead", "gone", func(_ context.Context, d *fixture) error {
		_, err := d.replace("gone", "a=back")
		return err
	}},
	{"delete some", "m", func(ctx context.Context, d *fixture) error { return d.Delete(ctx, "m", 2, 4) }},
	{"delete all", "m", func(ctx context.Context, d *fixture) error { return d.Delete(ctx, "m", 0, 2, 3, 4) }},
	{"prune", "m", func(ctx context.Context, d *fixture) error {
		_, err := d.Prune(ctx, "m", KeepRule{Last: 1}, false)
		return err
	}},
	{"snapshot", "m", func(ctx context.Context, d *fixture) error {
		_, err := d.Snapshot(ctx, "rel", "", map[string]names.AsOf{"m": {}}, true)
		return err
	}},
	{"delete snapshot", "m", func(ctx context.Context, d *fixture) error { return d.DeleteSnapshot(ctx, "rel") }},
	{"compact", "m", func(ctx context.Context, d *fixture) error {
		_, err := d.compact(ctx, false)
		return err
	}},
}

func prepare(t *testing.T, s origin.WriteStore) {
	d := newFixture(t, s)
	for i := range 5 {
		d.must(d.replace("m", fmt.Sprintf("a=%d", i)))
	}
	d.must(d.replace("gone", "a=1"))
	if err := errors.Join(d.Delete(t.Context(), "gone", 0), d.Delete(t.Context(), "m", 1)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Snapshot(t.Context(), "rel", "", map[string]names.AsOf{"m": {Form: names.ByNumber}}, false); err != nil {
		t.Fatal(err)
	}
}

// seeAll is all that a reader can see.
func seeAll(t *testing.T, s origin.Store) string {
	t.Helper()
	var b strings.Builder
	c := fresh(t, s)
	for _, symbol := range []string{"m", "gone", "new"} {
		fmt.Fprintf(&b, "%s@latest %s\n", symbol, see(t, c, symbol, names.AsOf{}))
		for row, err := range c.Live(t.Context(), symbol) {
			if err != nil {
				fmt.Fprintf(&b, "%v\n", err)
				break
			}
			fmt.Fprintf(&b, "%s@%d %s\n", symbol, row.Number, see(t, c, symbol, names.AsOf{Form: names.ByNumber, Number: row.Number}))
		}
	}
	for name, err := range c.Snapshots(t.Context()) {
		s, snapErr := c.Snapshot(t.Context(), name)
		if err != nil || snapErr != nil {
			t.Fatal(err, snapErr)
		}
		fmt.Fprintf(&b, "%s: %d\n", name, s.Rows["m"].Number)
	}
	return b.String()
}

// seeStep is all that a reader can see before a step, and after one that nothing disturbs.
func seeStep(t *testing.T, before origin.WriteStore, do func(context.Context, *fixture) error) (was, is string) {
	t.Helper()
	done := copyStore(t, before)
	if err := do(t.Context(), newFixture(t, done)); err != nil {
		t.Fatal(err)
	}
	return seeAll(t, before), seeAll(t, done)
}

// checkSymbols says that the list names all symbols that have a live version.
func checkSymbols(t *testing.T, s origin.Store) {
	t.Helper()
	c := fresh(t, s)
	listed := strings.Fields(symbolsOf(t, c))
	for _, symbol := range []string{"m", "gone", "new"} {
		if _, err := c.Latest(t.Context(), symbol); err == nil && !slices.Contains(listed, symbol) {
			t.Errorf("%s is live and not listed", symbol)
		}
	}
}

// A writer that is killed at any call leaves the whole old or new version, and the next
// writer can publish. Item 5 of section 17 of catalog.md, and O30.
func TestCrashO30(t *testing.T) {
	before := origintest.Memory()
	prepare(t, before)
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			was, is := seeStep(t, before, step.do)
			for n := 1; ; n++ {
				crashed := true
				for _, applied := range []bool{false, true} {
					s := copyStore(t, before)
					f := origintest.WithFaults(s)
					f.CrashAt, f.Applied = n, applied
					err := step.do(t.Context(), newFixture(t, f))
					crashed = f.Crashed()
					if got := seeAll(t, s); got != was && got != is {
						t.Fatalf("crash at %d, applied %v: a reader sees\n%s", n, applied, got)
					} else if err == nil && got != is {
						t.Errorf("crash at %d, applied %v: a success without effect", n, applied)
					}
					checkSymbols(t, s)
					checkNext(t, s, step.symbol)
				}
				if !crashed {
					return
				}
			}
		})
	}
}

// checkNext publishes to the store of a killed writer.
func checkNext(t *testing.T, s origin.WriteStore, symbol string) {
	t.Helper()
	row, err := newFixture(t, s).replace(symbol, "next=1")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := see(t, fresh(t, s), symbol, names.AsOf{}), fmt.Sprintf("%d: next=1", row.Number); got != want {
		t.Errorf("the next version is %q, want %q", got, want)
	}
	checkSymbols(t, s)
	if _, err := newTestPublisher(t, s, Options{}).RebuildSymbols(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkSymbols(t, s)
}

// The same in a folder, with the calls that matter.
func TestCrashFolderO30(t *testing.T) {
	t.Parallel()
	for n := 1; ; n++ {
		s, err := dir.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		d := newFixture(t, s)
		d.must(d.replace("m", "a=1"))
		was := seeAll(t, s)
		f := origintest.WithFaults(s)
		f.CrashAt, f.Applied = n, n%2 == 0
		_, err = newFixture(t, f).replace("m", "a=2 d/ d/b=3")
		got := seeAll(t, s)
		if err == nil == (got == was) {
			t.Errorf("crash at %d: %v, a reader sees\n%s", n, err, got)
		}
		checkNext(t, s, "m")
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if !f.Crashed() {
			return
		}
	}
}

// A step that reports success has happened once, whichever answers are lost. A failed step
// reports whether it may have happened.
func TestLostAnswers(t *testing.T) {
	before := origintest.Memory()
	prepare(t, before)
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			was, is := seeStep(t, before, step.do)
			for seed := range uint64(30) {
				s := copyStore(t, before)
				f := origintest.WithFaults(s)
				f.Lost, f.Vanished, f.Refused, f.Seed = 0.3, 0.1, 0.1, seed
				err := step.do(t.Context(), newFixture(t, f))
				switch got := seeAll(t, s); {
				case err == nil && got != is:
					t.Errorf("seed %d: success, and a reader sees\n%s", seed, got)
				case err != nil && got != was && (got != is || !errors.Is(err, origin.ErrUnknown)):
					t.Errorf("seed %d: %v, and a reader sees\n%s", seed, err, got)
				}
			}
		})
	}
}

// Item 6 of section 17 of catalog.md, and O31: writers at one symbol all get through, and
// no version is lost or doubled.
func TestWritersO31(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name                    string
		writers, each           int
		lost, vanished, refused float64
	}{
		{"two", 2, 10, 0, 0, 0},
		{"eight", 8, 4, 0, 0, 0},
		{"two, lost answers", 2, 10, 0.2, 0, 0},
		{"four, all at once", 4, 6, 0.2, 0.05, 0.1},
		{"eight, lost answers", 8, 4, 0.2, 0.05, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inStores(t, func(t *testing.T, s origin.WriteStore) {
				newFixture(t, s)
				var wg sync.WaitGroup
				for w := range tt.writers {
					f := origintest.WithFaults(s)
					f.Lost, f.Vanished, f.Refused, f.Seed = tt.lost, tt.vanished, tt.refused, uint64(w)
					wg.Go(func() { writeMany(t, f, w, tt.each) })
				}
				wg.Wait()
				checkWritten(t, fresh(t, s), tt.writers, tt.each)
			})
		})
	}
}

// writeMany publishes versions, each with a name of its own. It tries again after ErrBusy.
func writeMany(t *testing.T, s origin.WriteStore, writer, count int) {
	// Pauses are real, or writers would get into each other's way more than they do.
	k := newManualClock()
	o := k.options()
	o.Random = nil
	o.Sleep = func(ctx context.Context, d time.Duration) error { return origin.Sleep(ctx, d/50) }
	p, err := Open(t.Context(), s, origin.Pages(s), o)
	if err != nil {
		t.Error(err)
		return
	}
	d := &fixture{t, p, k, s}
	for i := range count {
		for {
			var err error
			if word := fmt.Sprintf("w%d/%d=x", writer, i); i%2 == 0 {
				_, err = d.update("m", word)
			} else {
				_, err = d.replace("m", fmt.Sprintf("w%d/ ", writer)+word)
			}
			if err == nil {
				break
			}
			if !errors.Is(err, ErrBusy) {
				t.Error(err)
				return
			}
		}
	}
}

func checkWritten(t *testing.T, c *catalog.StoreCatalog, writers, each int) {
	t.Helper()
	seen := map[string]int{}
	next := writers * each
	var last *names.Version
	for v, err := range c.History(t.Context(), "m") {
		if err != nil {
			t.Fatal(err)
		}
		next--
		if v.Number != uint64(next) || v.Seq != uint64(next+1) || last != nil && !v.Time.Before(last.Time) {
			t.Errorf("version %d of change %d at %v, want version %d", v.Number, v.Seq, v.Time, next)
		}
		words := strings.Fields(v.Message)
		seen[words[len(words)-1]]++
		last = v
	}
	if next != 0 || len(seen) != writers*each {
		t.Errorf("%d different versions, %d missing", len(seen), next)
	}
	for message, n := range seen {
		if n != 1 {
			t.Errorf("%s was published %d times", message, n)
		}
	}
}

// Section 8.4 of catalog.md describes a lost answer. Each row is an action of other
// writers before the writer looks.
func TestUnknownOutcome(t *testing.T) {
	tests := []struct {
		name    string
		symbol  string
		applied bool
		others  int // versions that others publish at once
		want    string
	}{
		{"done", "m", true, 0, "1: mine=1"},
		{"not done", "m", false, 0, "1: mine=1"},
		{"done, others followed", "m", true, 3, "4: other=2"},
		{"not done, others came first", "m", false, 3, "4: mine=1"},
		{"done, new symbol", "n", true, 0, "0: mine=1"},
		{"not done, new symbol", "n", false, 0, "0: mine=1"},
		{"done, new symbol, others followed", "n", true, 3, "3: other=2"},
		{"not done, new symbol, others came first", "n", false, 3, "3: mine=1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := origintest.Memory()
			d := newFixture(t, s)
			d.must(d.replace("m", "a=0"))
			f := origintest.WithFaults(s)
			mine := newFixture(t, f)
			once := false
			f.Before = func(ctx context.Context, c origintest.Call) error {
				if once || c.Key != names.RefKey(tt.symbol) || !c.Changes() {
					return nil
				}
				once = true
				if tt.applied {
					value := pendingRef(t, s, tt.symbol)
					if err := origintest.Replace(s, c.Key, value); err != nil {
						t.Fatal(err)
					}
				}
				for i := range tt.others {
					d.must(d.replace(tt.symbol, fmt.Sprintf("other=%d", i)))
				}
				return origin.ErrUnknown
			}
			row := d.must(mine.replace(tt.symbol, "mine=1"))
			if got := d.see(tt.symbol, ""); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if got := d.see(tt.symbol, fmt.Sprint(row.Number)); !strings.HasSuffix(got, ": mine=1") {
				t.Errorf("its own version is %q", got)
			}
			n := 0
			for v, err := range d.Catalog().History(t.Context(), tt.symbol) {
				if err != nil {
					t.Fatal(err)
				}
				if v.Message == "mine=1" {
					n++
				}
			}
			if n != 1 {
				t.Errorf("published %d times", n)
			}
		})
	}
}

// pendingRef returns the ref that a writer is about to put: to the newest version that is
// stored.
func pendingRef(t *testing.T, s origin.Store, symbol string) []byte {
	t.Helper()
	p := &Writer{store: s.(origin.WriteStore)}
	all, err := p.listVersions(t.Context(), symbol)
	if err != nil {
		t.Fatal(err)
	}
	v, err := fresh(t, s).ReadVersion(t.Context(), all[0].key)
	if err != nil {
		t.Fatal(err)
	}
	b, err := names.Encode(&names.Ref{Symbol: symbol, Seq: v.Seq, Head: all[0].key, Latest: &v.Rows[0]})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A store that never reports an outcome is not asked without end, and the error is
// ErrUnknown.
func TestUnknownForEver(t *testing.T) {
	s := origintest.Memory()
	d := newFixture(t, s)
	d.must(d.replace("m", "a=0"))
	f := origintest.WithFaults(s)
	f.Before = func(_ context.Context, c origintest.Call) error {
		if c.Op == "PutIfMatch" {
			return origin.ErrUnknown
		}
		return nil
	}
	if _, err := newFixture(t, f).replace("m", "a=1"); !errors.Is(err, origin.ErrUnknown) {
		t.Errorf("error %v", err)
	}
	f.Before = func(_ context.Context, c origintest.Call) error {
		if c.Op == "PutIfMatch" {
			return origin.ErrConflict
		}
		return nil
	}
	if _, err := newFixture(t, f).replace("m", "a=1"); !errors.Is(err, ErrBusy) {
		t.Errorf("error %v", err)
	}
	if got := d.see("m", ""); got != "0: a=0" {
		t.Error(got)
	}
}

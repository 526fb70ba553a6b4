package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dedup"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// A fixture is a store in which only the test does something, on a clock of its own.
type fixture struct {
	t     testing.TB
	now   time.Time
	store origin.WriteStore
	p     *writer.Writer
	nap   func() // called during a sleep; nil: nothing happens
}

func newFixture(t testing.TB) *fixture {
	c := &fixture{t: t, now: time.Unix(1_700_000_000, 0)}
	c.use(origintest.MemoryAt(c.clock))
	return c
}

func (c *fixture) use(s origin.WriteStore) {
	c.t.Helper()
	p, err := writer.Open(context.Background(), s, origin.Pages(s), writer.Options{
		Settings: smallSettings(), Clock: c.clock, Sleep: c.sleep,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.store, c.p = s, p
}

func (c *fixture) clock() time.Time { return c.now }

func (c *fixture) sleep(_ context.Context, d time.Duration) error {
	if nap := c.nap; nap != nil {
		c.nap = nil
		nap()
	}
	c.now = c.now.Add(d)
	return nil
}

func (c *fixture) publish(symbol string, files map[string]int) names.Row {
	c.t.Helper()
	row, err := publish(context.Background(), c.p, c.store, symbol, files, new(dedup.Options))
	if err != nil {
		c.t.Fatal(err)
	}
	return row
}

func (c *fixture) delete(symbol string, numbers ...uint64) {
	c.t.Helper()
	if err := c.p.Delete(context.Background(), symbol, numbers...); err != nil {
		c.t.Fatal(err)
	}
}

// sweepOver sweeps with another store than that of the catalog.
func (c *fixture) sweepOver(s origin.WriteStore, o sweep.Options) (sweep.Report, error) {
	o.Clock, o.Sleep = c.clock, c.sleep
	return sweep.Sweep(context.Background(), s, origin.Pages(s), o)
}

func (c *fixture) sweep(o sweep.Options) sweep.Report {
	c.t.Helper()
	r, err := c.sweepOver(c.store, o)
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// check fails the test if anything is missing or wrong.
func (c *fixture) check() {
	c.t.Helper()
	for _, lost := range missing(c.store, c.now, 4*time.Minute) {
		c.t.Errorf("missing: %s", lost)
	}
	_, err := sweep.Check(context.Background(), c.store, origin.Pages(c.store), sweep.CheckOptions{
		Data:  true,
		Found: func(f sweep.Finding) { c.t.Errorf("found: %+v", f) },
	})
	if err != nil {
		c.t.Error(err)
	}
}

func (c *fixture) has(k names.Key) bool {
	_, err := c.store.Size(context.Background(), k)
	return err == nil
}

// keys returns the keys of a kind.
func (c *fixture) keys(prefix string) []names.Key {
	var keys []names.Key
	for item, err := range c.store.List(context.Background(), prefix, "") {
		if err != nil {
			c.t.Fatal(err)
		}
		keys = append(keys, item.Key)
	}
	return keys
}

// tree returns files in folders, by path.
func tree(files ...int) map[string]int {
	t := map[string]int{}
	for i, file := range files {
		t[fmt.Sprintf("dir%d/name %03d", i%3, i)] = file
	}
	return t
}

// numbers returns the numbers from ≤ n < to.
func numbers(from, to int) (n []int) {
	for i := from; i < to; i++ {
		n = append(n, i)
	}
	return n
}

// objects returns the counts of a report without bytes.
func objects(counts map[names.Kind]sweep.Counts) map[string]int64 {
	n := map[string]int64{}
	for kind, c := range counts {
		n[kind.String()] = c.Objects
	}
	return n
}

// withGarbage returns a store with two versions of which the older one was deleted an
// hour ago. It has files that the younger one has not.
func withGarbage(t testing.TB) *fixture {
	c := newFixture(t)
	c.fill()
	c.now = c.now.Add(time.Hour)
	return c
}

func (c *fixture) fill() {
	c.t.Helper()
	c.publish("a", tree(numbers(0, 30)...))
	c.now = c.now.Add(time.Second)
	c.publish("a", tree(numbers(100, 130)...))
	c.publish("b", tree(numbers(90, 120)...))
	c.delete("a", 0)
}

func TestSweepNothing(t *testing.T) {
	c := newFixture(t)
	c.publish("a", tree(numbers(0, 30)...))
	c.now = c.now.Add(time.Hour)
	r := c.sweep(sweep.Options{})
	if len(r.Garbage) != 0 || len(r.Deleted) != 0 {
		t.Errorf("report = %+v", r)
	}
	if r.Live[names.PageKind].Objects < 3 || r.Live[names.XorbKind].Objects != 1 {
		t.Errorf("live = %+v", r.Live)
	}
	c.check()
}

func TestSweepGarbage(t *testing.T) {
	c := newFixture(t)
	c.fill()
	before := keysOf(t, c.store)
	if r := c.sweep(sweep.Options{}); len(r.Garbage) != 0 {
		t.Errorf("garbage = %+v, though nothing was deleted long ago", r.Garbage)
	}
	if r := c.sweep(sweep.Options{}); r.Waiting.Objects < 5 || r.Waiting.Bytes == 0 || !r.WaitingUntil.After(c.now) {
		t.Errorf("%+v wait until %v for the version that was deleted", r.Waiting, r.WaitingUntil)
	}
	c.now = c.now.Add(time.Hour)
	dry := c.sweep(sweep.Options{DryRun: true})
	if after := keysOf(t, c.store); !maps.Equal(before, after) {
		t.Errorf("after a dry run there are %v, before %v", after, before)
	}
	young := page.Sum([]byte("young"))
	if _, err := c.store.PutIfAbsent(t.Context(), names.PageKey(young), []byte("young")); err != nil {
		t.Fatal(err)
	}
	var doing []string
	r := c.sweep(sweep.Options{Progress: func(p sweep.Progress) { doing = append(doing, p.Doing) }})
	if !maps.Equal(objects(dry.Garbage), objects(r.Garbage)) || !maps.Equal(r.Garbage, r.Deleted) {
		t.Errorf("garbage of the dry run %v, then %v, deleted %v", dry.Garbage, r.Garbage, r.Deleted)
	}
	if n := objects(r.Deleted); n["index page"] < 3 || n["shard"] != 1 || n["xorb"] != 1 || len(n) != 3 {
		t.Errorf("deleted %v", n)
	}
	if r.Young[names.PageKind] != (sweep.Counts{Objects: 1, Bytes: 5}) || !c.has(names.PageKey(young)) {
		t.Errorf("young = %v", r.Young)
	}
	if left := r.WaitingUntil.Sub(c.now); left <= 0 || r.Waiting != (sweep.Counts{Objects: 1, Bytes: 5}) {
		t.Errorf("%+v wait for another %v", r.Waiting, left)
	}
	if dry.Waiting.Objects != 0 || !dry.WaitingUntil.IsZero() {
		t.Errorf("%+v wait until %v, though nothing was young", dry.Waiting, dry.WaitingUntil)
	}
	if want := []string{"mark", "wait", "mark again", "delete"}; !slices.Equal(slices.Compact(doing), want) {
		t.Errorf("it did %v, want %v", slices.Compact(doing), want)
	}
	if len(c.keys(names.SweepPrefix))+len(c.keys(names.SweepListPrefix)) > 0 {
		t.Error("the sweep left something of itself behind")
	}
	c.check()
}

// Receipts of uploads are deleted after the grace period, also those of a live shard.
func TestSweepReceipts(t *testing.T) {
	c := withGarbage(t)
	live, err := names.ParseKey(c.keys(names.ShardPrefix)[0])
	if err != nil {
		t.Fatal(err)
	}
	put := func(session string) names.Key {
		k := names.ReceiptKey(strings.Repeat(session, 32), c.now, live.Hash)
		if _, err := c.store.PutIfAbsent(t.Context(), k, nil); err != nil {
			t.Fatal(err)
		}
		return k
	}
	old := put("a")
	c.now = c.now.Add(48 * time.Hour)
	young := put("b")
	r := c.sweep(sweep.Options{})
	if c.has(old) || !c.has(young) || r.Deleted[names.ReceiptKind].Objects != 1 || r.Young[names.ReceiptKind].Objects != 1 {
		t.Errorf("old receipt %t, young receipt %t, report %+v", c.has(old), c.has(young), r)
	}
	c.check()
}

// Objects that writers need again during a sweep stay, at whatever time the writers keep them.
func TestSweepRescue(t *testing.T) {
	again := func(c *fixture) {
		c.publish("c", tree(numbers(0, 30)...)) // the files of a@0
	}
	t.Run("while it waits", func(t *testing.T) {
		c := withGarbage(t)
		c.nap = func() { again(c) }
		if r := c.sweep(sweep.Options{}); objects(r.Deleted)["xorb"] != 0 {
			t.Errorf("deleted %v", r.Deleted)
		}
		c.check()
	})
	t.Run("just before it decides", func(t *testing.T) {
		c := withGarbage(t)
		decisions := 0
		f := origintest.WithFaults(c.store)
		f.Before = func(_ context.Context, call origintest.Call) error {
			if call.Op == "PutIfMatch" && call.Key == names.SweepKey() {
				if decisions++; decisions == 1 {
					again(c)
				}
			}
			return nil
		}
		if r, err := c.sweepOver(f, sweep.Options{}); err != nil || objects(r.Deleted)["xorb"] != 0 {
			t.Errorf("deleted %v, %v", r.Deleted, err)
		}
		if decisions < 2 {
			t.Error("it did not decide again")
		}
		c.check()
	})
	t.Run("kept and not used yet", func(t *testing.T) {
		c := withGarbage(t)
		shards := c.keys(names.ShardPrefix)
		var b *writer.Session
		c.nap = func() {
			c.now = c.now.Add(90 * time.Second) // so that it has not used it when the sweep decides
			var err error
			if b, err = c.p.Begin(t.Context(), "c", writer.PublishOptions{}); err != nil {
				t.Fatal(err)
			}
			for _, k := range shards {
				p, _ := names.ParseKey(k)
				if ok, err := b.Has(t.Context(), p.Hash); !ok || err != nil {
					t.Fatalf("Has(%s) = %t, %v", k, ok, err)
				}
			}
		}
		r := c.sweep(sweep.Options{})
		if n := objects(r.Deleted); n["shard"]+n["xorb"] != 0 || n["index page"] == 0 {
			t.Errorf("deleted %v", n)
		}
		c.check()
	})
}

// A sweep that was killed at any moment leaves a store that is whole, and the next one
// finishes.
func TestSweepKilled(t *testing.T) {
	for n, alive := 1, true; alive; n++ {
		for _, applied := range []bool{false, true} {
			c := withGarbage(t)
			f := origintest.WithFaults(c.store)
			f.CrashAt, f.Applied = n, applied
			_, err := c.sweepOver(f, sweep.Options{})
			if alive = f.Crashed(); !alive {
				break
			}
			if err != nil && !errors.Is(err, origintest.ErrCrashed) {
				t.Fatalf("killed at call %d: %v", n, err)
			}
			c.check()
			for range 2 { // the first one may only end what was begun
				c.sweep(sweep.Options{})
				c.now = c.now.Add(time.Hour)
			}
			c.sweep(sweep.Options{})
			c.check()
			if r := c.sweep(sweep.Options{DryRun: true}); len(r.Garbage)+len(r.Young) != 0 {
				t.Errorf("killed at call %d: garbage %v and young %v stay", n, r.Garbage, r.Young)
			}
		}
	}
}

// While a writer is about to commit a tree that uses pages of a deleted version again,
// there is a sweep. One that waits for two windows makes the writer look again. One that
// does not would delete what the writer has found: that is what the waiting is for.
func TestSweepWaits(t *testing.T) {
	for _, waits := range []bool{true, false} {
		t.Run(fmt.Sprint(waits), func(t *testing.T) {
			c := withGarbage(t)
			ahead := time.Duration(0) // of a sweeper that only believes that it waits
			o := sweep.Options{
				Clock: func() time.Time { return c.now.Add(ahead) },
				Sleep: func(_ context.Context, d time.Duration) error {
					if waits {
						c.now = c.now.Add(d)
					} else {
						ahead += d
					}
					return nil
				},
			}
			f := origintest.WithFaults(c.store)
			c.use(f)
			f.Before = func(ctx context.Context, call origintest.Call) error {
				p, err := names.ParseKey(call.Key)
				if err != nil || p.Kind != names.VersionKind || call.Op != "PutIfAbsent" {
					return nil
				}
				f.Before = nil
				_, err = sweep.Sweep(ctx, f, origin.Pages(f), o)
				return err
			}
			b, err := c.p.Begin(t.Context(), "a", writer.PublishOptions{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = b.Republish(t.Context(), c.first("a"))
			lost := missing(f, c.now, 4*time.Minute)
			switch {
			case waits && !errors.Is(err, writer.ErrSwept), waits && len(lost) > 0:
				t.Errorf("published: %v; missing: %q", err, lost)
			case !waits && (err != nil || len(lost) == 0):
				t.Errorf("published: %v; nothing is missing: this tests nothing", err)
			}
		})
	}
}

// A sweep that is over when another one looks how old it is was another one's.
func TestSweepEnds(t *testing.T) {
	c := withGarbage(t)
	list, err := names.EncodeSweepList(nil)
	if err != nil {
		t.Fatal(err)
	}
	c.put(names.SweepKey(), &names.Sweep{
		ID: "00112233445566778899aabbccddeeff", Deleting: true, List: names.SweepListKey(list),
		Started: c.now, Lease: c.now, Owner: "another one",
	})
	f := origintest.WithFaults(c.store)
	f.Before = func(_ context.Context, call origintest.Call) error {
		if call.Op == "List" && call.Key == names.SweepKey() {
			c.remove(names.SweepKey())
		}
		return nil
	}
	if _, err := c.sweepOver(f, sweep.Options{}); !errors.Is(err, sweep.ErrOther) {
		t.Errorf("Sweep = %v, want ErrOther", err)
	}
}

// A sweeper that pauses for longer than its lease finds that another one has taken over. It
// deletes nothing afterwards.
func TestSweepLostLease(t *testing.T) {
	c := withGarbage(t)
	f := origintest.WithFaults(c.store)
	var once sync.Once
	f.Before = func(_ context.Context, call origintest.Call) error {
		if call.Op != "Delete" || strings.HasPrefix(string(call.Key), names.SweepListPrefix) {
			return nil
		}
		once.Do(func() {
			c.now = c.now.Add(3 * time.Minute)
			if _, err := c.sweepOver(c.store, sweep.Options{}); err != nil {
				t.Errorf("the one that takes over: %v", err)
			}
			c.publish("c", tree(numbers(0, 30)...))
		})
		return context.DeadlineExceeded // of all requests that were under way
	}
	r, err := c.sweepOver(f, sweep.Options{})
	if !errors.Is(err, sweep.ErrOther) || len(r.Deleted) != 0 {
		t.Errorf("deleted %v, %v", r.Deleted, err)
	}
	c.check()
}

// One of two sweepers does the work, and the other one returns ErrOther.
func TestSweepTwo(t *testing.T) {
	c := withGarbage(t)
	c.nap = func() {
		if r, err := c.sweepOver(c.store, sweep.Options{}); err != nil || len(r.Deleted) == 0 {
			t.Errorf("the second: deleted %v, %v", r.Deleted, err)
		}
	}
	if r, err := c.sweepOver(c.store, sweep.Options{}); !errors.Is(err, sweep.ErrOther) || len(r.Deleted) != 0 {
		t.Errorf("the first: deleted %v, %v", r.Deleted, err)
	}
	c.check()
}

// If anything that is needed cannot be read, nothing is deleted.
func TestSweepUnreadable(t *testing.T) {
	live := func(c *fixture, prefix string) names.Key { // of version 1, which has no other
		return map[string]names.Key{
			names.PagePrefix: names.PageKey(c.latest("a").Root), names.ShardPrefix: names.ShardKey(c.shardOf("a")),
			names.RefPrefix: names.RefKey("a"), names.VersionPrefix: c.head("a"),
		}[prefix]
	}
	for _, prefix := range []string{names.PagePrefix, names.ShardPrefix, names.RefPrefix, names.VersionPrefix} {
		for _, damage := range []string{"missing", "damaged"} {
			if prefix == names.RefPrefix && damage == "missing" {
				continue // then there is no such symbol
			}
			t.Run(prefix+damage, func(t *testing.T) {
				c := withGarbage(t)
				k := live(c, prefix)
				if damage == "missing" {
					c.remove(k)
				} else {
					c.flip(k)
				}
				before := keysOf(t, c.store)
				_, err := c.sweepOver(c.store, sweep.Options{})
				if damage == "missing" && !errors.Is(err, origin.ErrNotFound) || damage == "damaged" && !errors.Is(err, codec.ErrCorrupt) {
					t.Errorf("Sweep = %v", err)
				}
				if after := keysOf(t, c.store); !maps.Equal(before, after) {
					t.Errorf("there are %v, before %v", after, before)
				}
			})
		}
	}
}

// A transfer damages each object once. The second read of an object is sound, so that the sweep deletes the same
// objects as without damage.
func TestSweepDamagedTransfers(t *testing.T) {
	for _, o := range []sweep.Options{{DryRun: true}, {}} {
		c := withGarbage(t)
		bad := origintest.WithFaults(c.store)
		bad.BadCache = true
		got, err := c.sweepOver(bad, o)
		if err != nil {
			t.Fatal(err)
		}
		want := withGarbage(t).sweep(o)
		if !maps.Equal(got.Garbage, want.Garbage) || !maps.Equal(got.Deleted, want.Deleted) {
			t.Errorf("garbage %v, deleted %v, want %v and %v", got.Garbage, got.Deleted, want.Garbage, want.Deleted)
		}
		if o.DryRun {
			for h, x := range got.Usage.Xorbs {
				if x.Err != nil || x.Used != want.Usage.Xorbs[h].Used {
					t.Errorf("xorb %s has %d used bytes, %v, want %d", h, x.Used, x.Err, want.Usage.Xorbs[h].Used)
				}
			}
		}
		c.check()
	}
}

// Without its reference all that a symbol has would be garbage: nothing is deleted. The
// first change of a symbol may be of a publish that was killed: it stays, other garbage goes.
func TestSweepLostRef(t *testing.T) {
	c := withGarbage(t)
	c.remove(names.RefKey("b")) // with one version
	if n := objects(c.sweep(sweep.Options{}).Deleted); n["version"] != 0 {
		t.Errorf("deleted %v", n)
	}
	if _, err := c.p.RepairRef(t.Context(), "b", ""); err != nil {
		t.Error(err)
	}
	c.check()
	c.now = c.now.Add(time.Hour)
	c.remove(names.RefKey("a"))
	before := keysOf(t, c.store)
	for _, dryRun := range []bool{true, false} {
		_, err := c.sweepOver(c.store, sweep.Options{DryRun: dryRun})
		if !errors.Is(err, origin.ErrNotFound) || !strings.Contains(err.Error(), "vref/*sUt*a: no such object, but change ") {
			t.Errorf("dry run %v: %v", dryRun, err)
		}
	}
	if after := keysOf(t, c.store); !maps.Equal(before, after) {
		t.Errorf("there are %v, before %v", after, before)
	}
	if _, err := c.p.RepairRef(t.Context(), "a", ""); err != nil {
		t.Fatal(err)
	}
	c.sweep(sweep.Options{})
	c.check()
}

// F47: a false object is refused, and nothing is deleted. Cases are a reference under the name
// of another symbol, and links from each page to one of the same level.
func TestF47_SweepLies(t *testing.T) {
	tests := []struct {
		name   string
		lie    func(c *fixture)
		reason string
	}{
		{"reference of another symbol", func(c *fixture) {
			c.replace(names.RefKey("c"), origintest.Get(c.t, c.store, names.RefKey("a")))
		}, `it is that of "a"`},
		{"pages without end", func(c *fixture) {
			row := c.latest("b")
			last := page.Key("x")
			for range 100 {
				level := page.NewLevel(smallSettings().Page, page.MaxLevel, func(l page.Link, b []byte) error {
					c.replace(names.PageKey(l.Page), b)
					row.Root, row.Identity = l.Page, l.Identity
					return nil
				})
				l := page.Link{Page: row.Root, Identity: row.Identity, Last: last, Size: 100, Entries: row.Entries, Bytes: row.Bytes}
				if err := errors.Join(level.AddLink(l), level.End()); err != nil {
					c.t.Fatal(err)
				}
			}
			c.forgeRow("c", row)
		}, "level 5 below level 5"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := withGarbage(t)
			tt.lie(c)
			before := keysOf(t, c.store)
			if _, err := c.sweepOver(c.store, sweep.Options{}); !errors.Is(err, codec.ErrCorrupt) || !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("Sweep = %v, want %q", err, tt.reason)
			}
			if after := keysOf(t, c.store); !maps.Equal(before, after) {
				t.Errorf("there are %v, before %v", after, before)
			}
		})
	}
}

// A tree that does not say in which shard a file is keeps every shard with that file.
func TestSweepHomeless(t *testing.T) {
	c := withGarbage(t)
	ids := c.ids(0)
	for file, id := range ids {
		ids[file] = codec.FileID{File: id.File}
	}
	c.forge("homeless", entries(map[string]int{"x": 3}, ids))
	r := c.sweep(sweep.Options{})
	if n := objects(r.Deleted); n["shard"]+n["xorb"] != 0 || n["index page"] == 0 {
		t.Errorf("deleted %v", n)
	}
}

// A young object keeps all objects below it, or a writer that finds it would rely on a deleted
// object.
func TestSweepYoungKeeps(t *testing.T) {
	c := withGarbage(t)
	k := names.ShardKey(c.ids(0)[3].Shard)
	b := origintest.Get(t, c.store, k)
	c.remove(k)
	if _, err := c.store.PutIfAbsent(t.Context(), k, b); err != nil { // by a publish that was killed
		t.Fatal(err)
	}
	r := c.sweep(sweep.Options{})
	if n := objects(r.Deleted); n["xorb"] != 0 || n["index page"] == 0 {
		t.Errorf("deleted %v", n)
	}
	c.now = c.now.Add(time.Hour)
	if n := objects(c.sweep(sweep.Options{}).Deleted); n["xorb"] != 1 || n["shard"] != 1 {
		t.Errorf("deleted %v, later", n)
	}
	c.check()
}

// One object with a time from the future ages no others, and a local clock that is wrong
// does not either.
func TestSweepClocks(t *testing.T) {
	c := newFixture(t)
	c.fill()
	c.now = c.now.Add(100 * time.Hour)
	future := page.Sum([]byte("future"))
	if _, err := c.store.PutIfAbsent(t.Context(), names.PageKey(future), []byte("future")); err != nil {
		t.Fatal(err)
	}
	c.now = c.now.Add(-100 * time.Hour)
	ahead := func() time.Time { return c.now.Add(1000 * time.Hour) }
	r, err := sweep.Sweep(t.Context(), c.store, origin.Pages(c.store), sweep.Options{Clock: ahead, Sleep: c.sleep})
	if err != nil || len(r.Deleted) != 0 || len(r.Garbage) != 0 {
		t.Errorf("report = %+v, %v", r, err)
	}
}

// A list that would be too long is cut where what stays points to nothing that goes.
func TestShortened(t *testing.T) {
	items := []origin.Item{{Key: "ver/1"}, {Key: "tindex/2"}, {Key: "tdata/3"}}
	for limit, want := range map[int]int{0: 0, 5: 0, 6: 1, 14: 1, 15: 2, 22: 2, 23: 3, 100: 3} {
		if got := len(sweep.Shortened(items, limit)); got != want {
			t.Errorf("limit %d: %d keys, want %d", limit, got, want)
		}
	}
}

package writer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A manualSweep is a sweep that a test plays step by step.
type manualSweep struct {
	t     testing.TB
	store origin.WriteStore
	state names.Sweep
}

// announceSweep begins a sweep that wants to delete keys.
func announceSweep(t testing.TB, s origin.WriteStore, id byte, keys ...names.Key) *manualSweep {
	t.Helper()
	b := &manualSweep{t: t, store: s, state: names.Sweep{ID: strings.Repeat(string([]byte{'a' + id}), 32), Started: time.Unix(1, 0)}}
	b.list(keys)
	b.put()
	return b
}

func (b *manualSweep) list(keys []names.Key) {
	b.t.Helper()
	slices.Sort(keys)
	value, err := names.EncodeSweepList(keys)
	if err != nil {
		b.t.Fatal(err)
	}
	b.state.List = names.SweepListKey(value)
	if err := origintest.Replace(b.store, b.state.List, value); err != nil {
		b.t.Fatal(err)
	}
}

func (b *manualSweep) put() {
	b.t.Helper()
	value, err := names.Encode(&b.state)
	if err == nil {
		err = origintest.Replace(b.store, names.SweepKey(), value)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// kept returns what writers have asked the sweep to keep.
func (b *manualSweep) kept() []names.Key {
	b.t.Helper()
	var st names.Sweep
	if err := names.Decode(origintest.Get(b.t, b.store, names.SweepKey()), &st); err != nil {
		b.t.Fatal(err)
	}
	return st.Kept
}

// decide begins to delete what is listed and not kept.
func (b *manualSweep) decide(lease time.Time) []names.Key {
	b.t.Helper()
	kept := b.kept()
	listed, err := names.DecodeSweepList(origintest.Get(b.t, b.store, b.state.List))
	if err != nil {
		b.t.Fatal(err)
	}
	doomed := slices.DeleteFunc(listed, func(k names.Key) bool { return slices.Contains(kept, k) })
	b.list(doomed)
	b.state.Deleting, b.state.Lease, b.state.Owner = true, lease, "test"
	b.put()
	return doomed
}

// finish deletes what is doomed and ends the sweep.
func (b *manualSweep) finish(doomed []names.Key) {
	b.t.Helper()
	for _, k := range append(doomed, names.SweepKey()) {
		if err := b.store.Delete(b.t.Context(), k); err != nil {
			b.t.Error(err)
		}
	}
}

// pagesBelow returns the keys of all pages of a tree.
func pagesBelow(t testing.TB, s origin.Store, root page.Hash) []names.Key {
	t.Helper()
	p, err := origin.Pages(s).Page(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	parts := treeParts{pages: origin.Pages(s), keys: []names.Key{names.PageKey(root)}, shards: map[codec.Hash]struct{}{}}
	if err := parts.add(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	slices.Sort(parts.keys)
	return parts.keys
}

// deadTree leaves a tree in the store that no version has any more.
func deadTree(t testing.TB, d *fixture) (words string, keys []names.Key) {
	t.Helper()
	words = wideTree(100, "x")
	row := d.must(d.replace("m", words))
	d.must(d.replace("m", "a=1"))
	if err := d.Delete(t.Context(), "m", 0); err != nil {
		t.Fatal(err)
	}
	return words, pagesBelow(t, d.store, row.Root)
}

// Pages that a sweep wants to delete are rescued before they are used again.
func TestRescuePages(t *testing.T) {
	for _, verb := range []string{"replace", "again"} {
		t.Run(verb, func(t *testing.T) {
			d := newFixture(t, origintest.Memory())
			words, keys := deadTree(t, d)
			sweep := announceSweep(t, d.store, 0, slices.Clone(keys)...)
			b, err := d.Begin(t.Context(), "m", PublishOptions{})
			if err != nil {
				t.Fatal(err)
			}
			f := origintest.WithFaults(d.store) // answers that are lost change nothing
			f.Lost, f.Vanished, f.Refused = 0.2, 0.1, 0.1
			d.Writer.store = f
			if verb == "replace" {
				d.must(b.Replace(t.Context(), seqOf(entriesOf(words))))
			} else {
				root, _ := d.Catalog().Resolve(t.Context(), "m", names.AsOf{Form: names.ByIdentity, Identity: rowOf(t, d, 0).Identity})
				d.must(b.Republish(t.Context(), root))
			}
			for _, k := range keys {
				if !slices.Contains(sweep.kept(), k) {
					t.Errorf("%s was not rescued", k)
				}
			}
			sweep.finish(sweep.decide(d.Now().Add(time.Hour)))
			if got := d.see("m", ""); !strings.HasPrefix(got, "2: dir0/") {
				t.Errorf("%.80q", got)
			}
		})
	}
}

// rowOf returns the tree of a version, deleted or not.
func rowOf(t testing.TB, d *fixture, number uint64) names.Row {
	t.Helper()
	for v, err := range d.Catalog().History(t.Context(), "m") {
		if err != nil {
			t.Fatal(err)
		}
		if v.Kind == names.Write && v.Number == number {
			return v.Rows[0]
		}
	}
	t.Fatalf("version %d never was", number)
	return names.Row{}
}

// Pages that a sweep is deleting are put again when it has done so.
func TestWaitForSweep(t *testing.T) {
	d := newFixture(t, origintest.Memory())
	words, keys := deadTree(t, d)
	sweep := announceSweep(t, d.store, 0, slices.Clone(keys)...)
	doomed := sweep.decide(d.Now().Add(time.Hour))
	waits := 0
	d.o.Sleep = func(context.Context, time.Duration) error {
		if waits++; waits == 3 {
			sweep.finish(doomed)
		}
		return nil
	}
	d.must(d.replace("m", words))
	if waits != 3 {
		t.Errorf("it slept %d times", waits)
	}
	if got := d.see("m", ""); !strings.HasPrefix(got, "2: dir0/") {
		t.Errorf("%.80q", got)
	}
	// An unlisted object causes no wait.
	sweep = announceSweep(t, d.store, 1, names.PageKey(page.Hash{1}))
	sweep.decide(d.Now().Add(time.Hour))
	d.o.Sleep = func(context.Context, time.Duration) error { return errors.New("it waits") }
	d.must(d.replace("m", "b=1"))
}

// The kept keys of other writers may be in any order, and they are not requested again.
func TestKeptInAnyOrder(t *testing.T) {
	d := newFixture(t, origintest.Memory())
	words, keys := deadTree(t, d)
	sweep := announceSweep(t, d.store, 0, slices.Clone(keys)...)
	sweep.state.Kept = slices.Clone(keys)
	slices.Reverse(sweep.state.Kept)
	sweep.put()
	d.must(d.replace("m", words))
	if kept := sweep.kept(); !slices.Equal(kept, sweep.state.Kept) {
		t.Errorf("kept are %q", kept)
	}
}

// A sweep that decides while pages are being rescued is waited for, too.
func TestRescueTooLate(t *testing.T) {
	d := newFixture(t, origintest.Memory())
	words, keys := deadTree(t, d)
	sweep := announceSweep(t, d.store, 0, slices.Clone(keys)...)
	f := origintest.WithFaults(d.store)
	var doomed []names.Key
	f.Before = func(_ context.Context, c origintest.Call) error {
		if c.Key == names.SweepKey() && c.Op == "PutIfMatch" && doomed == nil {
			doomed = sweep.decide(d.Now().Add(time.Hour))
		}
		return nil
	}
	d.store, d.Writer.store = f, f
	slept := false
	d.o.Sleep = func(_ context.Context, wait time.Duration) error {
		if wait > time.Second && !slept {
			slept = true
			sweep.finish(doomed)
		}
		return nil
	}
	d.must(d.replace("m", words))
	if !slept {
		t.Error("it did not wait")
	}
	if got := d.see("m", ""); !strings.HasPrefix(got, "2: dir0/") {
		t.Errorf("%.80q", got)
	}
}

// A sweep that was left behind while it deleted is not waited for without end.
func TestSweepLeftBehind(t *testing.T) {
	d := newFixture(t, origintest.Memory())
	words, keys := deadTree(t, d)
	announceSweep(t, d.store, 0, slices.Clone(keys)...).decide(d.Now().Add(time.Hour))
	if _, err := d.replace("m", words); err == nil || !strings.Contains(err.Error(), "run the sweep again") {
		t.Errorf("error %v", err)
	}
	d.must(d.replace("m", "b=1"))
}

// The clock of a sweeper may differ from that of a publisher, so its lease proves nothing. A sweep was
// left behind if its state has not changed for three windows.
func TestLeaseOfAnotherClock(t *testing.T) {
	const window = time.Hour
	tests := []struct {
		name        string
		lease       time.Duration // its end, after the time of the publisher
		renew, ends time.Duration // when the sweep renews the lease, and when it ends; 0: never
		want        time.Duration // that the publish waits
		left        bool
	}{
		{"behind and alive", -210 * time.Minute, 0, 5 * time.Minute, 5 * time.Minute, false},
		{"ahead and killed", 10 * time.Hour, 0, 0, 3 * window, true},
		{"behind and slow", -210 * time.Minute, 30 * time.Minute, 6 * time.Hour, 6 * time.Hour, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newFixture(t, origintest.Memory())
			words, keys := deadTree(t, d)
			sweep := announceSweep(t, d.store, 0, slices.Clone(keys)...)
			doomed := sweep.decide(d.Now().Add(tt.lease))
			begun, renewed := d.Now(), d.Now()
			d.o.Sleep = func(ctx context.Context, wait time.Duration) error {
				err := d.Sleep(ctx, wait)
				if tt.renew > 0 && d.Now().Sub(renewed) >= tt.renew {
					renewed = d.Now()
					sweep.state.Lease = sweep.state.Lease.Add(tt.renew)
					sweep.put()
				}
				if tt.ends > 0 && d.Now().Sub(begun) >= tt.ends && doomed != nil {
					sweep.finish(doomed)
					doomed = nil
				}
				return err
			}
			_, err := d.replace("m", words)
			if left := err != nil && strings.Contains(err.Error(), "run the sweep again"); left != tt.left || !left && err != nil {
				t.Errorf("error %v", err)
			}
			if waited := d.Now().Sub(begun); waited < tt.want || waited > tt.want+time.Minute {
				t.Errorf("it waited %v, want %v", waited, tt.want)
			}
		})
	}
}

// A lost list does not prevent a publish, because a sweep cannot delete anything by it.
func TestSweepListLost(t *testing.T) {
	d := newFixture(t, origintest.Memory())
	words, keys := deadTree(t, d)
	sweep := announceSweep(t, d.store, 0, slices.Clone(keys)...)
	if err := d.store.Delete(t.Context(), sweep.state.List); err != nil {
		t.Fatal(err)
	}
	d.must(d.replace("m", words))
	sweep.state.Deleting, sweep.state.Lease = true, d.Now().Add(time.Hour)
	sweep.put()
	if _, err := d.replace("m", "b=1"); !errors.Is(err, origin.ErrNotFound) {
		t.Errorf("another sweep may use it: %v", err)
	}
}

// A publish checks the objects it relies on again when its window of an hour is over. Each
// row is an event between the build of the tree and its publish.
func TestWindow(t *testing.T) {
	tests := []struct {
		name    string
		pass    time.Duration
		sweep   string // what a sweep has done meanwhile: "announced", "deleted"
		rescued bool
		err     error
	}{
		{"in time, no sweep", 20 * time.Minute, "", false, nil},
		{"in time, a sweep announced", 20 * time.Minute, "announced", false, nil}, // it will see the commit
		{"half over, no sweep", 40 * time.Minute, "", false, nil},
		{"half over, a sweep announced", 40 * time.Minute, "announced", true, nil},
		{"over, no sweep", 2 * time.Hour, "", false, nil},
		{"over, a sweep announced", 2 * time.Hour, "announced", true, nil},
		{"over, all deleted", 3 * time.Hour, "deleted", false, ErrSwept},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newFixture(t, origintest.Memory())
			words, keys := deadTree(t, d)
			f := origintest.WithFaults(d.store)
			d.store, d.Writer.store = f, f
			var sweep *manualSweep
			f.Before = func(_ context.Context, c origintest.Call) error {
				p, err := names.ParseKey(c.Key)
				if err != nil || p.Kind != names.VersionKind || !c.Changes() {
					return nil
				}
				f.Before = nil
				d.Pass(tt.pass)
				if tt.sweep != "" {
					sweep = announceSweep(t, f, 0, slices.Clone(keys)...)
				}
				if tt.sweep == "deleted" {
					sweep.finish(sweep.decide(d.Now()))
				}
				return nil
			}
			_, err := d.replace("m", words)
			if !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			if sweep != nil && tt.sweep == "announced" {
				if kept := sweep.kept(); slices.Equal(kept, keys) != tt.rescued {
					t.Errorf("rescued %d of %d pages", len(kept), len(keys))
				}
			}
			got := d.see("m", "")
			if want := "2: dir0/"; strings.HasPrefix(got, want) != (err == nil) {
				t.Errorf("a reader sees %.80q", got)
			}
		})
	}
}

// A store on which each attempt takes longer than the window is too slow. No other writer was faster.
func TestWindowTooShort(t *testing.T) {
	d := newFixture(t, origintest.Memory())
	f := origintest.WithFaults(d.store)
	d.store, d.Writer.store = f, f
	f.Before = func(_ context.Context, c origintest.Call) error {
		if p, err := names.ParseKey(c.Key); err == nil && p.Kind == names.VersionKind && c.Changes() {
			d.Pass(2 * time.Hour)
		}
		return nil
	}
	if _, err := d.replace("m", "a=1"); !errors.Is(err, ErrSlow) {
		t.Errorf("error %v, want %v", err, ErrSlow)
	}
}

// When the window is over the entry of the symbol list may be gone: it is put again.
func TestWindowSymbol(t *testing.T) {
	d := newFixture(t, origintest.Memory())
	f := origintest.WithFaults(d.store)
	d.store, d.Writer.store = f, f
	f.Before = func(_ context.Context, c origintest.Call) error {
		p, err := names.ParseKey(c.Key)
		if err != nil || p.Kind != names.VersionKind || !c.Changes() {
			return nil
		}
		f.Before = nil
		d.Pass(3 * time.Hour)
		for _, k := range keysOf(t, f, names.SymbolPrefix) {
			if err := f.Delete(t.Context(), k); err != nil {
				t.Fatal(err)
			}
		}
		return nil
	}
	d.must(d.replace("m", "a=1"))
	if len(keysOf(t, d.store, names.SymbolPrefix)) == 0 {
		t.Error("the symbol is not in the list")
	}
}

// A knownAll is a Ledger with one chunk and one file.
type knownAll struct {
	chunk, xorb, file, shard codec.Hash
	in                       *shard.FileInfo
}

func (k knownAll) Lookup(c codec.Hash) (codec.Hash, uint32, bool) { return k.xorb, 0, c == k.chunk }
func (k knownAll) Chunk(codec.Hash, uint32) (codec.Hash, bool)    { return k.chunk, true }
func (k knownAll) File(f codec.Hash) (*shard.FileInfo, codec.Hash, bool) {
	return k.in, k.shard, f == k.file
}
func (k knownAll) Learn(codec.Hash) bool { return true }

// A plainKnown is a Known and no more.
type plainKnown struct{ pack.ChunkIndex }

// Xorbs and shards are rescued, each by the way in which it is reused; and while a sweep
// deletes them they are not known.
func TestRescueData(t *testing.T) {
	builder := origintest.NewBuilder(t, origintest.Form{})
	file := builder.Add(origintest.Random(1, 3000), 1000)
	x := builder.Xorbs[0]
	tests := []struct {
		name string
		use  func(b *Session, k knownAll) bool
		want func(s codec.Hash) []names.Key
	}{
		{"chunk", func(b *Session, k knownAll) bool {
			_, _, ok := b.Known(plainKnown{k}).Lookup(k.chunk)
			return ok
		}, func(codec.Hash) []names.Key { return []names.Key{x.Key()} }},
		{"chunk of a ledger", func(b *Session, k knownAll) bool {
			_, _, ok := b.Known(k).(pack.Ledger).Lookup(k.chunk)
			return ok
		}, func(codec.Hash) []names.Key { return []names.Key{x.Key()} }},
		{"file", func(b *Session, k knownAll) bool {
			_, _, ok := b.Known(k).(pack.Ledger).File(k.file)
			return ok
		}, func(s codec.Hash) []names.Key { return []names.Key{names.ShardKey(s), x.Key()} }},
		{"shard", func(b *Session, k knownAll) bool {
			ok, err := b.Has(t.Context(), k.shard)
			return ok && err == nil
		}, func(s codec.Hash) []names.Key { return []names.Key{names.ShardKey(s), x.Key()} }},
		{"entry", func(b *Session, k knownAll) bool {
			e := page.Entry{Path: "f", Mode: 0o644, ModTime: mtime, Size: 3000, ID: codec.FileID{File: k.file, Shard: k.shard, Block: 48}}
			_, err := b.Replace(t.Context(), seqOf([]page.Entry{entryOf("/"), e}))
			return err == nil
		}, func(s codec.Hash) []names.Key { return []names.Key{names.ShardKey(s), x.Key()} }},
		{"changed entry", func(b *Session, k knownAll) bool {
			e := page.Entry{Path: "f", Mode: 0o644, ModTime: mtime, Size: 3000, ID: codec.FileID{File: k.file, Shard: k.shard, Block: 48}}
			_, err := b.Update(t.Context(), []page.Change{{New: &e}})
			return err == nil
		}, func(s codec.Hash) []names.Key { return []names.Key{names.ShardKey(s), x.Key()} }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			begin := func(state string) (bool, []names.Key) {
				s := origintest.Memory()
				k := knownAll{codec.Hash{9}, x.Info.Xorb, file.Info.File, builder.Put(s), file.Info}
				d := newFixture(t, s)
				sweep := announceSweep(t, s, 0, x.Key(), names.ShardKey(k.shard))
				if state == "deleting" {
					doomed := sweep.decide(d.Now().Add(time.Hour))
					d.o.Sleep = func(context.Context, time.Duration) error {
						sweep.finish(doomed)
						return nil
					}
				}
				b, err := d.Begin(t.Context(), "m", PublishOptions{})
				if err != nil {
					t.Fatal(err)
				}
				ok := tt.use(b, k)
				if tt.use(b, k) != ok && tt.name != "entry" {
					t.Error("asked again it says something else")
				}
				if state == "deleting" {
					return ok, nil
				}
				want := tt.want(k.shard)
				slices.Sort(want)
				if kept := sweep.kept(); !slices.Equal(kept, want) {
					t.Errorf("kept %q, want %q", kept, want)
				}
				return ok, sweep.kept()
			}
			if ok, _ := begin("announced"); !ok {
				t.Error("it cannot be reused")
			}
			if ok, _ := begin("deleting"); ok {
				t.Error("it was reused while it was deleted")
			}
		})
	}
}

// A slowSink calls something before it stores.
type slowSink struct {
	pack.Sink
	before func()
}

func (s slowSink) PutXorb(ctx context.Context, in *xorb.Info, body []byte) error {
	s.before()
	return s.Sink.PutXorb(ctx, in, body)
}

func (s slowSink) PutShard(ctx context.Context, w *shard.Writer) (codec.Hash, error) {
	s.before()
	return s.Sink.PutShard(ctx, w)
}

// A stored object may exist already on the list of a sweep. The test makes whole publishes
// with a real packer during sweeps.
func TestSinkAndSweep(t *testing.T) {
	content := origintest.Random(7, 300_000)
	packInto := func(t *testing.T, d *fixture, b *Session, before func()) names.Row {
		var packed []pack.File
		w := pack.NewWriter(b.Sink(slowSink{origin.Sink(d.store), before}), pack.Options{Done: func(f pack.File) { packed = append(packed, f) }})
		if err := w.AddFile(t.Context(), strings.NewReader(string(content))); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		e := page.Entry{Path: "f", Mode: 0o644, ModTime: mtime, Size: packed[0].Size, ID: packed[0].ID}
		return d.must(b.Replace(t.Context(), seqOf([]page.Entry{entryOf("/"), e})))
	}
	for _, state := range []string{"announced", "deleting", "announced while it packs", "over while it packs"} {
		t.Run(state, func(t *testing.T) {
			d := newFixture(t, origintest.Memory())
			first, err := d.Begin(t.Context(), "m", PublishOptions{})
			if err != nil {
				t.Fatal(err)
			}
			packInto(t, d, first, func() {})
			data := keysOf(t, d.store, "tdata/")
			d.must(d.replace("m", "a=1"))
			if err := d.Delete(t.Context(), "m", 0); err != nil {
				t.Fatal(err)
			}
			var sweep *manualSweep
			var doomed []names.Key
			if !strings.Contains(state, "packs") {
				sweep = announceSweep(t, d.store, 0, slices.Clone(data)...)
			}
			if state == "deleting" {
				doomed = sweep.decide(d.Now().Add(time.Hour))
				d.o.Sleep = func(context.Context, time.Duration) error {
					sweep.finish(doomed)
					return nil
				}
			}
			b, err := d.Begin(t.Context(), "m", PublishOptions{})
			if err != nil {
				t.Fatal(err)
			}
			packInto(t, d, b, func() {
				if !strings.Contains(state, "packs") || sweep != nil {
					return
				}
				d.Pass(45 * time.Minute)
				sweep = announceSweep(t, d.store, 0, slices.Clone(data)...)
				if state == "over while it packs" {
					sweep.finish(sweep.decide(d.Now()))
				}
			})
			if strings.HasPrefix(state, "announced") {
				sweep.finish(sweep.decide(d.Now()))
			}
			if got := keysOf(t, d.store, "tdata/"); !slices.Equal(got, data) {
				t.Errorf("%q are there, want %q", got, data)
			}
		})
	}
}

package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
)

// found runs a Check and returns its findings, a line each. A line has missing or damaged, the
// kind of object, and the version that needs it.
func (c *fixture) found(data bool) []string {
	c.t.Helper()
	var found []string
	var missing, damaged int64
	r, err := sweep.Check(c.t.Context(), c.store, origin.Pages(c.store), sweep.CheckOptions{Data: data, Found: func(f sweep.Finding) {
		what := "damaged"
		if damaged++; f.Missing {
			what = "missing"
			missing, damaged = missing+1, damaged-1
		}
		kind := names.Kind(0)
		if p, err := names.ParseKey(f.Key); err == nil {
			kind = p.Kind
		}
		line := fmt.Sprintf("%s %v", what, kind)
		if f.Symbol != "" {
			line += fmt.Sprintf(" of %s@%d", f.Symbol, f.Version)
		}
		if kind == names.PageKind { // else any of the files will do
			line += " " + f.Path
		}
		found = append(found, strings.TrimSpace(line))
		if f.Err == nil {
			c.t.Errorf("no error in %+v", f)
		}
	}})
	if err != nil {
		c.t.Errorf("Check: %v", err)
	}
	if r.Missing != missing || r.Damaged != damaged {
		c.t.Errorf("the report says %d missing and %d damaged, %d and %d were found", r.Missing, r.Damaged, missing, damaged)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// historyOf returns a store with a symbol "a" of eight versions, of which 1 was deleted. It
// also has a snapshot of the symbol "b", and a symbol list.
func historyOf(t *testing.T) *fixture {
	c := newFixture(t)
	for i := range 8 {
		c.now = c.now.Add(time.Second)
		c.publish("a", tree(numbers(10*i, 10*i+12)...))
	}
	c.publish("b", tree(numbers(0, 3)...))
	c.delete("a", 1)
	if _, err := c.p.Snapshot(t.Context(), "snap", "", map[string]names.AsOf{"b": {}}, false); err != nil {
		t.Fatal(err)
	}
	if _, err := c.p.RebuildSymbols(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCheck(t *testing.T) {
	rootKey := func(c *fixture) names.Key { return names.PageKey(c.latest("a").Root) }
	leafKey := func(c *fixture) names.Key { // the last one
		h := c.latest("a").Root
		for {
			p, err := page.DecodeAs(h, origintest.Get(c.t, c.store, names.PageKey(h)))
			if err != nil {
				c.t.Fatal(err)
			}
			if p.Level() == 0 {
				return names.PageKey(h)
			}
			l, _ := p.Link(p.Len() - 1)
			h = l.Page
		}
	}
	shardKey := func(c *fixture) names.Key { return names.ShardKey(c.shardOf("a")) }
	const last = "dir2/name 011"
	tests := []struct {
		name   string
		damage func(c *fixture)
		want   []string
	}{
		{"nothing", func(*fixture) {}, nil},
		{"page damaged", func(c *fixture) { c.flip(leafKey(c)) }, []string{"damaged index page of a@7 " + last}},
		{"page missing", func(c *fixture) { c.remove(leafKey(c)) }, []string{"missing index page of a@7 " + last}},
		{"root page missing", func(c *fixture) { c.remove(rootKey(c)) }, []string{"missing index page of a@7"}},
		{"page not where its link says", func(c *fixture) {
			root, leaf := origintest.Get(c.t, c.store, rootKey(c)), leafKey(c)
			p, _ := page.Decode(root)
			l, _ := p.Link(0)
			c.now = c.now.Add(time.Second)
			level := page.NewLevel(smallSettings().Page, p.Level(), func(l page.Link, b []byte) error {
				c.replace(names.PageKey(l.Page), b)
				c.forgeRow("c", names.Row{Time: c.now.UTC(), Root: l.Page, Identity: l.Identity, Entries: l.Entries, Bytes: l.Bytes})
				return nil
			})
			l.Page = page.Hash(must(names.ParseKey(leaf)).Hash)
			if err := errors.Join(level.AddLink(l), level.End()); err != nil {
				c.t.Fatal(err)
			}
		}, []string{"damaged index page of c@0", "damaged symbol list of c@0"}},
		{"reference damaged", func(c *fixture) { c.flip(names.RefKey("a")) }, []string{"damaged reference of a@0"}},
		{"reference of another symbol", func(c *fixture) {
			c.replace(names.RefKey("c"), origintest.Get(c.t, c.store, names.RefKey("a")))
		}, []string{"damaged reference of c@0"}},
		{"reference with another newest version", func(c *fixture) {
			ref := c.ref("a")
			row := *ref.Latest
			row.Number--
			ref.Latest = &row
			c.put(names.RefKey("a"), &ref)
		}, []string{"damaged reference of a@0", "damaged version of a@6"}},
		{"reference lost", func(c *fixture) { c.remove(names.RefKey("a")) }, []string{"missing reference of a@0"}},
		{"reference of a symbol with one change lost", func(c *fixture) { c.remove(names.RefKey("b")) }, []string{"missing reference of b@0"}},
		{"newest element missing", func(c *fixture) { c.remove(c.head("a")) }, []string{"missing version of a@0"}},
		{"newest element damaged", func(c *fixture) { c.flip(c.head("a")) }, []string{"damaged version of a@0"}},
		{"older element missing", func(c *fixture) { c.remove(c.keys(names.VersionsPrefix("a"))[2]) }, []string{"missing version of a@0"}},
		{"row with other counts", func(c *fixture) {
			row := c.latest("b")
			row.Bytes++
			c.forgeRow("c", row)
		}, []string{"damaged reference of c@0", "damaged symbol list of c@0"}},
		{"row with another identity", func(c *fixture) {
			row := c.latest("b")
			row.Identity[0] ^= 1
			c.forgeRow("c", row)
		}, []string{"damaged reference of c@0", "damaged symbol list of c@0"}},
		{"link with another identity", func(c *fixture) {
			p, _ := page.Decode(origintest.Get(c.t, c.store, rootKey(c)))
			l, _ := p.Link(0)
			c.now = c.now.Add(time.Second)
			level := page.NewLevel(smallSettings().Page, p.Level(), func(l page.Link, b []byte) error {
				c.replace(names.PageKey(l.Page), b)
				c.forgeRow("c", names.Row{Time: c.now.UTC(), Root: l.Page, Identity: l.Identity, Entries: l.Entries, Bytes: l.Bytes})
				return nil
			})
			l.Identity[0] ^= 1
			if err := errors.Join(level.AddLink(l), level.End()); err != nil {
				c.t.Fatal(err)
			}
		}, []string{"damaged index page of c@0", "damaged symbol list of c@0"}},
		{"shard damaged", func(c *fixture) { c.flip(shardKey(c)) }, []string{"damaged shard of a@7"}},
		{"shard missing", func(c *fixture) { c.remove(shardKey(c)) }, []string{"missing shard of a@7"}},
		{"xorb missing", func(c *fixture) {
			for _, k := range c.keys(names.XorbPrefix)[1:] {
				c.remove(k)
			}
		}, nil},
		{"xorb damaged", func(c *fixture) { c.flip(c.keys(names.XorbPrefix)[0]) }, nil},
		{"another xorb under the key", func(c *fixture) {
			k := c.keys(names.XorbPrefix)
			c.replace(k[0], origintest.Get(c.t, c.store, k[1]))
		}, nil},
		{"snapshot damaged", func(c *fixture) { c.flip(names.SnapshotKey("snap")) }, []string{"damaged snapshot"}},
		{"tree of a snapshot missing", func(c *fixture) {
			var snap names.Snapshot
			c.decode(names.SnapshotKey("snap"), &snap)
			row := snap.Rows["b"]
			row.Root[0] ^= 1
			snap.Rows["b"] = row
			c.put(names.SnapshotKey("snap"), &snap)
		}, []string{"missing index page of b@0"}},
		{"settings damaged", func(c *fixture) { c.flip(names.SettingsKey()) }, []string{"damaged settings"}},
		{"symbol list damaged", func(c *fixture) { c.flip(c.keys(names.SymbolPrefix)[0]) }, []string{"damaged symbol list"}},
		{"sweep damaged", func(c *fixture) { c.replace(names.SweepKey(), []byte("{}\n")) }, []string{"damaged sweep"}},
		{"list of a sweep missing", func(c *fixture) {
			list, _ := names.EncodeSweepList(nil)
			c.put(names.SweepKey(), &names.Sweep{ID: "00112233445566778899aabbccddeeff", List: names.SweepListKey(list), Started: c.now})
		}, []string{"missing sweep list"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := historyOf(t)
			tt.damage(c)
			got := c.found(false)
			switch {
			case strings.Contains(tt.name, "xorb"):
				what, missing := "damaged xorb of ", strings.Contains(tt.name, "missing")
				if missing {
					what = "missing xorb of "
				} else {
					got = c.found(true)
				}
				if len(got) == 0 || slices.ContainsFunc(got, func(s string) bool { return !strings.HasPrefix(s, what) }) {
					t.Errorf("found %q", got)
				}
			case !slices.Equal(got, tt.want):
				t.Errorf("found %q, want %q", got, tt.want)
			}
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Check compares an entry with the file in its shard.
func TestCheckEntries(t *testing.T) {
	tests := []struct {
		name   string
		change func(e *page.Entry)
		want   []string
	}{
		{"as it is", func(*page.Entry) {}, nil},
		{"other size", func(e *page.Entry) { e.Size++ }, []string{"damaged shard of c@0"}},
		{"other file", func(e *page.Entry) { e.ID.File[0] ^= 1 }, []string{"damaged shard of c@0"}},
		{"no block there", func(e *page.Entry) { e.ID.Block += 48 }, []string{"damaged shard of c@0"}},
		{"behind the end", func(e *page.Entry) { e.ID.Block = 48 << 30 }, []string{"damaged shard of c@0"}},
		{"no shard", func(e *page.Entry) { e.ID = codec.FileID{File: e.ID.File} }, nil},
		{"no such shard", func(e *page.Entry) { e.ID.Shard[0] ^= 1 }, []string{"missing shard of c@0"}},
		{"not in a directory", func(e *page.Entry) { e.Path = "no/x" }, []string{"damaged index page of c@0 no/x"}},
		{"in a file", func(e *page.Entry) { e.Path = "a/x" }, []string{"damaged index page of c@0 a/x"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newFixture(t)
			e := page.Entry{Path: "x", Mode: 0o644, Size: int64(len(content(3))), ID: c.ids(0)[3]}
			tt.change(&e)
			c.forge("c", func(yield func(page.Entry, error) bool) {
				_ = yield(page.Entry{Type: page.Dir}, nil) && yield(page.Entry{Path: "a"}, nil) && yield(e, nil)
			})
			if got := c.found(true); !slices.Equal(got, tt.want) {
				t.Errorf("found %q, want %q", got, tt.want)
			}
		})
	}
}

// Check notices an entry whose folder was removed with a new version, although most pages of
// the two trees are the same.
func TestCheckFolders(t *testing.T) {
	files := map[string]int{}
	for i := range 120 {
		files[fmt.Sprintf("d%02d/e/name %03d", i/4, i)] = 1
	}
	all := func(c *fixture, leave func(page.Entry) bool) func(yield func(page.Entry, error) bool) {
		return func(yield func(page.Entry, error) bool) {
			for e, err := range entries(files, c.ids(0)) {
				if !leave(e) && !yield(e, err) {
					return
				}
			}
		}
	}
	tests := []struct {
		name  string
		leave string
		want  []string
	}{
		{"all there", "-", nil},
		{"no root", "", []string{"damaged index page of a@1 d00"}},
		{"no d07", "d07", []string{"damaged index page of a@1 d07/e"}},
		{"no d07/e", "d07/e", []string{"damaged index page of a@1 d07/e/name 028"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newFixture(t)
			c.forge("a", all(c, func(page.Entry) bool { return false }))
			c.now = c.now.Add(time.Second)
			second := c.forge("b", all(c, func(e page.Entry) bool { return e.Path == tt.leave }))
			c.remove(c.head("b"))
			c.remove(names.RefKey("b"))
			second.Number = 1
			parent, _ := names.DecodeVersion(c.head("a"), origintest.Get(t, c.store, c.head("a")))
			v := &names.Version{Symbol: "a", Seq: 2, Number: 1, Time: second.Time, TxID: "00112233445566778899aabbccddeeff"}
			v.Follow(parent, c.head("a"), &second, nil, 3)
			value := must(names.Encode(v))
			c.replace(names.VersionKey(v, value), value)
			c.put(names.RefKey("a"), &names.Ref{Symbol: "a", Seq: 2, Head: names.VersionKey(v, value), Latest: &second})
			if got := c.found(false); !slices.Equal(got, tt.want) {
				t.Errorf("found %q, want %q", got, tt.want)
			}
		})
	}
}

func TestCheckCounts(t *testing.T) {
	c := historyOf(t)
	c.replace("tindex/zz/not a page", []byte("x"))
	r, err := sweep.Check(t.Context(), c.store, origin.Pages(c.store), sweep.CheckOptions{Data: true})
	if err != nil {
		t.Fatal(err)
	}
	if r.Pages < 20 || r.Xorbs < 8 || r.Shards < 8 || r.Entries < 8*12 {
		t.Errorf("report = %+v", r)
	}
	if r.Usage == nil || int64(len(r.Usage.Xorbs)) != r.Xorbs || r.Usage.LiveBytes() == 0 {
		t.Error("the usage lacks xorbs")
	}
	r.Pages, r.Xorbs, r.Shards, r.Entries, r.Usage = 0, 0, 0, 0, nil
	if want := (sweep.CheckReport{Symbols: 2, Versions: 8, Snapshots: 1, Ignored: 1}); r != want {
		t.Errorf("report = %+v, want %+v", r, want)
	}
}

// A store that answers too late for its own limits is a fault. The end of the check is none.
func TestCheckTimeouts(t *testing.T) {
	for _, ended := range []bool{false, true} {
		c := historyOf(t)
		ctx, cancel := context.WithCancel(t.Context())
		f := origintest.WithFaults(c.store)
		f.Before = func(ctx context.Context, call origintest.Call) error {
			if p, err := names.ParseKey(call.Key); err != nil || p.Kind != names.ShardKind {
				return nil
			}
			if ended {
				cancel()
				return ctx.Err()
			}
			return fmt.Errorf("no answer: %w", context.DeadlineExceeded)
		}
		faults := 0
		r, err := sweep.Check(ctx, f, origin.Pages(f), sweep.CheckOptions{Found: func(sweep.Finding) { faults++ }})
		cancel()
		if ended != (err != nil) || ended != (faults == 0) || r.Missing != int64(faults) {
			t.Errorf("ended %v: %d faults, %d missing, error %v", ended, faults, r.Missing, err)
		}
	}
}

// Without a catalog there is nothing to check, and one from the future is left alone.
func TestCheckNone(t *testing.T) {
	s := origintest.Memory()
	if _, err := sweep.Check(t.Context(), s, origin.Pages(s), sweep.CheckOptions{}); !errors.Is(err, origin.ErrNotFound) {
		t.Errorf("Check = %v", err)
	}
	if _, err := sweep.Sweep(t.Context(), s, origin.Pages(s), sweep.Options{}); !errors.Is(err, origin.ErrNotFound) {
		t.Errorf("Sweep = %v", err)
	}
}

package repack_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dedup"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/repack"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
	"github.com/xetfs/xetfs/fs/catalog/tree"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

const grace = 4 * time.Minute

// settings with which a few files make a tree of several levels, and hours are minutes.
func settings() *names.Settings {
	s := names.DefaultSettings("", time.Time{})
	s.Page = page.Sizes{Min: 300, Max: 3000, Bits: 2, Restart: 4}
	s.Block = 3
	s.Window, s.Grace = time.Minute, grace
	return s
}

// A fixture is a store in which only the test does something, on a clock of its own.
type fixture struct {
	t     testing.TB
	now   atomic.Int64 // nanoseconds since 1970; puts of a repack read it at once
	store origin.WriteStore
}

func (s *fixture) time() time.Time       { return time.Unix(0, s.now.Load()) }
func (s *fixture) pass(d time.Duration)  { s.now.Add(int64(d)) }
func (s *fixture) setTime(now time.Time) { s.now.Store(now.UnixNano()) }

// fixtureAt returns a fixture without a store.
func fixtureAt(t testing.TB, now time.Time) *fixture {
	s := &fixture{t: t}
	s.setTime(now)
	return s
}

func newFixture(t testing.TB) *fixture {
	s := fixtureAt(t, time.Unix(1_700_000_000, 0))
	s.store = origintest.MemoryAt(s.time)
	return s
}

// writer opens the catalog of another view of the store.
func (s *fixture) writer(over origin.WriteStore) *writer.Writer {
	s.t.Helper()
	w, err := writer.Open(context.Background(), over, origin.Pages(over), writer.Options{
		Settings: settings(), Clock: s.time,
		Sleep: func(ctx context.Context, d time.Duration) error { s.pass(d); return ctx.Err() },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return w
}

// files are the contents of a tree by path.
type files map[string][]byte

// publish publishes files as the whole of a symbol.
func (s *fixture) publish(symbol string, tree files) names.Row {
	s.t.Helper()
	row, _, err := publish(s.writer(s.store), s.store, symbol, tree)
	if err != nil {
		s.t.Fatal(err)
	}
	s.pass(time.Second)
	return row
}

func publish(w *writer.Writer, store origin.WriteStore, symbol string, tree files) (names.Row, pack.Stats, error) {
	ctx := context.Background()
	b, err := w.Begin(ctx, symbol, writer.PublishOptions{})
	if err != nil {
		return names.Row{}, pack.Stats{}, err
	}
	known, err := dedup.Open(ctx, store, dedup.Options{})
	if err != nil {
		return names.Row{}, pack.Stats{}, err
	}
	defer known.Close() //nolint:errcheck // it is in memory
	var done []pack.File
	p := pack.NewWriter(b.Sink(origin.Sink(store)), pack.Options{Known: b.Known(known), Done: func(f pack.File) { done = append(done, f) }})
	paths := slices.Sorted(maps.Keys(tree))
	for _, path := range paths {
		if err := p.AddFile(ctx, bytes.NewReader(tree[path])); err != nil {
			p.Close(ctx)
			return names.Row{}, pack.Stats{}, err
		}
	}
	if err := p.Close(ctx); err != nil {
		return names.Row{}, pack.Stats{}, err
	}
	entries := map[string]page.Entry{"": {Type: page.Dir, Mode: 0o755}}
	for i, path := range paths {
		for dir := path; dir != ""; {
			dir = dir[:max(0, strings.LastIndexByte(dir, '/'))]
			entries[dir] = page.Entry{Path: dir, Type: page.Dir, Mode: 0o755}
		}
		sum := done[i].SHA256
		entries[path] = page.Entry{Path: path, Mode: 0o644, Size: done[i].Size, ID: done[i].ID, SHA256: &sum}
	}
	sorted := slices.SortedFunc(maps.Values(entries), func(a, b page.Entry) int { return page.ComparePaths(a.Path, b.Path) })
	row, err := b.Replace(ctx, func(yield func(page.Entry, error) bool) {
		for _, e := range sorted {
			if !yield(e, nil) {
				return
			}
		}
	})
	return row, p.Stats(), err
}

func (s *fixture) repack(o repack.Options) *repack.Report {
	s.t.Helper()
	r, err := s.repackOver(s.store, o)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s *fixture) repackOver(store origin.WriteStore, o repack.Options) (*repack.Report, error) {
	return repack.Run(context.Background(), store, s.writer(store), o)
}

// sweep sweeps when everything is older than the time of grace.
func (s *fixture) sweep() sweep.Report {
	s.t.Helper()
	s.pass(grace + time.Second)
	return s.sweepNow()
}

func (s *fixture) sweepNow() sweep.Report {
	s.t.Helper()
	return s.sweepWhile(func() {})
}

// sweepWhile calls a function while a sweep waits between its announcement and its deletions.
func (s *fixture) sweepWhile(change func()) sweep.Report {
	s.t.Helper()
	var once sync.Once
	r, err := sweep.Sweep(context.Background(), s.store, origin.Pages(s.store), sweep.Options{
		Clock: s.time,
		Sleep: func(ctx context.Context, d time.Duration) error {
			once.Do(change)
			s.pass(d)
			return ctx.Err()
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// check fails the test if catalog check finds something.
func (s *fixture) check() {
	s.t.Helper()
	_, err := sweep.Check(context.Background(), s.store, origin.Pages(s.store), sweep.CheckOptions{
		Data: true, Found: func(f sweep.Finding) { s.t.Errorf("found: %+v", f) },
	})
	if err != nil {
		s.t.Error(err)
	}
}

// view returns a sum of everything that can be read in a store: all live versions, and
// snapshots, with all bytes.
func view(t testing.TB, store origin.Store) map[string]string {
	t.Helper()
	ctx := context.Background()
	c, err := catalog.Open(ctx, store, origin.Pages(store))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	symbols, err := c.RefSymbols(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, symbol := range symbols {
		for row, err := range c.Live(ctx, symbol) {
			if err != nil {
				t.Fatal(err)
			}
			seen[fmt.Sprintf("%s@%d %v", symbol, row.Number, row.Time.UnixNano())] = readTree(t, store, row)
		}
		if row, err := c.Latest(ctx, symbol); err == nil {
			seen[symbol+"@latest"] = fmt.Sprint(row.Number, readTree(t, store, row))
		}
	}
	for name, err := range c.Snapshots(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.Snapshot(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		for symbol, row := range s.Rows {
			seen[fmt.Sprintf("%s in %s: %d", symbol, name, row.Number)] = readTree(t, store, row)
		}
	}
	return seen
}

// readTree returns a sum of the names and contents of a tree.
func readTree(t testing.TB, store origin.Store, row names.Row) string {
	t.Helper()
	tr, err := tree.Open(context.Background(), origin.Pages(store), row.Tree())
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	for e, err := range tr.All(context.Background(), "") {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(sum, "%q %d %d\n", e.Path, e.Type, e.Size)
		if e.Size > 0 {
			sum.Write(readFile(t, store, &e))
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:8])
}

// readFile reads a file and compares it with its hashes.
func readFile(t testing.TB, store origin.Store, e *page.Entry) []byte {
	t.Helper()
	ctx := context.Background()
	b, _, err := store.Get(ctx, names.ShardKey(e.ID.Shard), "")
	if err != nil {
		t.Fatalf("%s: %v", e.Path, err)
	}
	f, err := shard.ReadFileInfo(bytes.NewReader(b), e.ID.Block)
	if err != nil || f.File != e.ID.File {
		t.Fatalf("%s: file info: %v", e.Path, err)
	}
	var content []byte
	for i, term := range f.Terms {
		k := names.XorbKey(term.Xorb)
		size, err := store.Size(ctx, k)
		if err != nil {
			t.Fatalf("%s: %v", e.Path, err)
		}
		in, err := xorb.ReadInfo(origin.ReaderAt(ctx, store, k), size)
		if err != nil {
			t.Fatal(err)
		}
		hashes := in.Chunks[term.Chunks.Start:term.Chunks.End]
		if f.Verify == nil || merkle.Term(hashes) != f.Verify[i] {
			t.Errorf("%s: term %d: wrong verification hash", e.Path, i)
		}
		start, end := in.PackedRange(term.Chunks)
		packed := make([]byte, end-start)
		if err := store.ReadAt(ctx, k, packed, start); err != nil {
			t.Fatal(err)
		}
		run, err := xorb.ParseRun(packed, term.Chunks, hashes)
		if err != nil {
			t.Fatal(err)
		}
		for c := term.Chunks.Start; c < term.Chunks.End; c++ {
			plain := make([]byte, run.Size(c))
			if _, err := run.Unpack(c, plain); err != nil {
				t.Fatal(err)
			}
			content = append(content, plain...)
		}
	}
	if sum := sha256.Sum256(content); e.SHA256 != nil && sum != *e.SHA256 || f.SHA256 != sum {
		t.Errorf("%s: wrong SHA-256", e.Path)
	}
	return content
}

// sizes returns the number and the bytes of the objects below a prefix.
func sizes(t testing.TB, store origin.Store, prefix string) (c sweep.Counts) {
	t.Helper()
	for item, err := range store.List(context.Background(), prefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		c.Objects++
		c.Bytes += item.Size
	}
	return c
}

// noise returns bytes that do not shrink.
func noise(seed, size int) []byte {
	var key [32]byte
	copy(key[:], fmt.Sprint(seed))
	b := make([]byte, size)
	_, _ = rand.NewChaCha8(key).Read(b)
	return b
}

// changing returns version v of a tree of which each version changes a random tenth.
func changing(count, size, v int) files {
	tree := files{}
	for i := range count {
		last := 0 // version that has changed the file last
		dice := rand.New(rand.NewPCG(1, uint64(i)))
		for u := 1; u <= v; u++ {
			if dice.IntN(10) == 0 {
				last = u
			}
		}
		tree[fmt.Sprintf("d%d/f%03d", i%7, i)] = noise(i*1000+last, size)
	}
	return tree
}

func equalViews(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s: a reader sees\n%v\nwant\n%v", what, got, want)
	}
}

package fs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	iofs "io/fs"
	"iter"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// A fakeCatalog has symbols with versions, in memory.
type fakeCatalog struct {
	mu        sync.Mutex
	trees     map[page.Hash]*fakeTree
	live      map[string][]names.Row // oldest first; an empty list: all were deleted
	next      map[string]uint64
	snapshots map[string]*names.Snapshot
	err       error  // of everything that asks a ref
	diffErr   error  // of Changes, before the first
	changing  func() // called by Changes, before the first; nil: nothing
	opened    int    // trees that were opened
	requested int    // refs that were asked
}

var _ catalog.VersionedCatalog = (*fakeCatalog)(nil)

func newFakeCatalog() *fakeCatalog {
	return &fakeCatalog{
		trees: map[page.Hash]*fakeTree{}, live: map[string][]names.Row{}, next: map[string]uint64{},
		snapshots: map[string]*names.Snapshot{},
	}
}

// publish adds a version, one day after the one before.
func (c *fakeCatalog) publish(symbol string, entries ...page.Entry) names.Row {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := newFakeTree(entries...)
	n := c.next[symbol]
	c.next[symbol]++
	row := names.Row{Number: n, Time: then.AddDate(0, 0, int(n)), Entries: int64(len(t.byPath))}
	binary.LittleEndian.PutUint64(row.Root[:], uint64(len(c.trees)+1))
	row.Identity = page.Identity(row.Root)
	t.row = row
	c.trees[row.Root] = t
	c.live[symbol] = append(c.live[symbol], row)
	return row
}

func (c *fakeCatalog) delete(symbol string, number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live[symbol] = slices.DeleteFunc(c.live[symbol], func(r names.Row) bool { return r.Number == number })
}

// counts returns how many trees were opened and how many refs asked.
func (c *fakeCatalog) counts() (opened, requested int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.opened, c.requested
}

func (c *fakeCatalog) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// snapshot keeps the newest versions of symbols.
func (c *fakeCatalog) snapshot(name string, symbols ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &names.Snapshot{Name: name, Rows: map[string]names.Row{}}
	for _, symbol := range symbols {
		s.Rows[symbol] = c.live[symbol][len(c.live[symbol])-1]
	}
	c.snapshots[name] = s
}

func (c *fakeCatalog) Symbols(context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		c.mu.Lock()
		list, err := slices.Sorted(maps.Keys(c.live)), c.err
		c.mu.Unlock()
		if err != nil {
			yield("", err)
			return
		}
		for _, s := range list {
			if len(c.rows(s)) > 0 && !yield(s, nil) {
				return
			}
		}
	}
}

// rows returns the live versions, newest first.
func (c *fakeCatalog) rows(symbol string) []names.Row {
	c.mu.Lock()
	defer c.mu.Unlock()
	rows := slices.Clone(c.live[symbol])
	slices.Reverse(rows)
	return rows
}

func (c *fakeCatalog) Open(ctx context.Context, symbol string, at names.AsOf) (catalog.Tree, error) {
	row, err := c.Resolve(ctx, symbol, at)
	if err != nil {
		return nil, err
	}
	return c.OpenRow(ctx, symbol, row)
}

func (c *fakeCatalog) OpenRow(_ context.Context, symbol string, row names.Row) (catalog.Tree, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened++
	t, ok := c.trees[row.Root]
	if !ok {
		return nil, fmt.Errorf("%s: no such tree", symbol)
	}
	if row.Time.IsZero() {
		return &fakeTree{byPath: t.byPath, byDir: t.byDir, row: row}, nil
	}
	return t, nil
}

func (c *fakeCatalog) Latest(ctx context.Context, symbol string) (names.Row, error) {
	return c.Resolve(ctx, symbol, names.AsOf{})
}

func (c *fakeCatalog) Resolve(_ context.Context, symbol string, at names.AsOf) (names.Row, error) {
	rows := c.rows(symbol)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requested++
	if c.err != nil {
		return names.Row{}, c.err
	}
	switch at.Form {
	case names.ByIdentity:
		if _, ok := c.trees[page.Hash(at.Identity)]; ok {
			return names.Row{Root: page.Hash(at.Identity), Identity: at.Identity}, nil
		}
	case names.BySnapshot:
		if s := c.snapshots[at.Snapshot]; s != nil {
			return s.Rows[symbol], nil
		}
	}
	for i, r := range rows {
		if at.Form == names.Latest || at.Form == names.ByNumber && r.Number == at.Number ||
			at.Form == names.ByAge && uint64(i+1) == at.Number || at.Form == names.ByTime && !r.Time.After(at.Time) {
			return r, nil
		}
	}
	return names.Row{}, fmt.Errorf("%s: no such version: %w", symbol, iofs.ErrNotExist)
}

func (c *fakeCatalog) Live(_ context.Context, symbol string) iter.Seq2[names.Row, error] {
	return func(yield func(names.Row, error) bool) {
		for _, r := range c.rows(symbol) {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (c *fakeCatalog) Snapshots(context.Context) iter.Seq2[string, error] { return nil }

func (c *fakeCatalog) Snapshot(_ context.Context, name string) (*names.Snapshot, error) {
	if s := c.snapshots[name]; s != nil {
		return s, nil
	}
	return nil, iofs.ErrNotExist
}

func (c *fakeCatalog) Changes(_ context.Context, from, to names.Row) iter.Seq2[page.Change, error] {
	return func(yield func(page.Change, error) bool) {
		c.mu.Lock()
		a, b, err := c.trees[from.Root], c.trees[to.Root], c.diffErr
		c.mu.Unlock()
		if c.changing != nil {
			c.changing()
		}
		if err != nil {
			yield(page.Change{}, err)
			return
		}
		both := maps.Clone(a.byPath)
		maps.Copy(both, b.byPath)
		for _, path := range slices.SortedFunc(maps.Keys(both), page.ComparePaths) {
			var change page.Change
			if e, ok := a.byPath[path]; ok {
				change.Old = &e
			}
			if e, ok := b.byPath[path]; ok {
				change.New = &e
			}
			if change.Old != nil && change.New != nil && change.Old.Equal(change.New) {
				continue
			}
			if !yield(change, nil) {
				return
			}
		}
	}
}

// text returns the entry of a file whose content is its text. Its hash depends on that.
func (e *fakeEngine) text(path, text string) page.Entry {
	sum := sha256.Sum256([]byte(text))
	entry := e.file(string(sum[:30]), []byte(text))
	entry.Path = path
	return entry
}

// at gives an entry another time.
func at(e page.Entry, t time.Time) page.Entry {
	e.ModTime = t
	return e
}

// see waits until a file of the mount has a text; "": until there is no such file.
func (m mountFixture) see(t *testing.T, name, text string) {
	t.Helper()
	var got []byte
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		got, err = readFile(m.path(name))
		if err == nil && text != "" && bytes.Equal(got, []byte(text)) || err != nil && text == "" {
			return
		}
	}
	t.Fatalf("%s: %q, %v, want %q", name, got, err, text)
}

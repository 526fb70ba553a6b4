package writer

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// A fixture is where tests publish: a writer at a store that it may share with others.
//
// Trees are written in words: "d/" is a directory, "d/x=12" a file with 12 in it,
// "l->d" a link. The root exists without being named, and the order is free.
type fixture struct {
	t testing.TB
	*Writer
	*manualClock
	store origin.WriteStore
}

// A manualClock is a clock that only Sleep moves, and a source of random bytes.
type manualClock struct {
	*origintest.Clock
	mu   sync.Mutex
	dice *rand.Rand // guarded by mu
}

func newManualClock() *manualClock {
	return &manualClock{Clock: origintest.NewClock(), dice: rand.New(rand.NewPCG(1, 2))}
}

func (k *manualClock) roll(b []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range b {
		b[i] = byte(k.dice.Uint32())
	}
}

func (k *manualClock) options() Options {
	return Options{
		Settings: &names.Settings{
			Page: page.Sizes{Min: 512, Max: 2048, Bits: 2, Restart: 16}, Block: 4,
			Window: time.Hour, Grace: 7 * 24 * time.Hour,
		},
		Clock: k.Now, Sleep: k.Sleep, Random: k.roll,
	}
}

// newFixture returns a fixture at a store.
func newFixture(t testing.TB, s origin.WriteStore) *fixture {
	t.Helper()
	return newFixtureWith(t, s, newManualClock())
}

// newFixtureWith is newFixture with an existing clock.
func newFixtureWith(t testing.TB, s origin.WriteStore, k *manualClock) *fixture {
	t.Helper()
	return &fixture{t, newTestPublisher(t, s, k.options()), k, s}
}

// reopen opens the catalog again, with empty caches.
func (d *fixture) reopen() {
	d.t.Helper()
	var err error
	if d.catalog, err = catalog.Open(context.Background(), d.store, origin.Pages(d.store)); err != nil {
		d.t.Fatal(err)
	}
}

func newTestPublisher(t testing.TB, s origin.WriteStore, o Options) *Writer {
	t.Helper()
	p, err := Open(context.Background(), s, origin.Pages(s), o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// inStores runs a test at an empty store of each sort.
func inStores(t *testing.T, test func(t *testing.T, s origin.WriteStore)) {
	t.Run("memory", func(t *testing.T) { test(t, origintest.Memory()) })
	t.Run("folder", func(t *testing.T) {
		s, err := dir.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		test(t, s)
	})
}

var mtime = time.Unix(1_600_000_000, 0)

func entryOf(word string) page.Entry {
	e := page.Entry{Mode: 0o644, ModTime: mtime}
	if path, ok := strings.CutSuffix(word, "/"); ok {
		e.Path, e.Type, e.Mode = path, page.Dir, 0o755
		return e
	}
	if path, target, ok := strings.Cut(word, "->"); ok {
		e.Path, e.Type, e.Mode, e.Target = path, page.Symlink, 0o777, target
		return e
	}
	path, content, ok := strings.Cut(word, "=")
	if !ok {
		panic(word)
	}
	e.Path, e.Size = path, int64(len(content))
	if content != "" {
		e.Inline = []byte(content)
	}
	return e
}

// entriesOf returns the entries of a tree in words, as publish wants them.
func entriesOf(words string) []page.Entry {
	list := []page.Entry{entryOf("/")}
	for word := range strings.FieldsSeq(words) {
		list = append(list, entryOf(word))
	}
	slices.SortFunc(list, func(a, b page.Entry) int { return page.ComparePaths(a.Path, b.Path) })
	return list
}

func seqOf(list []page.Entry) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// wordsOf returns the tree in words, in the order of its keys.
func wordsOf(ctx context.Context, t catalog.Tree) (string, error) {
	var words []string
	for e, err := range t.All(ctx, "") {
		switch {
		case err != nil:
			return "", err
		case e.Path == "":
		case e.Type == page.Dir:
			words = append(words, e.Path+"/")
		case e.Type == page.Symlink:
			words = append(words, e.Path+"->"+e.Target)
		default:
			words = append(words, e.Path+"="+string(e.Inline))
		}
	}
	return strings.Join(words, " "), nil
}

// replace publishes a tree in words.
func (d *fixture) replace(symbol, words string) (names.Row, error) {
	b, err := d.Begin(context.Background(), symbol, PublishOptions{Message: words, Nested: true})
	if err != nil {
		return names.Row{}, err
	}
	return b.Replace(context.Background(), seqOf(entriesOf(words)))
}

// changesOf returns changes in words: as in a tree, and "-path" for what is removed.
func changesOf(words string) []page.Change {
	var list []page.Change
	for word := range strings.FieldsSeq(words) {
		if path, ok := strings.CutPrefix(word, "-"); ok {
			list = append(list, page.Change{Old: &page.Entry{Path: path}})
			continue
		}
		e := entryOf(word)
		list = append(list, page.Change{New: &e})
	}
	slices.SortFunc(list, func(a, b page.Change) int { return page.ComparePaths(pathOf(a), pathOf(b)) })
	return list
}

func (d *fixture) update(symbol, words string) (names.Row, error) {
	b, err := d.Begin(context.Background(), symbol, PublishOptions{Message: words, Nested: true})
	if err != nil {
		return names.Row{}, err
	}
	return b.Update(context.Background(), changesOf(words))
}

// must is for rows that a test only needs to be there.
func (d *fixture) must(row names.Row, err error) names.Row {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
	return row
}

// see returns a version in words, or the reason for its absence without the symbol.
func (d *fixture) see(symbol, at string) string {
	d.t.Helper()
	asOf, err := names.ParseAsOf(at)
	if err != nil {
		d.t.Fatal(err)
	}
	return see(d.t, d.Catalog(), symbol, asOf)
}

func see(t testing.TB, c *catalog.StoreCatalog, symbol string, at names.AsOf) string {
	t.Helper()
	tree, err := c.Open(context.Background(), symbol, at)
	if err == nil {
		var words string
		if words, err = wordsOf(context.Background(), tree); err == nil {
			return fmt.Sprintf("%d: %s", tree.Version().Number, words)
		}
	}
	kind := ""
	for _, k := range []struct {
		err  error
		name string
	}{
		{iofs.ErrNotExist, "ENOENT"}, {codec.ErrCorrupt, "corrupt"}, {origin.ErrNotFound, "lost"},
	} {
		if errors.Is(err, k.err) {
			kind += k.name
		}
	}
	return kind + " " + strings.TrimPrefix(err.Error(), symbol+": ")
}

// fresh returns a reader with empty caches.
func fresh(t testing.TB, s origin.Store) *catalog.StoreCatalog {
	t.Helper()
	c, err := catalog.Open(context.Background(), s, origin.Pages(s))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// symbolsOf returns the symbols with spaces between them.
func symbolsOf(t testing.TB, c *catalog.StoreCatalog) string {
	t.Helper()
	var found []string
	for s, err := range c.Symbols(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, s)
	}
	return strings.Join(found, " ")
}

// liveOf returns the numbers of the live versions.
func liveOf(t testing.TB, c *catalog.StoreCatalog, symbol string) []uint64 {
	t.Helper()
	var found []uint64
	for row, err := range c.Live(context.Background(), symbol) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, row.Number)
	}
	return found
}

// keysOf lists the keys of a store that begin with a prefix.
func keysOf(t testing.TB, s origin.Store, prefix string) []names.Key {
	t.Helper()
	var found []names.Key
	for item, err := range s.List(context.Background(), prefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, item.Key)
	}
	return found
}

// copyStore returns a store in memory with the same objects.
func copyStore(t testing.TB, s origin.Store) origin.WriteStore {
	t.Helper()
	c := origintest.Memory()
	for _, k := range keysOf(t, s, "") {
		if _, err := c.PutIfAbsent(context.Background(), k, origintest.Get(t, s, k)); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

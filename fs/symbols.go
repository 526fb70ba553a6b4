package fs

import (
	"cmp"
	"context"
	iofs "io/fs"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// A symbolTree shows each symbol of a catalog as a directory at its path. It has the names
// alone.
type symbolTree struct {
	list    []string            // all symbols of the catalog
	symbols map[string]bool     // visible ones
	dirs    map[string][]string // sorted names in the directories that lead to symbols
}

var _ shownTree = (*symbolTree)(nil)

// newSymbolTree returns the tree of symbols, and the hidden ones: those inside the tree of
// another symbol.
func newSymbolTree(symbols []string) (t *symbolTree, hidden []string) {
	t = &symbolTree{list: symbols, symbols: make(map[string]bool), dirs: map[string][]string{"": nil}}
	for _, s := range symbols {
		t.symbols[s] = true
	}
	for _, s := range symbols {
		if _, ok := t.isInside(s); ok {
			hidden = append(hidden, s)
		}
	}
	for _, s := range hidden {
		delete(t.symbols, s)
	}
	for s := range t.symbols {
		t.add(s)
	}
	for _, names := range t.dirs {
		slices.Sort(names)
	}
	return t, hidden
}

// isInside returns the symbol whose tree contains a path.
func (t *symbolTree) isInside(path string) (symbol string, ok bool) {
	for end := range len(path) {
		if path[end] == '/' && t.symbols[path[:end]] {
			return path[:end], true
		}
	}
	return "", false
}

// add adds a path to its directory, and the directory to its parent.
func (t *symbolTree) add(path string) {
	dir := parent(path)
	_, known := t.dirs[dir]
	name, _ := base(dir, path)
	t.dirs[dir] = append(t.dirs[dir], name)
	if !known {
		t.add(dir)
	}
}

// Version implements shownTree: each symbol has its own.
func (t *symbolTree) Version() names.Row { return names.Row{} }

// Totals implements shownTree: they are unknown.
func (t *symbolTree) Totals() (entries, bytes int64) { return 0, 0 }

// Lookup implements shownTree.
func (t *symbolTree) Lookup(_ context.Context, path string) (page.Entry, error) {
	if _, ok := t.dirs[path]; !ok && !t.symbols[path] {
		return page.Entry{}, &iofs.PathError{Op: "lookup", Path: path, Err: iofs.ErrNotExist}
	}
	return page.Entry{Path: path, Type: page.Dir, Mode: 0o555}, nil
}

// List implements shownTree.
func (t *symbolTree) List(_ context.Context, dir, after string) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		list, ok := t.dirs[dir]
		if !ok {
			yield(page.Entry{}, &iofs.PathError{Op: "list", Path: dir, Err: iofs.ErrNotExist})
			return
		}
		i, _ := slices.BinarySearchFunc(list, after, func(name, after string) int {
			return cmp.Or(cmp.Compare(name, after), -1) // after it
		})
		for _, name := range list[i:] {
			if !yield(page.Entry{Path: join(dir, name), Type: page.Dir, Mode: 0o555}, nil) {
				return
			}
		}
	}
}

// identity returns the identity of a path in the volume v; zero: absent.
func (t *symbolTree) identity(v *volume, path string) identity {
	if t.symbols[path] {
		return rootOf(symbolLabel(path))
	}
	if _, ok := t.dirs[path]; ok {
		return v.dirID(path)
	}
	return identity{}
}

// differences yields the differences to a later tree of the volume v.
func (t *symbolTree) differences(v *volume, later *symbolTree) iter.Seq2[difference, error] {
	return func(yield func(difference, error) bool) {
		for _, some := range []*symbolTree{t, later} {
			for dir, list := range some.dirs {
				for _, name := range list {
					path := join(dir, name)
					d := difference{path, t.identity(v, path), later.identity(v, path)}
					if d.old != d.new && !yield(d, nil) {
						return
					}
				}
			}
		}
	}
}

// symbols opens the volumes of symbols on demand.
type symbols struct {
	*source
	vol *volume // their parent, which shows a symbolTree

	mu   sync.Mutex
	open map[string]*openSymbol // guarded by mu
}

// An openSymbol is the open volume of a symbol.
type openSymbol struct {
	*volume
	used time.Time // last use; guarded by symbols.mu
}

// newSymbols returns a volume with a directory per symbol.
func newSymbols(s *source, list []string) *volume {
	v := &volume{cacheListings: true}
	v.setTTL(s.ttl())
	v.nested = &symbols{source: s, vol: v, open: make(map[string]*openSymbol)}
	v.setTree(s.symbolTree(list, nil))
	return v
}

// symbolTree warns of hidden symbols, except those of the tree before.
func (s *source) symbolTree(list []string, before *symbolTree) *symbolTree {
	t, hidden := newSymbolTree(list)
	for _, symbol := range hidden {
		if before == nil || before.symbols[symbol] || !slices.Contains(before.list, symbol) {
			by, _ := t.isInside(symbol)
			s.log.Warn("a symbol is hidden by the tree of another symbol", "event", "symbol_hidden", "symbol", symbol, "by", by)
		}
	}
	return t
}

func (s *symbols) tree() *symbolTree { return s.vol.current.Load().tree.(*symbolTree) }

// labelAt implements volumeOpener.
func (s *symbols) labelAt(path string) (string, bool) {
	return symbolLabel(path), s.tree().symbols[path]
}

// volumeAt implements volumeOpener. Two concurrent callers may both open a symbol; one result is
// used.
func (s *symbols) volumeAt(ctx context.Context, path string) (*volume, error) {
	if v := s.cached(path, nil); v != nil {
		return v, nil
	}
	v, err := s.openSymbol(ctx, path)
	if c, ok := s.catalog.(catalog.Checker); ok && isGone(err) {
		err = cmp.Or(c.Check(ctx, path), err) // the symbol is listed
	}
	if err != nil {
		return nil, err
	}
	v.parent, v.at = s.vol, path
	return s.cached(path, v), nil
}

// cached returns the open volume of a symbol. If there is no open volume, v becomes the open
// one.
func (s *symbols) cached(symbol string, v *volume) *volume {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.open[symbol]
	switch {
	case known == nil && v == nil:
		return nil
	case known == nil:
		known = &openSymbol{volume: v}
		s.open[symbol] = known
	}
	known.used = time.Now()
	return known.volume
}

// all returns the volumes that are open.
func (s *symbols) all() []*openSymbol {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.open))
}

// forget closes a volume without nodes, except a recently used one. The next lookup opens the
// newest version.
func (s *symbols) forget(v *openSymbol) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(v.used) > minute {
		delete(s.open, v.at)
	}
}

package serve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/upload"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// Bounds of a sumIndex.
const (
	maxSums        = 500_000 // files of all trees, of about 150 bytes
	maxSumSymbols  = 64      // symbols that are searched for one file
	minSumTreeCost = 16      // of a tree in files
	maxListed      = 10_000  // symbols that a client may read or not
	searchAge      = 5 * time.Second
)

// A sumIndex finds files by their SHA-256 in the trees that were read last. It is safe for
// concurrent use.
type sumIndex struct {
	reading chan struct{} // slots

	listed atomic.Pointer[symbolList]

	mu    sync.Mutex
	trees *lru.Cache[page.Hash, map[[32]byte]upload.Content] // by root; guarded by mu
}

// A symbolList has the first symbols of a store at a time.
type symbolList struct {
	symbols []string
	at      time.Time
}

func newSumIndex() *sumIndex {
	return &sumIndex{reading: make(chan struct{}, maxSearches), trees: lru.New[page.Hash, map[[32]byte]upload.Content](maxSums, nil)}
}

func (si *sumIndex) get(root page.Hash) (map[[32]byte]upload.Content, bool) {
	si.mu.Lock()
	defer si.mu.Unlock()
	return si.trees.Get(root)
}

// read reads a tree.
func (si *sumIndex) read(ctx context.Context, t catalog.Tree, root page.Hash) (map[[32]byte]upload.Content, error) {
	select {
	case si.reading <- struct{}{}:
		defer func() { <-si.reading }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if files, ok := si.get(root); ok { // another reader was faster
		return files, nil
	}
	if entries, _ := t.Totals(); entries > maxSums {
		return nil, nil
	}
	files := map[[32]byte]upload.Content{}
	for e, err := range t.All(ctx, "") {
		switch {
		case err != nil:
			return nil, err
		case e.Type != page.File || e.SHA256 == nil || e.Inline != nil || e.ID.File.IsPlain():
			continue
		case len(files) == maxSums:
			return files, nil
		}
		files[*e.SHA256] = upload.Content{ID: e.ID, SHA256: *e.SHA256, Size: e.Size}
	}
	si.mu.Lock()
	defer si.mu.Unlock()
	si.trees.Add(root, files, max(minSumTreeCost, int64(len(files))))
	return files, nil
}

// readable returns a file with a SHA-256 in the newest tree of the symbol, or of another one that
// the client may read. It returns origin.ErrNotFound if none of them has the file. The other trees may
// be searchAge old, because a client requests hundreds of files at once.
func (w *Writer) readable(ctx context.Context, symbol string, sum [32]byte) (upload.Content, error) {
	c, ok, err := w.inSymbol(ctx, symbol, sum, w.o.Repos.lineages.age)
	if ok || err != nil {
		return c, err
	}
	symbols, err := w.symbols(ctx)
	if err != nil {
		return c, err
	}
	searched := 0
	for _, s := range symbols {
		if s == symbol || !clientMayRead(ctx, s) {
			continue
		}
		if searched++; searched > maxSumSymbols {
			break
		}
		c, ok, err := w.inSymbol(ctx, s, sum, searchAge)
		isDamaged := errors.Is(err, codec.ErrCorrupt) || errors.Is(err, origin.ErrNotFound)
		if ok || err != nil && !isDamaged { // damage of s does not block uploads to symbol
			return c, err
		}
	}
	return c, fmt.Errorf("file with this SHA-256: %w", origin.ErrNotFound)
}

// symbols returns the first symbols of the store, as they were up to searchAge ago.
func (w *Writer) symbols(ctx context.Context) ([]string, error) {
	if known := w.sums.listed.Load(); known != nil && time.Since(known.at) < searchAge {
		return known.symbols, nil
	}
	now := &symbolList{at: time.Now()}
	for s, err := range w.o.Repos.catalog.Symbols(ctx) {
		if err != nil {
			return nil, err
		}
		if now.symbols = append(now.symbols, s); len(now.symbols) == maxListed {
			break
		}
	}
	w.sums.listed.Store(now)
	return now.symbols, nil
}

// inSymbol finds a file in the newest tree of a symbol, which may have some age. It does not find a file of
// a tree with more files than the index can have.
func (w *Writer) inSymbol(ctx context.Context, symbol string, sum [32]byte, age time.Duration) (c upload.Content, ok bool, err error) {
	l, err := w.o.Repos.lineages.recent(ctx, symbol, age)
	if isAbsent(err) {
		return c, false, nil
	} else if err != nil {
		return c, false, err
	}
	files, ok := w.sums.get(l.latest.Root)
	if !ok {
		t, err := w.o.Repos.catalog.OpenRow(ctx, symbol, l.latest)
		if err != nil {
			return c, false, err
		}
		if files, err = w.sums.read(ctx, t, l.latest.Root); err != nil {
			return c, false, err
		}
	}
	c, ok = files[sum]
	return c, ok, nil
}

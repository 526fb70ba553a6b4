package hubimport

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/tree"
)

// Bounds of what a pending tree has in memory.
const (
	pendingEntries = 100_000 // of the folders that were read last together, and of one folder
	pendingPlain   = 50_000  // locations of files outside Xet
)

// A pendingTree is the tree of a commit whose import is not complete. It lists each folder at the
// Hub, with one request for 1,000 entries. A folder of more than pendingEntries waits for the import.
// After the import, it is the imported tree.
type pendingTree struct {
	im       *Importer
	state    hub.State
	hasKnown bool // an older version can be shown
	reads    flight.Group[string, listedFolder]
	complete chan struct{} // closed by finish
	listed   chan struct{} // closed once a folder was listed at the Hub

	mu       sync.Mutex
	imported catalog.Tree                          // nil: not yet; guarded by mu
	folders  *lru.Cache[string, listedFolder]      // guarded by mu
	plain    *lru.Cache[codec.Hash, hub.PlainFile] // guarded by mu
}

// A listedFolder has the entries directly in a folder.
type listedFolder struct {
	entries  []page.Entry // sorted by path
	tooLarge bool         // more than pendingEntries; there are no entries
}

var _ catalog.Tree = (*pendingTree)(nil)

func newPendingTree(im *Importer, st hub.State, hasKnown bool) *pendingTree {
	return &pendingTree{
		im: im, state: st, hasKnown: hasKnown, complete: make(chan struct{}), listed: make(chan struct{}),
		folders: lru.New[string, listedFolder](pendingEntries, nil),
		plain:   lru.New[codec.Hash, hub.PlainFile](pendingPlain, nil),
	}
}

// mayFallBack reports whether the tree may become that of an older version: no reader got a folder yet.
func (p *pendingTree) mayFallBack() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hasKnown && !p.isListed() && p.imported == nil
}

func (p *pendingTree) isListed() bool {
	select {
	case <-p.listed:
		return true
	default:
		return false
	}
}

// fallBack is finish with the tree of an older version. It returns false if mayFallBack changed meanwhile.
func (p *pendingTree) fallBack(t catalog.Tree) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isListed() || p.imported != nil {
		return false
	}
	p.finishLocked(t)
	return true
}

// finish replaces the folders by the imported tree, unless the tree is complete.
func (p *pendingTree) finish(t catalog.Tree) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finishLocked(t)
}

func (p *pendingTree) finishLocked(t catalog.Tree) {
	if p.imported != nil {
		return
	}
	p.imported = t
	close(p.complete)
	p.folders, p.plain = lru.New[string, listedFolder](0, nil), lru.New[codec.Hash, hub.PlainFile](0, nil)
}

// done returns the imported tree; nil: not yet.
func (p *pendingTree) done() catalog.Tree {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.imported
}

// locate returns a file outside Xet that was listed.
func (p *pendingTree) locate(file codec.Hash) (hub.PlainFile, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.plain.Get(file)
}

// Version implements catalog.Tree. The row is empty before the import.
func (p *pendingTree) Version() names.Row { return names.Row{} }

// Totals implements catalog.Tree.
func (p *pendingTree) Totals() (entries, bytes int64) {
	if t := p.done(); t != nil {
		return t.Totals()
	}
	return 0, 0
}

// OneInode implements catalog.Tree, as the imported tree does.
func (p *pendingTree) OneInode() bool { return false }

// Lookup implements catalog.Tree.
func (p *pendingTree) Lookup(ctx context.Context, path string) (page.Entry, error) {
	if path == "" && p.done() == nil {
		return treeEntry(&hub.Entry{Dir: true}, p.state.Time), nil
	}
	entries, imported, err := p.folder(ctx, tree.Parent(path))
	if err != nil {
		return page.Entry{}, err
	}
	if imported != nil {
		return imported.Lookup(ctx, path)
	}
	if i, ok := slices.BinarySearchFunc(entries, path, comparePath); ok {
		return entries[i], nil
	}
	return page.Entry{}, &iofs.PathError{Op: "lookup", Path: path, Err: iofs.ErrNotExist}
}

func comparePath(e page.Entry, path string) int { return strings.Compare(e.Path, path) }

// List implements catalog.Tree.
func (p *pendingTree) List(ctx context.Context, dir, after string) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		entries, imported, err := p.folder(ctx, dir)
		if err != nil {
			yield(page.Entry{}, err)
			return
		}
		if imported != nil {
			imported.List(ctx, dir, after)(yield)
			return
		}
		for _, e := range entries {
			if name := e.Path[strings.LastIndexByte(e.Path, '/')+1:]; name > after && !yield(e, nil) {
				return
			}
		}
	}
}

// errPending reports that a tree is needed before its import is complete.
var errPending = fmt.Errorf("%w: the listing of the repository is not complete yet", origin.ErrUnavailable)

// All implements catalog.Tree.
func (p *pendingTree) All(ctx context.Context, dir string) iter.Seq2[page.Entry, error] {
	if t := p.done(); t != nil {
		return t.All(ctx, dir)
	}
	return func(yield func(page.Entry, error) bool) { yield(page.Entry{}, errPending) }
}

// folder returns the entries directly in a folder, sorted by path, or the imported tree. It waits for the
// import of a folder that is too large. While an older version can be shown, it also waits for the import after
// a failure.
func (p *pendingTree) folder(ctx context.Context, dir string) (entries []page.Entry, imported catalog.Tree, err error) {
	if t := p.done(); t != nil {
		return nil, t, nil
	}
	f, err := p.list(ctx, dir)
	var waitErr error
	switch {
	case err == nil && !f.tooLarge:
		return f.entries, nil, nil
	case err == nil:
		waitErr = p.wait(ctx, nil)
	case isFault(err) && p.mayFallBack(): // the import fails, too
		waitErr = p.wait(ctx, p.listed)
	}
	if waitErr != nil {
		return nil, nil, waitErr
	}
	if t := p.done(); t != nil {
		return nil, t, nil
	}
	return nil, nil, err // no older version can be shown, or not any more
}

// wait returns nil once the import is complete, or once end is closed.
func (p *pendingTree) wait(ctx context.Context, end <-chan struct{}) error {
	select {
	case <-p.complete:
		return nil
	case <-end:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-p.im.ctx.Done():
		return errPending
	}
}

// list is folder without waiting for the import.
func (p *pendingTree) list(ctx context.Context, dir string) (listedFolder, error) {
	if f, ok := p.known(dir); ok {
		return f, nil
	}
	return p.reads.Do(ctx, dir, func(ctx context.Context) (listedFolder, error) {
		if f, ok := p.known(dir); ok {
			return f, nil // a call that has ended since has read it
		}
		return p.read(ctx, dir)
	})
}

// known returns a folder that was read before.
func (p *pendingTree) known(dir string) (listedFolder, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.folders.Get(dir)
}

// read lists a folder at the Hub.
func (p *pendingTree) read(ctx context.Context, dir string) (listedFolder, error) {
	top := p.im.repo.Address().Path
	at := strings.Trim(top+"/"+dir, "/")
	found := map[string]page.Entry{}
	plain := map[codec.Hash]hub.PlainFile{}
	for e, err := range p.im.repo.List(ctx, p.state.ID, at, false) {
		if err != nil {
			return listedFolder{}, folderError(dir, err)
		}
		path, ok := below(e.Path, top)
		if !ok || checkEntry(path, &e) != nil || tree.Parent(path) != dir {
			continue // the import reports it
		}
		if max(len(found), len(plain)) == pendingEntries {
			return p.store(dir, listedFolder{tooLarge: true}, nil), nil
		}
		if f, ok := e.Plain(); ok {
			f.Commit = p.state.ID
			plain[f.Hash()] = f
		}
		e.Path = path
		if was, twice := found[path]; !twice || was.Type != page.Dir && e.Dir {
			found[path] = treeEntry(&e, p.state.Time)
		}
	}
	entries := make([]page.Entry, 0, len(found))
	for _, e := range found {
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b page.Entry) int { return strings.Compare(a.Path, b.Path) })
	return p.store(dir, listedFolder{entries: entries}, plain), nil
}

// folderError returns the error of a listing of a folder. Only an absent folder is io/fs.ErrNotExist: folders of
// a repository or commit that the Hub no longer has, or no longer shows, do exist.
func folderError(dir string, err error) error {
	switch {
	case errors.Is(err, hub.ErrRepoNotFound), errors.Is(err, hub.ErrRevisionNotFound):
		return fmt.Errorf("%w: %v", origin.ErrNotFound, err) //nolint:errorlint // see above
	case errors.Is(err, iofs.ErrNotExist):
		return &iofs.PathError{Op: "list", Path: dir, Err: iofs.ErrNotExist}
	}
	return err
}

// store stores a folder and the files outside Xet in it, unless the import is complete. It returns the
// folder.
func (p *pendingTree) store(dir string, f listedFolder, plain map[codec.Hash]hub.PlainFile) listedFolder {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.imported != nil {
		return f
	}
	if !p.isListed() {
		close(p.listed) // mu is held, so only once
	}
	for h, f := range plain {
		p.plain.Add(h, f, 1)
	}
	return p.folders.Add(dir, f, int64(len(f.entries)+1))
}

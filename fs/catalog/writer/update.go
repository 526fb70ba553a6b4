package writer

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/tree"
)

// Update publishes the newest tree with changes, sorted by key. A removed directory takes
// the entries below it along, and missing parents are created. The removal of an absent
// path is no error. If another publish was faster, Update applies the changes to its tree.
func (s *Session) Update(ctx context.Context, changes []page.Change) (names.Row, error) {
	if err := s.checkChanges(ctx, changes); err != nil {
		return names.Row{}, fmt.Errorf("%s: %w", s.st.symbol, err)
	}
	return s.commit(ctx, func(ctx context.Context, st *state) (page.Link, error) {
		return s.update(ctx, st, changes)
	})
}

// A Base is the state of a symbol that an update begins with.
type Base struct {
	Latest *names.Row // newest live version; nil: none
	Head   names.Key  // newest element of the version list; "": none
}

// base returns the state as a plan sees it.
func (s *state) base() Base {
	b := Base{Latest: s.latest()}
	if s.ref != nil {
		b.Head = s.ref.Head
	}
	return b
}

// Base returns the state of the symbol at the start of the publish.
func (s *Session) Base() Base { return s.st.base() }

// UpdateWith is Update with changes and labels that depend on the newest version. It calls plan
// again if another publish was faster. An error of plan ends the publish, and ErrSame if the tree
// is that of the newest version.
func (s *Session) UpdateWith(ctx context.Context, plan func(context.Context, Base) ([]page.Change, map[string]string, error)) (names.Row, error) {
	return s.commit(ctx, func(ctx context.Context, st *state) (page.Link, error) {
		b := st.base()
		changes, labels, err := plan(ctx, b)
		if err == nil {
			err = s.checkChanges(ctx, changes)
		}
		if err != nil {
			return page.Link{}, err
		}
		s.o.Labels = labels
		root, err := s.update(ctx, st, changes)
		if err == nil && b.Latest != nil && b.Latest.Identity == root.Identity {
			err = ErrSame
		}
		return root, err
	})
}

// checkChanges checks each change and their order.
func (s *Session) checkChanges(ctx context.Context, changes []page.Change) error {
	for i, c := range changes {
		if err := s.checkChange(ctx, c); err != nil {
			return err
		}
		if i > 0 && page.ComparePaths(pathOf(changes[i-1]), pathOf(c)) >= 0 {
			return fmt.Errorf("change of %.80q is not behind that of %.80q", pathOf(c), pathOf(changes[i-1]))
		}
	}
	return nil
}

// pathOf returns the path of a change of something.
func pathOf(c page.Change) string {
	if c.New != nil {
		return c.New.Path
	}
	return c.Old.Path
}

func (s *Session) checkChange(ctx context.Context, c page.Change) error {
	switch {
	case c.New == nil && c.Old == nil:
		return errors.New("a change of nothing")
	case c.New == nil && c.Old.Path == "":
		return errors.New("the root cannot be removed")
	case c.New == nil:
		return page.CheckPath(c.Old.Path)
	case c.Old != nil && c.Old.Path != c.New.Path:
		return fmt.Errorf("a change from %.80q to %.80q", c.Old.Path, c.New.Path)
	}
	if err := checkEntry(c.New); err != nil {
		return err
	}
	if h := c.New.ID.Shard; !h.IsZero() {
		return s.reuse.checkShard(ctx, h)
	}
	return nil
}

// update stores the pages of the newest tree with changes.
func (s *Session) update(ctx context.Context, st *state, changes []page.Change) (page.Link, error) {
	x := expansion{ctx: ctx, given: map[string]*page.Entry{}, made: map[string]*page.Entry{}, dirs: map[string]bool{}}
	pages := catalog.RecentPages(s.w.catalog.Pages())
	latest := st.latest()
	if latest != nil {
		var err error
		if x.old, err = tree.Open(ctx, pages, latest.Tree()); err != nil {
			return page.Link{}, err
		}
	}
	if err := x.expand(changes); err != nil {
		return page.Link{}, err
	}
	var root page.Link
	var err error
	putter := s.newPagePutter(ctx)
	sizes := s.w.catalog.Settings().Page
	if latest == nil {
		root, err = tree.Build(ctx, sizes, added(x.changes()), putter.put)
	} else {
		root, err = tree.Update(ctx, pages, sizes, latest.Root, x.changes(), putter.put)
	}
	return root, putter.finish(err)
}

// added yields the new entries of changes without old ones.
func added(changes iter.Seq2[page.Change, error]) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		for c, err := range changes {
			var e page.Entry
			if c.New != nil {
				e = *c.New
			}
			if (c.New != nil || err != nil) && !yield(e, err) {
				return
			}
		}
	}
}

// An expansion adds the implied changes: entries below a removed directory, and
// directories above new entries.
type expansion struct {
	ctx     context.Context        // of the update
	old     *tree.Tree             // nil: no version is live
	given   map[string]*page.Entry // changes by path; nil: removed
	made    map[string]*page.Entry // directories that are created
	cleared []string               // directories that lose all entries below them, in the order of those entries
	dirs    map[string]bool        // directories that certainly exist
}

func (x *expansion) expand(changes []page.Change) error {
	for _, c := range changes {
		x.given[pathOf(c)] = c.New
	}
	for _, c := range changes {
		if c.New != nil && c.New.Type == page.Dir {
			continue
		}
		e, err := x.lookup(pathOf(c))
		if err != nil {
			return err
		}
		if e != nil && e.Type == page.Dir {
			x.cleared = append(x.cleared, e.Path)
		}
	}
	x.sortCleared()
	for _, c := range changes {
		if c.New == nil || c.New.Path == "" {
			continue
		}
		if err := x.makeParents(c.New); err != nil {
			return err
		}
	}
	if x.old == nil && x.given[""] == nil && x.made[""] == nil {
		return tree.ErrNoRoot // without a new entry
	}
	return nil
}

// lookup returns the entry at a path of the old tree; nil if absent.
func (x *expansion) lookup(path string) (*page.Entry, error) {
	if x.old == nil {
		return nil, nil //nolint:nilnil // absent
	}
	e, err := x.old.Lookup(x.ctx, path)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, nil //nolint:nilnil // absent
	}
	return &e, err
}

// sortCleared sorts the directories by the keys of the entries below them. It removes
// those below another one.
func (x *expansion) sortCleared() {
	slices.SortFunc(x.cleared, func(a, b string) int { return strings.Compare(page.DirKey(a), page.DirKey(b)) })
	kept := x.cleared[:0]
	for _, dir := range x.cleared {
		if n := len(kept); n == 0 || !strings.HasPrefix(page.DirKey(dir), page.DirKey(kept[n-1])) {
			kept = append(kept, dir)
		}
	}
	x.cleared = kept
}

// isCleared reports whether a path is below a directory that loses all entries.
func (x *expansion) isCleared(path string) bool {
	below := page.DirKey(path)
	i, found := slices.BinarySearchFunc(x.cleared, below, func(dir, below string) int {
		return strings.Compare(page.DirKey(dir), below)
	})
	return !found && i > 0 && strings.HasPrefix(below, page.DirKey(x.cleared[i-1]))
}

// makeParents creates the missing directories above an entry.
func (x *expansion) makeParents(e *page.Entry) error {
	for dir := tree.Parent(e.Path); !x.dirs[dir]; dir = tree.Parent(dir) {
		there, err := x.isDir(dir)
		if err != nil {
			return fmt.Errorf("entry %.80q: %w", e.Path, err)
		}
		if !there {
			x.made[dir] = &page.Entry{Path: dir, Type: page.Dir, Mode: 0o755, ModTime: e.ModTime}
		}
		x.dirs[dir] = true
		if dir == "" {
			return nil
		}
	}
	return nil
}

// isDir reports whether a directory exists in the new tree without being created.
func (x *expansion) isDir(path string) (bool, error) {
	e, given := x.given[path]
	if !given && !x.isCleared(path) {
		var err error
		if e, err = x.lookup(path); err != nil {
			return false, err
		}
	}
	if e != nil && e.Type != page.Dir {
		return false, fmt.Errorf("%.80q is a %v", path, e.Type)
	}
	return e != nil, nil
}

// changes yields all changes in the order of their keys: the given and created entries,
// and the removals below directories.
func (x *expansion) changes() iter.Seq2[page.Change, error] {
	all := maps.Clone(x.given)
	maps.Copy(all, x.made)
	paths := slices.SortedFunc(maps.Keys(all), page.ComparePaths)
	return func(yield func(page.Change, error) bool) {
		emit := func(path string) bool {
			if e := all[path]; e != nil {
				return yield(page.Change{New: e}, nil)
			}
			return yield(page.Change{Old: &page.Entry{Path: path}}, nil)
		}
		for removed, err := range x.below() {
			if err != nil {
				yield(page.Change{}, err)
				return
			}
			for len(paths) > 0 && page.ComparePaths(paths[0], removed.Path) < 0 {
				if !emit(paths[0]) {
					return
				}
				paths = paths[1:]
			}
			if len(paths) > 0 && paths[0] == removed.Path {
				continue // its own change follows
			}
			if !yield(page.Change{Old: &removed}, nil) {
				return
			}
		}
		for _, path := range paths {
			if !emit(path) {
				return
			}
		}
	}
}

// below yields the old entries below the cleared directories, in the order of keys.
func (x *expansion) below() iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		for _, dir := range x.cleared {
			for e, err := range x.old.All(x.ctx, dir) {
				if err == nil && e.Path == dir {
					continue
				}
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
	}
}

package commits

import (
	"cmp"
	"context"
	"errors"
	iofs "io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
	"github.com/xetfs/xetfs/cache/origin/hub/hubwrite"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// A plan is the changes of a commit to one tree. All operations refer to that tree.
type plan struct {
	m    *Maker
	st   *stage
	tree catalog.Tree
	now  time.Time

	added   map[string]*page.Entry // by path
	parents map[string]bool        // folders above added
	removed map[string]bool        // files and folders; true: a folder with all below it
	changes []page.Change
}

func newPlan(m *Maker, st *stage, tree catalog.Tree) *plan {
	return &plan{m: m, st: st, tree: tree, now: m.now(), added: map[string]*page.Entry{}, parents: map[string]bool{}, removed: map[string]bool{}}
}

// run plans all operations.
func (p *plan) run(ctx context.Context) error {
	for i := range p.st.ops {
		if err := p.collect(ctx, &p.st.ops[i]); err != nil {
			return err
		}
	}
	for name := range p.added {
		for dir := parentOf(name); dir != "" && !p.parents[dir]; dir = parentOf(dir) {
			p.parents[dir] = true
		}
	}
	if err := p.removeEmptied(ctx); err != nil {
		return err
	}
	for name, e := range p.added {
		if err := p.add(ctx, name, e); err != nil {
			return err
		}
	}
	for dir := range p.parents {
		if err := p.checkFolder(ctx, dir); err != nil {
			return err
		}
	}
	p.remove()
	return nil
}

// parentOf returns the folder of a path; "" is the root.
func parentOf(name string) string {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i]
	}
	return ""
}

// lookup returns the entry at a path of the tree, or nil.
func (p *plan) lookup(ctx context.Context, name string) (*page.Entry, error) {
	e, err := p.tree.Lookup(ctx, name)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, nil //nolint:nilnil // absent
	}
	return &e, err
}

// missing returns the error for a path that the tree does not have.
func missing(name string) error {
	return &hubserve.Refusal{Status: http.StatusNotFound, Code: "EntryNotFound", Text: "the repository has no " + hubwrite.Quote(name)}
}

// collect records what an operation adds or removes.
func (p *plan) collect(ctx context.Context, s *staged) error {
	switch s.kind {
	case hubwrite.DeleteFile, hubwrite.DeleteFolder:
		e, err := p.lookup(ctx, s.path)
		switch {
		case err != nil:
			return err
		case e == nil:
			return missing(s.path)
		case (e.Type == page.Dir) != (s.kind == hubwrite.DeleteFolder):
			return refusal(http.StatusBadRequest, "%s is a %v, so %s cannot remove it", hubwrite.Quote(s.path), e.Type, s.kind)
		}
		p.removed[s.path] = e.Type == page.Dir
	case hubwrite.CopyFile:
		e, err := p.source(ctx, s)
		if err != nil {
			return err
		}
		p.added[s.path] = e
	case hubwrite.AddFile, hubwrite.AddLFS:
		p.added[s.path] = &s.entry
	}
	return nil
}

// source returns the entry that a copy has.
func (p *plan) source(ctx context.Context, s *staged) (*page.Entry, error) {
	tree := p.tree
	if s.revision != "" {
		var err error
		if tree, err = p.st.r.OpenRevision(ctx, s.revision); err != nil {
			return nil, err
		}
	}
	e, err := tree.Lookup(ctx, s.source)
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		return nil, missing(s.source)
	case err != nil:
		return nil, err
	case e.Type != page.File:
		return nil, refusal(http.StatusBadRequest, "%s is a %v; only files can be copied", hubwrite.Quote(s.source), e.Type)
	}
	return &page.Entry{Path: s.path, Mode: e.Mode, Size: e.Size, ID: e.ID, Inline: e.Inline, SHA256: e.SHA256, Xattrs: e.Xattrs}, nil
}

// isRemoved reports whether the commit removes a path of the tree, alone or with a folder above it.
func (p *plan) isRemoved(name string) bool {
	if _, ok := p.removed[name]; ok {
		return true
	}
	return p.isBelowRemoved(name)
}

// isBelowRemoved reports whether the commit removes a folder above a path.
func (p *plan) isBelowRemoved(name string) bool {
	for dir := parentOf(name); dir != ""; dir = parentOf(dir) {
		if p.removed[dir] {
			return true
		}
	}
	return false
}

// add plans one new file. It keeps the permissions and owner of the file that it replaces, and
// the time if the content is the same. Other content has a later time.
func (p *plan) add(ctx context.Context, name string, content *page.Entry) error {
	if p.parents[name] {
		return collision(name)
	}
	old, err := p.lookup(ctx, name)
	if err != nil {
		return err
	}
	e := *content
	e.Type, e.ModTime, e.Mode = page.File, p.now, cmp.Or(e.Mode, 0o644)
	switch {
	case old == nil:
	case old.Type == page.Dir && !p.isRemoved(name):
		return collision(name)
	case old.Type == page.File && sameContent(old, &e):
		if !p.isBelowRemoved(name) {
			delete(p.removed, name) // the addition wins
			return nil
		}
		e = *old
	case old.Type == page.File:
		e.Mode, e.Owner, e.ModTime = old.Mode, old.Owner, laterTime(p.now, old.ModTime)
	}
	if !p.removed[name] {
		delete(p.removed, name)
	}
	p.changes = append(p.changes, page.Change{Old: old, New: &e})
	return nil
}

// laterTime returns now, or the next second after old, the time of the replaced file, if that is later.
// A local copy of the old file then never has the size and time of the new one.
func laterTime(now, old time.Time) time.Time {
	if next := old.Truncate(time.Second).Add(time.Second); next.After(now) {
		return next
	}
	return now
}

// collision returns the error for a path that is a file and a folder.
func collision(name string) error {
	return refusal(http.StatusBadRequest, "%s would be both a file and a folder", hubwrite.Quote(name))
}

// sameContent reports whether two files have the same bytes.
func sameContent(a, b *page.Entry) bool {
	switch {
	case a.Size != b.Size:
		return false
	case a.Inline != nil || b.Inline != nil || a.Size == 0:
		return string(a.Inline) == string(b.Inline)
	}
	return a.ID.File == b.ID.File
}

// checkFolder refuses a new file below a file that stays.
func (p *plan) checkFolder(ctx context.Context, dir string) error {
	old, err := p.lookup(ctx, dir)
	if err != nil {
		return err
	}
	if old != nil && old.Type != page.Dir && !p.isRemoved(dir) {
		return collision(dir)
	}
	return nil
}

// removeEmptied also removes the folders that become empty: clients know files only. A new file can
// have the name of such a folder.
func (p *plan) removeEmptied(ctx context.Context) error {
	var byDepth []map[string]bool // folders that lose an entry; the first one is for the root
	lose := func(name string) {
		dir := parentOf(name)
		depth := 0
		if dir != "" {
			depth = 1 + strings.Count(dir, "/")
		}
		for len(byDepth) <= depth {
			byDepth = append(byDepth, map[string]bool{})
		}
		byDepth[depth][dir] = true
	}
	for name := range p.removed {
		if !p.isBelowRemoved(name) {
			lose(name)
		}
	}
	for depth := len(byDepth) - 1; depth > 0; depth-- {
		for dir := range byDepth[depth] {
			isEmpty, err := p.becomesEmpty(ctx, dir)
			if err != nil {
				return err
			}
			if isEmpty {
				p.removed[dir] = true
				lose(dir)
			}
		}
	}
	return nil
}

// remove plans the removals.
func (p *plan) remove() {
	for name := range p.removed {
		if !p.isBelowRemoved(name) && p.added[name] == nil {
			p.changes = append(p.changes, page.Change{Old: &page.Entry{Path: name}})
		}
	}
}

// becomesEmpty reports whether a folder has no entries after the commit.
func (p *plan) becomesEmpty(ctx context.Context, dir string) (bool, error) {
	if p.parents[dir] {
		return false, nil
	}
	for e, err := range p.tree.List(ctx, dir, "") {
		if err != nil {
			return false, err
		}
		if _, gone := p.removed[path.Join(dir, path.Base(e.Path))]; !gone {
			return false, nil
		}
	}
	return true, nil
}

// sorted returns the changes in the order of keys.
func (p *plan) sorted() []page.Change {
	slices.SortFunc(p.changes, func(a, b page.Change) int {
		return page.ComparePaths(cmp.Or(a.New, a.Old).Path, cmp.Or(b.New, b.Old).Path)
	})
	return p.changes
}

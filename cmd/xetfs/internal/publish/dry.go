package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"
	"path"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// dry determines what a publish would do. It writes nothing.
func (p *publishRun) dry(ctx context.Context, res *Result) error {
	tree, err := p.openDry(ctx, res)
	if err != nil {
		return err
	}
	hide := p.show(ctx, res.Before)
	defer hide()
	return p.differ(ctx, tree, res)
}

// openDry prepares to read the folder. It returns the newest tree, or nil.
func (p *publishRun) openDry(ctx context.Context, res *Result) (tree catalog.Tree, err error) {
	var known pack.ChunkIndex // an interface: a nil *dedup.Index would not be nil in it
	if p.o.Store == nil {
		err = p.checkIfVersion(nil)
	} else if err = p.openKnown(ctx); err == nil {
		known = p.known
		if tree, err = p.newest(ctx, res); err != nil {
			err = fmt.Errorf("%s: %w", p.o.StorePath, err)
		}
	}
	if err != nil || !p.hasFolder() {
		return tree, err
	}
	return tree, p.openIngest(known, nowhere{}, p.hasShard)
}

// newest opens the newest tree of the symbol, if there is one.
func (p *publishRun) newest(ctx context.Context, res *Result) (catalog.Tree, error) {
	c := p.o.Catalog
	if c == nil {
		return nil, nil //nolint:nilnil // no catalog, no tree
	}
	p.openStatCache(c.Settings().ID, false)
	if err := c.CheckNested(ctx, p.o.Symbol); err != nil {
		return nil, err
	}
	head, err := c.Latest(ctx, p.o.Symbol)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, p.checkIfVersion(nil)
	}
	if err != nil {
		return nil, err
	}
	res.Before = &head
	if err := p.checkIfVersion(&head); err != nil {
		return nil, err
	}
	return c.OpenRow(ctx, p.o.Symbol, head)
}

// checkIfVersion returns writer.ErrVersion where Begin would.
func (p *publishRun) checkIfVersion(head *names.Row) error {
	if want := p.o.Version.IfVersion; want != nil && (head == nil || head.Number != *want) {
		return fmt.Errorf("%s: %w", p.o.Symbol, writer.ErrVersion)
	}
	return nil
}

func (p *publishRun) hasShard(ctx context.Context, h codec.Hash) (bool, error) {
	if p.o.Store == nil {
		return false, nil
	}
	if p.known.Has(names.ShardKey(h)) {
		return true, nil
	}
	_, err := p.o.Store.Size(ctx, names.ShardKey(h))
	if errors.Is(err, origin.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// differ counts the differences to the newest tree.
func (p *publishRun) differ(ctx context.Context, tree catalog.Tree, res *Result) error {
	if tree == nil && len(p.o.Remove) > 0 {
		return p.nothingToRemove()
	}
	var entries iter.Seq2[page.Entry, error]
	if p.in != nil {
		entries = p.in.Entries(ctx)
	}
	if tree == nil {
		return compareTrees(func(func(page.Entry, error) bool) {}, entries, &res.Diff)
	}
	if !p.o.Update {
		return compareTrees(tree.All(ctx, ""), entries, &res.Diff)
	}
	changes, err := p.changes(ctx, tree, entries)
	if err != nil {
		return err
	}
	cleared := map[string]bool{} // folders that lose all entries; they precede their entries
	for _, c := range changes {
		if c.New == nil && isBelow(cleared, c.Old.Path) {
			continue // counted
		}
		res.Diff.count(c)
		if c.Old == nil || c.Old.Type != page.Dir || c.New != nil && c.New.Type == page.Dir {
			continue
		}
		cleared[c.Old.Path] = true
		for _, err := range catalog.Walk(ctx, tree, c.Old.Path) {
			if err != nil {
				return err
			}
			res.Diff.Removed++
		}
	}
	return nil
}

// isBelow reports whether one of the folders is above a path.
func isBelow(folders map[string]bool, name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if folders[dir] {
			return true
		}
	}
	return false
}

// compareTrees counts the differences between two trees.
func compareTrees(old, entries iter.Seq2[page.Entry, error], d *Diff) error {
	next, stop := iter.Pull2(old)
	defer stop()
	was, err, there := next()
	for e, newErr := range entries {
		if err = cmp.Or(err, newErr); err != nil {
			return err
		}
		for there && page.ComparePaths(was.Path, e.Path) < 0 {
			d.Removed++
			if was, err, there = next(); err != nil {
				return err
			}
		}
		if !there || was.Path != e.Path {
			d.Added++
			continue
		}
		if !was.EqualContent(&e) {
			d.Changed++
		}
		was, err, there = next()
	}
	for ; there && err == nil; was, err, there = next() {
		d.Removed++
	}
	return err
}

// nowhere is a pack.Sink that stores nothing.
type nowhere struct{}

// PutXorb implements pack.Sink.
func (nowhere) PutXorb(context.Context, *xorb.Info, []byte) error { return nil }

// PutShard implements pack.Sink.
func (nowhere) PutShard(context.Context, *shard.Writer) (codec.Hash, error) {
	return codec.Hash{1}, nil // no such shard exists
}

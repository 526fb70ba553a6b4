package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"
	"os"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// runDry does what run does but for writing.
func (p *publishing) runDry(ctx context.Context) error {
	r := publishResult{symbol: p.symbol, dry: true, listed: p.folder != ""}
	tree, closeStore, err := p.openDry(ctx, &r)
	if err != nil {
		return err
	}
	defer closeStore()
	hide := p.show(ctx, r.before)
	err = p.differ(ctx, tree, &r)
	hide()
	if err != nil {
		return err
	}
	if p.in != nil {
		r.stats, r.excluded = p.in.Stats(), p.in.Excluded()
	}
	r.took = time.Since(p.started)
	return p.report.finish(r)
}

// openDry opens the store for reading and prepares to read FOLDER. It returns the newest
// tree, or nil.
func (p *publishing) openDry(ctx context.Context, r *publishResult) (tree catalog.Tree, closeStore func(), err error) {
	parts := streamParts{sink: nowhere{}, hasShard: func(context.Context, codec.Hash) (bool, error) { return false, nil }}
	store, err := dir.OpenReadOnly(p.storePath)
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		return nil, func() {}, cmp.Or(p.newDryIngest(parts), p.checkIfVersion(nil))
	case err != nil:
		return nil, nil, err
	}
	p.scratch = os.TempDir()
	var known *origin.Known
	closeStore = func() {
		if known != nil {
			_ = known.Close()
		}
		store.Close()
	}
	known, err = origin.NewKnown(ctx, store, p.knownOptions())
	if err == nil {
		parts.known, parts.hasShard = known, hasShard(store)
		tree, err = p.newest(ctx, store, r, &parts)
	}
	if err == nil {
		err = p.newDryIngest(parts)
	}
	if err != nil {
		closeStore()
		return nil, nil, fmt.Errorf("%s: %w", p.storePath, err)
	}
	return tree, closeStore, nil
}

// newDryIngest is newIngest, if there is a FOLDER.
func (p *publishing) newDryIngest(parts streamParts) error {
	if p.folder == "" {
		return nil
	}
	return p.newIngest(parts)
}

// newest opens the newest tree of the symbol, if there is one.
func (p *publishing) newest(ctx context.Context, store origin.Store, r *publishResult, parts *streamParts) (catalog.Tree, error) {
	is, err := catalog.Exists(ctx, store)
	if err != nil || !is {
		return nil, err
	}
	c, err := catalog.Open(ctx, store, catalog.RecentPages(origin.Pages(store)))
	if err != nil {
		return nil, err
	}
	parts.old, _ = p.openStatCache(c.Settings().ID)
	if err := c.CheckNested(ctx, p.symbol); err != nil {
		return nil, nestedUsage(err)
	}
	head, err := c.Latest(ctx, p.symbol)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, p.checkIfVersion(nil)
	}
	if err != nil {
		return nil, err
	}
	r.before = &head
	if err := p.checkIfVersion(&head); err != nil {
		return nil, err
	}
	return c.OpenRow(ctx, p.symbol, head)
}

// checkIfVersion says what --if-version would.
func (p *publishing) checkIfVersion(head *names.Row) error {
	if want := p.ifVersion.number; want != nil && (head == nil || head.Number != *want) {
		return fmt.Errorf("%s: %w", p.symbol, writer.ErrVersion)
	}
	return nil
}

func hasShard(store origin.Store) func(context.Context, codec.Hash) (bool, error) {
	return func(ctx context.Context, h codec.Hash) (bool, error) {
		_, err := store.Size(ctx, names.ShardKey(h))
		if errors.Is(err, origin.ErrNotFound) {
			return false, nil
		}
		return err == nil, err
	}
}

// differ counts how what would be published differs from the newest tree.
func (p *publishing) differ(ctx context.Context, tree catalog.Tree, r *publishResult) error {
	if tree == nil && len(p.remove) > 0 {
		return p.nothingToRemove()
	}
	if tree == nil {
		return compareTrees(func(func(page.Entry, error) bool) {}, p.in.Entries(ctx), &r.diff)
	}
	if !p.update {
		return compareTrees(tree.All(ctx, ""), p.in.Entries(ctx), &r.diff)
	}
	changes, err := p.changes(ctx, tree)
	if err != nil {
		return err
	}
	for _, c := range changes {
		r.diff.count(c)
		if c.Old == nil || c.Old.Type != page.Dir || c.New != nil && c.New.Type == page.Dir {
			continue
		}
		below := page.Change{Old: c.Old}
		for _, err := range catalog.Walk(ctx, tree, c.Old.Path) {
			if err != nil {
				return err
			}
			r.diff.count(below)
		}
	}
	return nil
}

// compareTrees counts the differences between two trees.
func compareTrees(old, entries iter.Seq2[page.Entry, error], d *treeDiff) error {
	next, stop := iter.Pull2(old)
	defer stop()
	was, err, there := next()
	for e, newErr := range entries {
		if err = cmp.Or(err, newErr); err != nil {
			return err
		}
		for there && page.ComparePaths(was.Path, e.Path) < 0 {
			d.removed++
			if was, err, there = next(); err != nil {
				return err
			}
		}
		if !there || was.Path != e.Path {
			d.added++
			continue
		}
		if !sameEntry(&was, &e) {
			d.changed++
		}
		was, err, there = next()
	}
	for ; there && err == nil; was, err, there = next() {
		d.removed++
	}
	return err
}

// nowhere is a pack.Sink that stores nothing.
type nowhere struct{}

// PutXorb implements pack.Sink.
func (nowhere) PutXorb(context.Context, *xorb.Info, []byte) error { return nil }

// PutShard implements pack.Sink.
func (nowhere) PutShard(context.Context, *shard.Writer) (codec.Hash, error) {
	return codec.Hash{1}, nil // there is no such shard
}

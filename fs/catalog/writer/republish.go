package writer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// linkOf returns the link to an existing tree. The tree of a live version of the symbol
// exists and stays. linkOf checks each page and shard of any other tree, and rescues them
// if necessary: a sweep may delete them.
func (s *Session) linkOf(ctx context.Context, st *state, row names.Row) (page.Link, error) {
	root := row.Root
	p, err := s.w.catalog.Pages().Page(ctx, root)
	if errors.Is(err, origin.ErrNotFound) {
		return page.Link{}, catalog.NewAbsentError("index "+root.String(), "no such tree")
	}
	if err != nil {
		return page.Link{}, err
	}
	if err := p.CheckIdentity(row.Identity); err != nil {
		return page.Link{}, fmt.Errorf("index %v: %w", root, err)
	}
	link := page.Link{Page: root, Identity: row.Identity, Size: len(p.Encoded())}
	link.Entries, link.Bytes = p.Below()
	live, err := s.isLive(ctx, st, root)
	if live || err != nil {
		return link, err
	}
	switch err := s.useTree(ctx, row, p); {
	case err == nil:
		return link, nil
	case errors.Is(err, ErrSwept):
		// The deleted objects are lost, so that another try would not help.
		return page.Link{}, fmt.Errorf("index %v: it is not complete: %v: %w", root, err, origin.ErrNotFound)
	default:
		return page.Link{}, fmt.Errorf("index %v: it is not complete: %w", root, err)
	}
}

// isLive reports whether a live version of the symbol has a tree.
func (s *Session) isLive(ctx context.Context, st *state, root page.Hash) (bool, error) {
	if st.head == nil {
		return false, nil
	}
	for row, err := range s.w.catalog.LiveFrom(ctx, st.head) {
		if err != nil {
			return false, err
		}
		if row.Root == root {
			return true, nil
		}
	}
	return false, nil
}

// useTree protects all pages and shards of a tree and checks that they exist.
func (s *Session) useTree(ctx context.Context, row names.Row, p *page.Page) error {
	parts := treeParts{pages: s.w.catalog.Pages(), shards: map[codec.Hash]struct{}{}}
	parts.keys = []names.Key{names.PageKey(row.Root)}
	if err := parts.add(ctx, p); err != nil {
		return err
	}
	safe, err := s.reuse.use(ctx, parts.keys...)
	if err != nil {
		return err
	}
	if !safe {
		return ErrSwept
	}
	// The pages may have been read from a cache.
	if err := s.guard.checkExist(ctx, parts.keys); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(putsAtOnce)
	for h := range parts.shards {
		g.Go(func() error {
			there, err := s.reuse.hasShard(ctx, h)
			if err == nil && !there {
				err = fmt.Errorf("%s: %w", names.ShardKey(h), ErrSwept)
			}
			return err
		})
	}
	return g.Wait()
}

// leftShards returns the shards that an old tree names and a new tree does not.
func (s *Session) leftShards(ctx context.Context, old, now page.Hash) ([]codec.Hash, error) {
	var shards [2]map[codec.Hash]struct{}
	for i, root := range []page.Hash{old, now} {
		parts := treeParts{pages: s.w.catalog.Pages(), shards: map[codec.Hash]struct{}{}}
		p, err := parts.pages.Page(ctx, root)
		if err == nil {
			err = parts.add(ctx, p)
		}
		if err != nil {
			return nil, fmt.Errorf("index %v: %w", root, err)
		}
		shards[i] = parts.shards
	}
	maps.DeleteFunc(shards[0], func(h codec.Hash, _ struct{}) bool {
		_, ok := shards[1][h]
		return ok
	})
	return slices.SortedFunc(maps.Keys(shards[0]), codec.Hash.Compare), nil
}

// A treeParts collects the pages and shards of a tree.
type treeParts struct {
	pages page.Getter

	mu     sync.Mutex
	keys   []names.Key             // of pages; guarded by mu
	shards map[codec.Hash]struct{} // guarded by mu
}

// add adds the parts below a page. Several goroutines add leaves.
func (t *treeParts) add(ctx context.Context, p *page.Page) error {
	if p.Level() == 0 {
		t.addLeaf(p)
		return nil
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(putsAtOnce)
	row := 0
	for l := range p.LinksFrom(0) {
		i := row
		row++
		if p.Level() > 1 {
			// Sequential, because each level would multiply the goroutines.
			if err := t.addChild(gctx, p, i, l.Page); err != nil {
				return err
			}
			continue
		}
		g.Go(func() error { return t.addChild(gctx, p, i, l.Page) })
	}
	return g.Wait()
}

// addChild adds the page of one link. The page must match the link: a tree with false
// links may have no end.
func (t *treeParts) addChild(ctx context.Context, parent *page.Page, row int, h page.Hash) error {
	child, err := t.pages.Page(ctx, h)
	if err == nil {
		err = parent.ProveChild(row, child)
	}
	if err != nil {
		return fmt.Errorf("page %v: %w", h, err)
	}
	t.mu.Lock()
	t.keys = append(t.keys, names.PageKey(h))
	t.mu.Unlock()
	return t.add(ctx, child)
}

func (t *treeParts) addLeaf(p *page.Page) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for e := range p.EntriesFrom(0) {
		if !e.ID.Shard.IsZero() {
			t.shards[e.ID.Shard] = struct{}{}
		}
	}
}

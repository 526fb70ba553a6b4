package sweep

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// A marker finds what must stay. It remembers 32 bytes for each object.
type marker struct {
	store origin.Store
	pages page.Getter
	now   time.Time // by the store
	grace time.Duration
	told  func(objects int64)

	// soft says that what is damaged or missing is passed over. It is set between two
	// walks, never while one is under way.
	soft bool

	group   *errgroup.Group
	reading chan struct{} // holds one for each shard in memory

	mu    sync.Mutex
	live  map[names.Kind]map[[32]byte]struct{} // guarded by mu
	count int64                                // guarded by mu

	// Trees of versions that were deleted within the time of grace are marked after all
	// others: graceOnly are the objects that only they need.
	deleted   []page.Hash                          // guarded by mu
	graceEnd  time.Time                            // of the last deletion; guarded by mu
	counting  bool                                 // add fills graceOnly; changes between two walks only
	graceOnly map[names.Kind]map[[32]byte]struct{} // guarded by mu

	symbols map[string]struct{} // that have a reference; written by the walk of the roots only

	// homeless files are in a tree that does not say in which shard; guarded by mu
	homeless map[codec.Hash]struct{}

	pending []codec.Hash // shards that the walk has found and not read; guarded by mu
	usage   *usageMarker // nil: not collected; changes between two walks only
}

func newMarker(s origin.Store, pages page.Getter, now time.Time, grace time.Duration, told func(int64)) *marker {
	m := &marker{
		store: s, pages: pages, now: now, grace: grace, told: told,
		reading:  make(chan struct{}, shardsAtOnce),
		live:     map[names.Kind]map[[32]byte]struct{}{},
		symbols:  map[string]struct{}{},
		homeless: map[codec.Hash]struct{}{},

		graceOnly: map[names.Kind]map[[32]byte]struct{}{},
	}
	for _, kind := range fromTop {
		m.live[kind] = map[[32]byte]struct{}{}
		m.graceOnly[kind] = map[[32]byte]struct{}{}
	}
	return m
}

// fromTop are the kinds of atoms that a sweep deletes. Each points to those behind it. A receipt
// keeps nothing.
var fromTop = []names.Kind{names.ReceiptKind, names.SweepListKind, names.VersionKind, names.PageKind, names.ShardKind, names.XorbKind}

// shardsAtOnce bounds the memory of a walk: shards have up to 64 MiB, rarely more.
const shardsAtOnce = 2

// workers is how many questions are put to a store at once.
func workers(s origin.Store) int {
	if origin.Local(s) {
		return runtime.GOMAXPROCS(0)
	}
	return 8
}

// add records that an object is live, and reports whether that is new.
func (m *marker) add(kind names.Kind, h [32]byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.live[kind][h]; ok {
		return false
	}
	m.live[kind][h] = struct{}{}
	if m.counting {
		m.graceOnly[kind][h] = struct{}{}
	}
	if m.count++; m.count%1024 == 0 {
		m.told(m.count)
	}
	return true
}

func (m *marker) has(p names.Parsed) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.live[p.Kind][p.Hash]
	return ok
}

// walk calls root, which calls page and shard for what must stay, and returns when
// everything below is marked too. Shards are read after all pages, because the pages say which
// files of a shard are live.
func (m *marker) walk(ctx context.Context, root func(context.Context) error) error {
	if err := m.together(ctx, root); err != nil {
		return err
	}
	shards := m.pending
	m.pending = nil
	return m.together(ctx, func(ctx context.Context) error {
		for _, h := range shards {
			if err := m.spawn(func() error { return m.xorbs(ctx, h) }); err != nil {
				return err
			}
		}
		return nil
	})
}

// together calls do, and returns when it and everything that it has spawned is done.
func (m *marker) together(ctx context.Context, do func(context.Context) error) error {
	m.group, ctx = errgroup.WithContext(ctx)
	m.group.SetLimit(workers(m.store) + 1)
	m.group.Go(func() error { return do(ctx) })
	return m.group.Wait()
}

// spawn does something at the same time if not too much is done so already. Nothing
// waits for a free place, so that memory grows with the depth of the trees only.
func (m *marker) spawn(do func() error) error {
	if m.group.TryGo(do) {
		return nil
	}
	return do()
}

// pass returns the error, unless the object is one to pass over.
func (m *marker) pass(err error) error {
	if m.soft && (errors.Is(err, codec.ErrCorrupt) || errors.Is(err, origin.ErrNotFound)) {
		return nil
	}
	return err
}

// page marks a page and everything below it.
func (m *marker) page(ctx context.Context, h page.Hash) error { return m.child(ctx, nil, 0, h) }

// child marks the page that a row of another one leads to, if there is another one, and
// everything below it. It must be what the row says: the way down through a tree whose
// links lie may be longer than any stack.
func (m *marker) child(ctx context.Context, parent *page.Page, row int, h page.Hash) error {
	if !m.add(names.PageKind, h) {
		return nil
	}
	p, err := m.pages.Page(ctx, h)
	if err == nil && parent != nil {
		err = parent.CheckChild(row, p)
	}
	if err != nil {
		return m.pass(fmt.Errorf("page %v: %w", h, err))
	}
	if p.Level() == 0 {
		return m.leaf(p)
	}
	below := 0
	for l := range p.LinksFrom(0) {
		i := below
		below++
		if err := m.spawn(func() error { return m.child(ctx, p, i, l.Page) }); err != nil {
			return err
		}
	}
	return nil
}

// leaf marks the shards that the entries of a leaf name.
func (m *marker) leaf(p *page.Page) error {
	var last codec.Hash
	for e := range p.EntriesFrom(0) {
		switch {
		case e.ID.File.IsZero() || e.ID.Shard == last && !last.IsZero():
			continue
		case e.ID.Shard.IsZero():
			m.mu.Lock()
			m.homeless[e.ID.File] = struct{}{}
			m.mu.Unlock()
			continue
		}
		last = e.ID.Shard
		m.shard(last)
	}
	if m.usage != nil {
		m.usage.leaf(p)
		return m.usage.checkMemory()
	}
	return nil
}

// shard marks a shard. The walk marks the xorbs in it at its end.
func (m *marker) shard(h codec.Hash) {
	if m.add(names.ShardKind, h) {
		m.mu.Lock()
		m.pending = append(m.pending, h)
		m.mu.Unlock()
	}
}

// xorbs marks the xorbs of a shard: those of its files, and those with a chunk list. A writer
// reuses chunks of such a list.
func (m *marker) xorbs(ctx context.Context, h codec.Hash) error {
	m.reading <- struct{}{}
	defer func() { <-m.reading }()
	s, err := origin.ReadShard(ctx, m.store, h)
	if err != nil {
		return m.pass(err)
	}
	scan := m.usage.scan(h, s.Meta().Size)
	for f, err := range s.Files() {
		if err != nil {
			return m.pass(fmt.Errorf("%s: %w", names.ShardKey(h), err))
		}
		scan.file(f)
		for i := range f.Terms {
			if i == 0 || f.Terms[i].Xorb != f.Terms[i-1].Xorb {
				m.add(names.XorbKind, f.Terms[i].Xorb)
			}
		}
	}
	for x, err := range s.Xorbs() {
		if err != nil {
			return m.pass(fmt.Errorf("%s: %w", names.ShardKey(h), err))
		}
		m.add(names.XorbKind, x.Xorb)
		scan.xorb(x)
	}
	return scan.end()
}

// kept marks an object that no reference leads to and that stays all the same, with
// everything below it. It can be no shard or page that was marked before, or it is one
// with which that was done.
func (m *marker) kept(ctx context.Context, p names.Parsed) error {
	switch p.Kind {
	case names.PageKind:
		return m.page(ctx, p.Hash)
	case names.ShardKind:
		m.shard(p.Hash)
	case names.ReceiptKind: // several receipts have one hash
	default:
		m.add(p.Kind, p.Hash)
	}
	return nil
}

// holdsHomeless reports whether a shard has a file that some tree has without its shard. It
// returns true for a shard that is corrupt.
func (m *marker) holdsHomeless(ctx context.Context, h codec.Hash) (bool, error) {
	if len(m.homeless) == 0 {
		return false, nil
	}
	s, err := origin.ReadShard(ctx, m.store, h)
	if errors.Is(err, origin.ErrNotFound) {
		return false, nil
	}
	if errors.Is(err, codec.ErrCorrupt) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	for f, err := range s.Heads() {
		if _, ok := m.homeless[f.File]; ok || err != nil {
			return true, nil //nolint:nilerr // as above
		}
	}
	return false, nil
}

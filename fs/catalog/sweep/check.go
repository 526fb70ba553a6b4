package sweep

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// CheckOptions tune a Check.
type CheckOptions struct {
	Data     bool           // read every xorb, too
	Progress func(Progress) // one call at a time; Total counts what nothing needs, too
	Found    func(Finding)  // one call at a time
}

// A Finding is one thing that is wrong.
type Finding struct {
	Key     names.Key // where
	Symbol  string    // and Version and Path: one of those that need it, if known
	Version uint64
	Path    string
	Err     error
	Missing bool // absent or unreadable; else corrupt or hidden
	Hidden  bool // a mount does not show Symbol, because its name continues that of another
}

// A CheckReport sums up a Check.
type CheckReport struct {
	Symbols, Versions, Snapshots, Pages, Entries, Shards, Xorbs int64
	Ignored                                                     int64 // keys that do not parse
	Damaged, Missing, Hidden                                    int64

	// Usage is how much of the shards and xorbs the live versions need. Damaged and missing
	// objects are left out.
	Usage *Usage
}

// Check walks all reachable objects to the end and reports each fault to Found. It reads
// every document, page and shard once. It compares versions with their numbers, pages with
// their links, and entries with their folders and shards. The terms of a shard must match
// its chunk lists. Xorbs must exist; with Data they are unpacked and compared with their
// hashes. Pages should be read from the store, not from a cache.
//
// Check does not cover files whose entry names no shard, and does not compare chunks with
// the hash of the file.
//
// The error is that of ctx, or reports a missing catalog or a store that cannot be listed.
// A fault in the catalog is no error.
func Check(ctx context.Context, s origin.Store, pages page.Getter, o CheckOptions) (CheckReport, error) {
	c := newChecker(s, pages, o)
	c.ended = ctx.Err
	if err := c.run(ctx); err != nil {
		return c.report, err
	}
	return c.report, ctx.Err()
}

// A checker is one Check under way. It remembers some 32 bytes for each object, and 64 for each page.
type checker struct {
	store    origin.Store
	pages    page.Getter // caches the pages read last
	uncached page.Getter // for pages that are read once
	o        CheckOptions
	ended    func() error  // the error of the context of the Check
	slots    chan struct{} // one for each thing that is done besides

	there map[codec.Hash]int64 // sizes of the xorbs that were listed
	heads map[string]uint64    // highest change of each symbol whose versions were listed
	sums  map[page.Hash]bool   // trees whose folders were checked
	bases map[string]page.Root // such a tree of each symbol

	loading chan struct{} // holds one while a shard is in memory

	mu     sync.Mutex
	report CheckReport                 // guarded by mu
	done   int64                       // guarded by mu
	total  int64                       // guarded by mu
	whole  map[page.Hash]bool          // pages, and whether all below them is good; guarded by mu
	named  map[page.Hash]page.Identity // the identity of each page as the first link says; guarded by mu
	shards map[codec.Hash]bool         // that were read, and whether they are good; guarded by mu
	xorbs  map[codec.Hash]struct{}     // guarded by mu
	tables tables                      // guarded by mu
	usage  *usageMarker                // of the leaves so far
	busy   sync.WaitGroup              // xorbs that are read
}

func newChecker(s origin.Store, pages page.Getter, o CheckOptions) *checker {
	return &checker{
		store: s, pages: catalog.RecentPages(pages), uncached: pages, o: o, slots: make(chan struct{}, workers(s)),
		there:  map[codec.Hash]int64{},
		heads:  map[string]uint64{},
		sums:   map[page.Hash]bool{},
		bases:  map[string]page.Root{},
		whole:  map[page.Hash]bool{},
		named:  map[page.Hash]page.Identity{},
		shards: map[codec.Hash]bool{},
		xorbs:  map[codec.Hash]struct{}{},
		usage:  newUsageMarker(0),

		loading: make(chan struct{}, 1),
	}
}

// A place is what of the catalog needs an object.
type place struct {
	symbol  string
	version uint64
	path    string
}

func (p place) at(path string) place {
	p.path = path
	return p
}

// found reports a fault of an object.
func (c *checker) found(k names.Key, p place, err error) {
	if c.ended() != nil && isContextError(err) {
		return // Check returns it
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f := Finding{Key: k, Symbol: p.symbol, Version: p.version, Path: p.path, Err: err}
	f.Hidden = errors.As(err, new(*catalog.NestedError))
	f.Missing = !f.Hidden && !errors.Is(err, codec.ErrCorrupt)
	switch {
	case f.Hidden:
		c.report.Hidden++
	case f.Missing:
		c.report.Missing++
	default:
		c.report.Damaged++
	}
	if c.o.Found != nil {
		c.o.Found(f)
	}
}

// add adds to a number of the report. Each counts as one more object.
func (c *checker) add(n *int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
	c.done++
	if c.o.Progress != nil && c.done%64 == 0 {
		c.o.Progress(Progress{Doing: "check", Done: c.done, Total: c.total})
	}
}

// besides does something, at the same time as what follows if there is a free slot.
func (c *checker) besides(wg *sync.WaitGroup, do func()) {
	select {
	case c.slots <- struct{}{}:
		wg.Go(func() {
			defer func() { <-c.slots }()
			do()
		})
	default:
		do()
	}
}

func (c *checker) run(ctx context.Context) error {
	settings := new(names.Settings)
	_, err := catalog.ReadDocument(ctx, c.store, names.SettingsKey(), "", settings)
	switch {
	case errors.Is(err, origin.ErrNotFound), errors.Is(err, names.ErrNewer), errors.Is(err, names.ErrOlder):
		return err
	case err != nil:
		c.found(names.SettingsKey(), place{}, err)
	}
	symbols, snapshots, err := c.list(ctx)
	if err != nil {
		return err
	}
	for _, symbol := range symbols {
		if ctx.Err() == nil {
			c.symbol(ctx, symbol)
		}
		delete(c.heads, symbol)
	}
	for _, name := range snapshots {
		if ctx.Err() == nil {
			c.snapshot(ctx, name)
		}
	}
	c.busy.Wait()
	c.sweepState(ctx)
	c.lostRefs(ctx)
	if err := c.measure(ctx); err != nil {
		return err
	}
	return c.symbolList(ctx)
}

// measure reads the shards again: only now it is known which of their files are live.
func (c *checker) measure(ctx context.Context) error {
	m := newMarker(c.store, c.uncached, time.Now(), 0, func(int64) {})
	m.usage, m.soft = c.usage, true
	err := m.walk(ctx, func(context.Context) error {
		for h, good := range c.shards {
			if good {
				m.shard(h)
			}
		}
		return nil
	})
	if err == nil {
		c.report.Usage, err = c.usage.finish(ctx, m)
	}
	if errors.Is(err, origin.ErrUnavailable) {
		return nil // it was found before
	}
	return err
}

// list lists all kinds of keys.
func (c *checker) list(ctx context.Context) (symbols, snapshots []string, err error) {
	for _, prefix := range names.Prefixes() {
		for item, err := range c.store.List(ctx, prefix, "") {
			if errors.Is(err, errors.ErrUnsupported) && prefix != names.RefPrefix {
				break // a web server lists some kinds only, and these are read by their keys
			}
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", prefix, err)
			}
			p, err := names.ParseKey(item.Key)
			if err != nil {
				c.report.Ignored++
				continue
			}
			switch p.Kind {
			case names.RefKind:
				symbols = append(symbols, p.Symbol)
			case names.SnapshotKind:
				snapshots = append(snapshots, p.Symbol)
			case names.VersionKind:
				c.heads[p.Symbol] = max(c.heads[p.Symbol], p.Seq)
			case names.XorbKind:
				c.there[p.Hash] = item.Size
			}
			c.total++
		}
	}
	return symbols, snapshots, nil
}

// snapshot checks a snapshot and its trees.
func (c *checker) snapshot(ctx context.Context, name string) {
	k := names.SnapshotKey(name)
	snap := new(names.Snapshot)
	_, err := catalog.ReadDocument(ctx, c.store, k, "", snap)
	if errors.Is(err, origin.ErrNotFound) {
		return // it was deleted a moment ago
	}
	if err == nil && snap.Name != name {
		err = codec.Corrupt("tref", 0, "it is the snapshot %.80q", snap.Name)
	}
	if err != nil {
		c.found(k, place{}, err)
		return
	}
	c.add(&c.report.Snapshots)
	for symbol, row := range snap.Rows {
		c.tree(ctx, k, place{symbol: symbol, version: row.Number}, row)
	}
}

// sweepState checks the state of a sweep under way, and its list.
func (c *checker) sweepState(ctx context.Context) {
	st := new(names.Sweep)
	_, err := catalog.ReadDocument(ctx, c.store, names.SweepKey(), "", st)
	if errors.Is(err, origin.ErrNotFound) {
		return
	}
	if err != nil {
		c.found(names.SweepKey(), place{}, err)
		return
	}
	b, _, err := c.store.Get(ctx, st.List, "")
	if errors.Is(err, origin.ErrNotFound) {
		// The sweep may have ended meanwhile.
		if _, err := catalog.ReadDocument(ctx, c.store, names.SweepKey(), "", new(names.Sweep)); errors.Is(err, origin.ErrNotFound) {
			return
		}
	}
	if err == nil {
		err = names.CheckValue(st.List, b)
	}
	if err == nil {
		_, err = names.DecodeSweepList(b)
	}
	if err != nil {
		c.found(st.List, place{}, err)
	}
}

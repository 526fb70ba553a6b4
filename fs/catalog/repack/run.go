package repack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// DefaultMaxUnused is the share of unused bytes up to which a xorb stays as it is.
const DefaultMaxUnused = 0.05

// Options tune Run. The zero value replaces every xorb with an unused byte.
type Options struct {
	MaxUnused float64 // share of unused bytes up to which a xorb stays, 0 to 1
	Symbol    string  // replace only what versions of this symbol use; "": everything
	DryRun    bool    // plan only
	Memory    int64   // bytes, at least MinMemory; 0: no limit

	// Planned is called with the plan before anything is written. It may be called again with a
	// smaller plan, if a xorb is damaged. nil: not called.
	Planned  func(*sweep.Usage, *Plan)
	Progress func(Progress) // nil: not reported; one call at a time
	Logger   *slog.Logger   // nil: nothing is logged
}

// Progress is how far a repack is.
type Progress struct {
	Doing       string // Looking, Copying or Switching
	Done, Total int64  // bytes of chunks for Copying, symbols for Switching, else objects; Total 0: not known
}

// The steps of a repack.
const (
	Looking   = "look"
	Copying   = "copy"
	Switching = "switch"
)

// A Report is what Run did.
type Report struct {
	Usage     *sweep.Usage
	Plan      *Plan
	Xorbs     sweep.Counts // stored
	Shards    sweep.Counts // stored
	Reused    sweep.Counts // xorbs that an earlier run had stored
	Read      int64        // bytes of old xorbs
	Left      int64        // files that stay where they are, because they cannot be proven
	Symbols   int          // with new rows
	Versions  int          // with new rows
	Snapshots int          // with new rows
}

const (
	workMemory = 144 << 20 // bytes of a repack without the usage of the store
	MinMemory  = 160 << 20 // the least value of Options.Memory, enough for 10,000 xorbs
)

// Run repacks the store of w. A damaged or missing object of a live version is an error, except
// for xorbs, which are left out.
func Run(ctx context.Context, s origin.WriteStore, w *writer.Writer, o Options) (*Report, error) {
	if o.Memory > 0 && o.Memory < MinMemory {
		return nil, fmt.Errorf("%w: at least %d MiB", sweep.ErrMemory, MinMemory>>20)
	}
	if o.Planned == nil {
		o.Planned = func(*sweep.Usage, *Plan) {}
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	moves, err := w.BeginRepack(ctx)
	if err != nil {
		return nil, err
	}
	pages := w.Catalog().Pages()
	report := new(Report)
	told := func(p sweep.Progress) { o.Progress(Progress{Doing: Looking, Done: p.Done}) }
	if report.Usage, err = sweep.Survey(ctx, s, pages, usageMemory(o.Memory), told); err != nil {
		return report, err
	}
	for {
		r := &run{
			store: s, catalog: w.Catalog(), pages: catalog.RecentPages(pages), o: o, moves: moves, report: report,
			sink: moves.Sink(origin.Sink(s)), infos: lru.New[codec.Hash, *xorb.Info](infoBytes, nil),
			looked: map[page.Hash]bool{}, roots: map[page.Hash]page.Hash{},
			shards: map[codec.Hash]*oldShard{}, listed: map[codec.Hash]bool{}, moved: map[codec.Hash][]place{},
			first: map[codec.Hash]*oldFile{},
		}
		err := r.run(ctx)
		var damaged *damagedError
		if !errors.As(err, &damaged) {
			return report, err
		}
		x := report.Usage.Xorbs[damaged.xorb]
		if x == nil || x.Err != nil {
			return report, err
		}
		o.Logger.Warn("a damaged xorb stays as it is; xetfs catalog check says what needs it", "event", "corrupt", "what", "xorb", "err", damaged.err)
		x.Err = damaged.err
	}
}

// usageMemory returns what of some memory is for the usage of the store.
func usageMemory(memory int64) int64 {
	if memory == 0 {
		return 0
	}
	return memory - workMemory
}

// infoBytes bounds the infos of xorbs in memory.
const infoBytes = 32 << 20

// A run is one try of a repack.
type run struct {
	store   origin.WriteStore
	catalog *catalog.StoreCatalog
	pages   page.Getter // caches the pages read last
	o       Options
	moves   *writer.Repack
	report  *Report
	plan    *Plan
	sink    pack.Sink
	infos   *lru.Cache[codec.Hash, *xorb.Info]

	looked map[page.Hash]bool       // pages, and whether a file below them is in a replaced shard
	roots  map[page.Hash]page.Hash  // trees, and those that take their place
	shards map[codec.Hash]*oldShard // replaced shards
	order  []codec.Hash             // of shards, by first use
	listed map[codec.Hash]bool      // xorbs whose chunks a new shard lists
	moved  map[codec.Hash][]place   // the chunks of replaced xorbs: their new places
	first  map[codec.Hash]*oldFile  // files that move
	twins  []twin                   // files that move to the place of another
	groups []codec.Hash             // names of new xorbs, in the order of their groups
	stored []codec.Hash             // new shards
	open   group                    // the next xorb
	shard  shardBuilder             // the next shard
	body   []byte                   // of the last xorb, to be used again
	copied int64                    // bytes of groups so far
}

// A damagedError reports that a xorb cannot be copied.
type damagedError struct {
	xorb codec.Hash
	err  error
}

func (e *damagedError) Error() string { return e.err.Error() }
func (e *damagedError) Unwrap() error { return e.err }

func (r *run) run(ctx context.Context) error {
	only, err := r.shardsOf(ctx, r.o.Symbol)
	if err != nil {
		return err
	}
	r.plan = NewPlan(r.report.Usage, r.o.MaxUnused, only)
	r.report.Plan = r.plan
	r.o.Planned(r.report.Usage, r.plan)
	switch {
	case r.o.DryRun || r.plan.IsEmpty():
		return nil
	case r.report.Usage.Homeless > 0:
		return fmt.Errorf("%d files are in trees that do not say in which shard; such trees cannot be repacked", r.report.Usage.Homeless)
	}
	for h := range r.plan.Shards {
		r.shards[h] = &oldShard{at: map[uint32]uint32{}}
	}
	if err := r.lookAll(ctx); err != nil {
		return err
	}
	if err := r.copyAll(ctx); err != nil {
		return err
	}
	return r.switchAll(ctx)
}

// shardsOf returns a function that reports whether a shard is of a symbol; "": nil.
func (r *run) shardsOf(ctx context.Context, symbol string) (func(codec.Hash) bool, error) {
	if symbol == "" {
		return nil, nil //nolint:nilnil // all shards
	}
	used := map[codec.Hash]bool{}
	seen := map[page.Hash]bool{}
	for row, err := range r.catalog.Live(ctx, symbol) {
		if err == nil {
			err = r.addShards(ctx, row.Root, nil, 0, seen, used)
		}
		if err != nil {
			return nil, err
		}
	}
	return func(h codec.Hash) bool { return used[h] }, nil
}

// addShards adds the shards of a tree to used.
func (r *run) addShards(ctx context.Context, h page.Hash, parent *page.Page, row int, seen map[page.Hash]bool, used map[codec.Hash]bool) error {
	if seen[h] {
		return nil
	}
	seen[h] = true
	p, err := r.page(ctx, h, parent, row)
	if err != nil {
		return err
	}
	if p.Level() == 0 {
		for e := range p.EntriesFrom(0) {
			used[e.ID.Shard] = true
		}
		return nil
	}
	i := 0
	for l := range p.LinksFrom(0) {
		if err := r.addShards(ctx, l.Page, p, i, seen, used); err != nil {
			return err
		}
		i++
	}
	return nil
}

// page reads a page, which must be what the row of its parent says; nil: it is a root.
func (r *run) page(ctx context.Context, h page.Hash, parent *page.Page, row int) (*page.Page, error) {
	p, err := r.pages.Page(ctx, h)
	if err == nil && parent != nil {
		err = parent.CheckChild(row, p)
	}
	if err != nil {
		return nil, fmt.Errorf("page %v: %w", h, err)
	}
	return p, nil
}

// eachRow calls visit for the live versions of all symbols, newest first, and for the versions
// in snapshots.
func (r *run) eachRow(ctx context.Context, visit func(names.Row) error) error {
	symbols, err := r.catalog.RefSymbols(ctx)
	if err != nil {
		return err
	}
	for _, symbol := range symbols {
		for row, err := range r.catalog.Live(ctx, symbol) {
			if err == nil {
				err = visit(row)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", symbol, err)
			}
		}
	}
	for name, err := range r.catalog.Snapshots(ctx) {
		if err != nil {
			return err
		}
		s, err := r.catalog.Snapshot(ctx, name)
		if err != nil {
			return err
		}
		for _, symbol := range sortedKeys(s.Rows) {
			if err := visit(s.Rows[symbol]); err != nil {
				return fmt.Errorf("snapshot %s: %s: %w", name, symbol, err)
			}
		}
	}
	return nil
}

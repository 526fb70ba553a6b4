package sweep_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	iofs "io/fs"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dedup"
	"github.com/xetfs/xetfs/cache/origin/mirror"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog/repack"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

var (
	histories = flag.Int("histories", 60, "how many random histories TestModel plays; a tenth with the race detector")
	trace     = flag.Bool("trace", false, "show all of a history that went wrong, with what was read")
	stalls    = flag.Int("stalls", 1, "how often a writer stands still in one publish; with more it may take longer than the time of grace")
	firstSeed = flag.Uint64("seed", 1, "of the first history")
)

// A model is one random history of writers and sweepers that share a store.
type model struct {
	*world
	store    origin.WriteStore
	copies   string // folder of a mirror; "": none
	settings *names.Settings
	writers  rules
	repacks  rules
	sweepers rules
	stalls   int     // how often a writer pauses in one publish
	pauses   float64 // how likely it does before a call, if not 0
	narrow   bool    // see uploadServer

	mu      sync.Mutex
	rows    map[string][]names.Row // that were published, by symbol; guarded by mu
	deletes map[string]time.Time   // the last deletion of each key by each process; guarded by mu
	log     []string               // guarded by mu
	faults  []string               // guarded by mu
	results map[string]int         // how things went, guarded by mu
}

// Rules say which rule of the protocol a process breaks; the zero value is none.
type rules struct {
	blind func(names.Key, []byte) ([]byte, error) // changes what it reads
}

var symbols = []string{"org/model", "data"}

func newModel(seed uint64) *model {
	m := &model{world: newWorld(seed), settings: smallSettings(), stalls: *stalls, rows: map[string][]names.Row{}, deletes: map[string]time.Time{}, results: map[string]int{}}
	m.store = origintest.MemoryAt(m.now)
	return m
}

// play runs a history to its end.
func (m *model) play() {
	dice := m.diceOf("plan")
	loss := []float64{0, 0.02, 0.1, 0.2}[dice.IntN(4)]
	pauses := []float64{0, 0.002, 0.01, 0.03}[dice.IntN(4)]
	if m.pauses > 0 {
		pauses = m.pauses
	}
	m.settings.Grace = time.Duration(1+dice.IntN(4)) * m.settings.Window
	if m.stalls <= 1 {
		m.settings.Grace += 3 * m.settings.Window
	}
	process := func(name string, n int, r rules) *process {
		p := m.newProcess(fmt.Sprint(name, " ", n))
		p.skew = time.Duration(dice.IntN(60)-30) * time.Minute
		p.loss, p.pauses, p.long, p.rules = loss, pauses, 3*m.settings.Window, r
		return p
	}
	var lives []life
	for i := range 2 + dice.IntN(3) {
		p := process("writer", i, m.writers)
		lives = append(lives, life{p, func() { m.write(p) }})
	}
	for i := range dice.IntN(3) {
		p := process("server", i, m.writers)
		lives = append(lives, life{p, func() { m.serve(p) }})
	}
	repackers := dice.IntN(2)
	if m.repacks.blind != nil {
		repackers = 3
	}
	for i := range repackers {
		p := process("repacker", i, m.repacks)
		lives = append(lives, life{p, func() { m.repack(p) }})
	}
	for i := range 1 + dice.IntN(3) {
		p := process("sweeper", i, m.sweepers)
		lives = append(lives, life{p, func() { m.sweep(p) }})
	}
	m.run(lives)
	m.look("at the end")
}

// awake connects a process for its next action. On average, one action of times crashes.
func (m *model) awake(p *process, times int) origin.WriteStore {
	p.mu.Lock()
	p.left = m.stalls
	if strings.HasPrefix(p.name, "sweeper") {
		p.left = 100
	}
	p.mu.Unlock()
	n := 0
	if p.roll(times) == 0 {
		n = 1 + p.roll(12)
	}
	w := p.connect(m.store, n, p.roll(2) == 0)
	w.changes = m.note
	return w
}

// note notes a call, and looks whether a sweeper deletes what is younger than the time of
// grace. A sweeper repeats a deletion whose answer was lost, and may then delete an object that an
// upload has stored in between. The upload protects the object afterwards, and stores it again.
func (m *model) note(p *process, c origintest.Call) {
	line := fmt.Sprintf("%v %s: %s %.60s", m.now().Sub(newWorld(0).clock), p.name, c.Op, c.Key)
	young := false
	if parsed, err := names.ParseKey(c.Key); err == nil && c.Op == "Delete" {
		switch parsed.Kind {
		case names.RefKind:
			young = true // no process deletes references
		case names.VersionKind, names.PageKind, names.ShardKind, names.XorbKind:
			for item, err := range m.store.List(context.Background(), string(c.Key), "") {
				young = err == nil && m.now().Sub(item.Modified) < m.settings.Grace
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log = append(m.log, line)
	if c.Op == "Delete" {
		last, again := m.deletes[p.name+string(c.Key)]
		m.deletes[p.name+string(c.Key)] = m.now()
		if again && m.now().Sub(last) < 2*m.settings.Window { // no other sweep can have begun and waited
			return
		}
	}
	if young {
		m.faults = append(m.faults, "too young: "+line)
	}
}

func (m *model) count(what string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.results[what+": "+outcome(err)]++
}

// outcome sorts errors. An unexpected error is a fault.
func outcome(err error) string {
	for _, kind := range []error{
		origintest.ErrCrashed, origin.ErrUnknown, origin.ErrNotFound, writer.ErrBusy, writer.ErrSlow, writer.ErrSwept, sweep.ErrOther, errLease,
		iofs.ErrNotExist, iofs.ErrExist, context.DeadlineExceeded, errors.ErrUnsupported, origin.ErrConflict,
	} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	switch {
	case err == nil:
		return "done"
	case strings.Contains(err.Error(), "left unfinished"):
		return "a sweep was left unfinished"
	}
	return err.Error()
}

// look looks for what is missing.
func (m *model) look(when string) {
	lost := missing(m.store, m.now(), m.settings.Grace)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, what := range lost {
		m.faults = append(m.faults, when+": "+what)
	}
}

// write is the life of a writer.
func (m *model) write(p *process) {
	for range 4 + p.roll(8) {
		p.sleep(p.upTo(2 * m.settings.Window))
		what, err := m.change(p, m.awake(p, 8))
		m.count(what, err)
		if p.roll(4) == 0 {
			m.look("after " + what)
		}
	}
}

// index returns the index of a publish: none, with a mirror, with that of a local store, or without.
func (m *model) index(p *process, s origin.Store) *dedup.Options {
	switch roll := p.roll(4); {
	case roll == 0:
		return nil
	case roll == 1 && m.copies != "":
		return &dedup.Options{Mirror: mirror.New(s, mirror.OpenFolder(m.copies, 1<<30), nil)}
	case roll == 2 && m.copies != "":
		return &dedup.Options{Mirror: mirror.NewLocal(s, mirror.OpenFolder(m.copies, 1<<30), "store", nil)}
	}
	return new(dedup.Options)
}

// change does one thing that a writer does.
func (m *model) change(p *process, s origin.WriteStore) (string, error) {
	ctx := context.Background()
	pub, err := m.open(ctx, p, s)
	if err != nil {
		return "open", err
	}
	symbol := symbols[p.roll(len(symbols))]
	switch roll := p.roll(23); {
	case roll >= 20:
		_, err := repack.Run(ctx, s, pub, repack.Options{MaxUnused: 0.05})
		return "repack", err
	case roll < 8:
		row, err := publish(ctx, pub, s, symbol, m.files(p), m.index(p, s))
		m.keep(symbol, row, err)
		return "replace", err
	case roll < 11:
		row, err := m.update(ctx, p, pub, s, symbol)
		m.keep(symbol, row, err)
		return "update", err
	case roll < 13:
		return "again", m.again(ctx, p, pub, symbol)
	case roll < 18:
		return "delete", m.remove(ctx, p, pub, symbol)
	case roll < 19:
		_, err := pub.Snapshot(ctx, fmt.Sprint("snap", p.roll(2)), "", map[string]names.AsOf{symbol: {}}, p.roll(2) == 0)
		return "snapshot", err
	}
	return "delete snapshot", pub.DeleteSnapshot(ctx, fmt.Sprint("snap", p.roll(2)))
}

func (m *model) open(ctx context.Context, p *process, s origin.WriteStore) (*writer.Writer, error) {
	return writer.Open(ctx, s, origin.Pages(s), writer.Options{
		Settings: m.settings, Clock: p.clock, Sleep: p.wait, Random: p.random,
	})
}

// repack is the life of a repacker. It crashes often, and the next run wants the xorbs of the
// crashed one, which a sweep may delete meanwhile.
func (m *model) repack(p *process) {
	for range 6 + p.roll(8) {
		p.sleep(p.upTo(2 * m.settings.Window))
		s := m.awake(p, 2)
		pub, err := m.open(context.Background(), p, s)
		if err == nil {
			_, err = repack.Run(context.Background(), s, pub, repack.Options{})
		}
		m.count("repack", err)
		m.look("after a repack")
	}
}

// files returns a tree. Most trees come back again and again, and others are like them, so
// that what is garbage is often wanted again.
func (m *model) files(p *process) map[string]int {
	files := map[string]int{}
	kind := p.roll(4)
	for i := range 6 + 2*kind {
		files[fmt.Sprintf("d%d/name %02d", i%3, i)] = 2*kind + i/2
	}
	if p.roll(3) == 0 {
		files[fmt.Sprintf("d%d/name %02d", p.roll(3), p.roll(16))] = p.roll(12)
	}
	return files
}

func (m *model) keep(symbol string, row names.Row, err error) {
	if err == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.rows[symbol] = append(m.rows[symbol], row)
	}
}

// update changes a few entries of the newest tree.
func (m *model) update(ctx context.Context, p *process, pub *writer.Writer, s origin.WriteStore, symbol string) (names.Row, error) {
	b, err := pub.Begin(ctx, symbol, writer.PublishOptions{})
	if err != nil {
		return names.Row{}, err
	}
	files := map[string]int{}
	for range 1 + p.roll(3) {
		files[fmt.Sprintf("d%d/name %02d", p.roll(3), p.roll(16))] = p.roll(8)
	}
	pk := &packer{sink: b.Sink(origin.Sink(s)), store: s}
	ids, err := pk.put(ctx, slices.Compact(slices.Sorted(maps.Values(files))))
	if err != nil {
		return names.Row{}, err
	}
	var changes []page.Change
	for e, err := range entries(files, ids) {
		if err != nil {
			return names.Row{}, err
		}
		if e.Type == page.File {
			c := page.Change{New: &e}
			if p.roll(4) == 0 {
				c = page.Change{Old: &e}
			}
			changes = append(changes, c)
		}
	}
	return b.Update(ctx, changes)
}

// again publishes a tree that was there, which may be deleted or swept by now.
func (m *model) again(ctx context.Context, p *process, pub *writer.Writer, symbol string) error {
	m.mu.Lock()
	var rows []names.Row
	for _, symbol := range symbols {
		rows = append(rows, m.rows[symbol]...)
	}
	m.mu.Unlock()
	if len(rows) == 0 {
		return iofs.ErrNotExist
	}
	b, err := pub.Begin(ctx, symbol, writer.PublishOptions{})
	if err != nil {
		return err
	}
	row, err := b.Republish(ctx, rows[p.roll(len(rows))])
	m.keep(symbol, row, err)
	return err
}

// remove deletes some versions of a symbol.
func (m *model) remove(ctx context.Context, p *process, pub *writer.Writer, symbol string) error {
	var live []uint64
	for row, err := range pub.Catalog().Live(ctx, symbol) {
		if err != nil {
			return err
		}
		live = append(live, row.Number)
	}
	switch p.roll(3) {
	case 0:
		live = live[min(1, len(live)):] // all but the newest
	case 1:
		live = live[:min(1, len(live))]
	}
	if len(live) == 0 {
		return iofs.ErrNotExist
	}
	return pub.Delete(ctx, symbol, live...)
}

// sweep is the life of a sweeper.
func (m *model) sweep(p *process) {
	for range 3 + p.roll(4) {
		p.sleep(p.upTo(2 * m.settings.Window))
		s := m.awake(p, 8)
		r, err := sweep.Sweep(context.Background(), s, origin.Pages(s), sweep.Options{Clock: p.clock, Sleep: p.wait, Random: p.random})
		m.count("sweep", err)
		m.mu.Lock()
		for kind, n := range r.Deleted {
			m.results["deleted "+kind.String()] += int(n.Objects)
		}
		m.mu.Unlock()
		m.look("after a sweep")
	}
}

// end is a life after all others: sweeps until there is nothing left to sweep.
func (m *model) end() {
	p := m.newProcess("last")
	m.run([]life{{p, func() {
		s := p.connect(m.store, 0, false)
		s.changes = m.note
		for range 2 {
			p.sleep(m.settings.Grace)
			_, err := sweep.Sweep(context.Background(), s, origin.Pages(s), sweep.Options{Clock: p.clock, Sleep: p.wait, Random: p.random})
			if err != nil && !errors.Is(err, origin.ErrNotFound) { // without a catalog
				m.faults = append(m.faults, "the last sweep: "+err.Error())
			}
		}
		r, err := sweep.Sweep(context.Background(), s, origin.Pages(s), sweep.Options{DryRun: true, Clock: p.w.now})
		if len(r.Garbage)+len(r.Young) > 0 {
			m.faults = append(m.faults, fmt.Sprintf("after the last sweep: %+v", r))
		}
		if err != nil {
			return
		}
		_, err = sweep.Check(context.Background(), m.store, origin.Pages(m.store), sweep.CheckOptions{
			Data: true,
			Found: func(f sweep.Finding) {
				if f.Missing && f.Key == names.RefKey(f.Symbol) {
					return // the first publish of the symbol crashed
				}
				m.faults = append(m.faults, fmt.Sprintf("found: %+v", f))
			},
		})
		if err != nil {
			m.faults = append(m.faults, "the last check: "+err.Error())
		}
	}}})
	m.look("after the last sweep")
}

// TestModel plays random histories. It checks that no needed object is missing, that no young
// object was deleted, and that garbage is deleted in the end.
func TestModel(t *testing.T) {
	var mu sync.Mutex
	total, copies := map[string]int{}, t.TempDir()
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	n := *histories
	if codectest.Race {
		n = max(1, n/10)
	}
	for i := range uint64(n) {
		all.Go(func() error {
			m := newModel(*firstSeed + i)
			m.copies = copies
			m.play()
			if i%4 == 0 {
				m.end()
			}
			mu.Lock()
			defer mu.Unlock()
			for what, n := range m.results {
				total[what] += n
			}
			return m.verdict(*firstSeed + i)
		})
	}
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
	for _, what := range slices.Sorted(maps.Keys(total)) {
		t.Logf("%6d %s", total[what], what)
	}
	if n < 50 {
		return // too few for everything to happen
	}
	for _, what := range []string{"replace: done", "upload: done", "deleted xorb", "deleted version", "sweep: done", "sweep: crashed, as the test wants"} {
		if total[what] == 0 {
			t.Errorf("it never came to %q", what)
		}
	}
}

// verdict returns what is wrong with a history.
func (m *model) verdict(seed uint64) error {
	if len(m.faults) == 0 {
		return nil
	}
	tail := m.log
	if !*trace {
		tail = tail[max(0, len(tail)-100):]
	}
	return fmt.Errorf("history %d:\n%s\n%s", seed, strings.Join(m.faults, "\n"), strings.Join(tail, "\n"))
}

// TestModelRules switches off one rule at a time and expects a missing object soon. It shows
// that the model finds defects. The wait of a sweeper is seldom needed and has its own test,
// TestSweepWaits.
func TestModelRules(t *testing.T) {
	if codectest.Race {
		t.Skip("takes too long")
	}
	tests := []struct {
		name                       string
		writers, repacks, sweepers rules
		pauses                     float64
		narrow                     bool
	}{
		{name: "writers do not look whether a sweep is under way", writers: rules{blind: noSweep}},
		{name: "repackers do not look whether a sweep is under way", repacks: rules{blind: noSweep}, pauses: 0.03},
		{name: "sweepers do not look what writers keep", sweepers: rules{blind: nothingKept}, pauses: 0.03},
		{name: "sweepers do not keep replaced trees of snapshots", sweepers: rules{blind: nothingReplaced}, narrow: true},
		{name: "uploads lease nothing, and commits name no xorbs", pauses: 0.03, narrow: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for seed := uint64(1); seed <= 500; seed++ {
				m := newModel(seed)
				m.writers, m.repacks, m.sweepers = tt.writers, tt.repacks, tt.sweepers
				m.stalls, m.pauses, m.narrow = 100, tt.pauses, tt.narrow
				m.play()
				if len(m.faults) > 0 {
					t.Logf("history %d: %s", seed, m.faults[0])
					return
				}
			}
			t.Error("nothing went wrong")
		})
	}
}

func noSweep(k names.Key, b []byte) ([]byte, error) {
	if k == names.SweepKey() {
		return nil, fmt.Errorf("%s: %w", k, origin.ErrNotFound)
	}
	return b, nil
}

func nothingKept(k names.Key, b []byte) ([]byte, error) {
	var st names.Sweep
	if k != names.SweepKey() || names.Decode(b, &st) != nil {
		return b, nil
	}
	st.Kept = nil
	return names.Encode(&st)
}

func nothingReplaced(k names.Key, b []byte) ([]byte, error) {
	var snap names.Snapshot
	if p, err := names.ParseKey(k); err != nil || p.Kind != names.SnapshotKind || names.Decode(b, &snap) != nil {
		return b, nil
	}
	snap.Replaced, snap.Older = nil, nil
	return names.Encode(&snap)
}

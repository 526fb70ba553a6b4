package sweep

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// Options tune a Sweep; the zero value is right.
type Options struct {
	DryRun   bool                                       // count, delete nothing, announce nothing
	Clock    func() time.Time                           // nil: time.Now
	Sleep    func(context.Context, time.Duration) error // nil: a timer; Clock must go on meanwhile
	Random   func([]byte)                               // nil: crypto/rand
	Progress func(Progress)                             // nil: not reported; one call at a time
	Logger   *slog.Logger                               // nil: nothing is logged
}

// Progress is how far a sweep or check is.
type Progress struct {
	Doing   string // "mark", "wait", "mark again", "delete", "check"
	Done    int64  // objects
	Total   int64  // 0: not known
	Waiting time.Time
}

// Counts are objects and their bytes.
type Counts struct{ Objects, Bytes int64 }

// A Report is what a Sweep found and did, by kind of key: versions, index pages, shards,
// xorbs and lists of earlier sweeps.
type Report struct {
	Live    map[names.Kind]Counts // can be reached, or must stay for what is young
	Young   map[names.Kind]Counts // cannot be reached, and is younger than the time of grace
	Garbage map[names.Kind]Counts // neither, when the sweep looked last
	Deleted map[names.Kind]Counts
	Strays  int // unfinished files that were removed, where the store has such files

	// Waiting are the objects that only the time of grace keeps: Young, and those of Live
	// that only versions deleted within that time need. WaitingUntil is the end of the time
	// of grace of the last one; it is zero if there are none.
	Waiting      Counts
	WaitingUntil time.Time

	// Usage is how much of the shards and xorbs the live versions need. It is only of a dry run.
	Usage *Usage
}

// ErrOther says that another sweep is at work, or was faster. Nothing is wrong: it does
// what was to be done.
var ErrOther = errors.New("another sweep is at work")

// Sweep deletes objects that nothing points to any more, without a lock against writers
// (catalog.md, section 11). It takes two windows of the catalog's settings, two hours by
// default, unless there is nothing to delete. It takes over and finishes an abandoned sweep.
// The store must list. If a needed reference, version, page or shard cannot be read, Sweep
// stops and deletes nothing. It does the same if a symbol without a reference has old versions.
// While another sweep is running, it returns ErrOther.
//
// Unfinished files of killed writers are removed when they are older than a day, if the store
// is an origin.StrayRemover.
func Sweep(ctx context.Context, s origin.WriteStore, pages page.Getter, o Options) (Report, error) {
	w := &sweeper{store: s, pages: pages, o: o.withDefaults()}
	if err := w.open(ctx); err != nil {
		return w.report, err
	}
	if o.DryRun {
		return w.report, w.dryRun(ctx)
	}
	if err := w.removeStrays(ctx); err != nil {
		return w.report, err
	}
	err := w.run(ctx)
	return w.report, err
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = origin.Sleep
	}
	if o.Random == nil {
		o.Random = func(b []byte) { rand.Read(b) } //nolint:errcheck // it never fails
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// A sweeper is one Sweep under way.
type sweeper struct {
	store  origin.WriteStore
	pages  page.Getter
	o      Options
	window time.Duration
	grace  time.Duration
	owner  string // of leases
	lists  []names.Key
	report Report
}

// open reads the settings of the catalog.
func (w *sweeper) open(ctx context.Context) error {
	settings := new(names.Settings)
	if _, err := catalog.ReadDocument(ctx, w.store, names.SettingsKey(), "", settings); err != nil {
		return err
	}
	w.window, w.grace = settings.Window, settings.Grace
	w.owner = "sweep " + w.randomID()[:8]
	return nil
}

func (w *sweeper) dryRun(ctx context.Context) error {
	st, _, err := w.read(ctx)
	if err != nil {
		return err
	}
	if st == nil {
		st = new(names.Sweep)
	}
	// The clock of the store cannot be read without a write.
	_, err = w.survey(ctx, "mark", w.o.Clock(), st)
	return err
}

const strayAge = 24 * time.Hour

// removeStrays removes the files of killed writers. An upload to a remote store may be completed
// within the grace period.
func (w *sweeper) removeStrays(ctx context.Context) (err error) {
	age := strayAge
	if !origin.Local(w.store) {
		age = max(age, w.grace)
	}
	if s, ok := w.store.(origin.StrayRemover); ok {
		w.report.Strays, err = s.RemoveStray(ctx, age)
	}
	return err
}

// run does the sweep, from the step on where it is.
func (w *sweeper) run(ctx context.Context) error {
	st, tag, err := w.read(ctx)
	if err == nil && st == nil {
		st, tag, err = w.announce(ctx)
	}
	since := w.o.Clock() // the announcement was there before
	switch {
	case err != nil || st == nil:
		return err
	case st.Deleting:
		return w.takeOver(ctx, st, tag)
	}
	if err := w.wait(ctx, since, 2*w.window); err != nil {
		return err
	}
	l, doomed, err := w.decide(ctx, st.ID)
	if err != nil {
		return err
	}
	return w.finish(ctx, l, doomed)
}

// wait returns when a time has passed, or an error when ctx ends. It uses the monotonic clock
// if Clock has one, which no process can set.
func (w *sweeper) wait(ctx context.Context, since time.Time, d time.Duration) error {
	for {
		now := w.o.Clock()
		left := d - now.Sub(since)
		if left <= 0 {
			return ctx.Err()
		}
		w.o.Progress(Progress{Doing: "wait", Waiting: now.Add(left)})
		if err := w.o.Sleep(ctx, left); err != nil {
			return err
		}
	}
}

// Package sweep finds what is wrong in a catalog, and deletes what nothing points to.
package sweep

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// Options tune a Sweep; the zero value is right.
type Options struct {
	DryRun   bool                                       // count, delete nothing, announce nothing
	Clock    func() time.Time                           // nil: time.Now
	Sleep    func(context.Context, time.Duration) error // nil: a timer
	Random   func([]byte)                               // nil: crypto/rand
	Progress func(Progress)                             // nil: nobody asks
	Logger   *slog.Logger
}

// Progress is how far a sweep or check is.
type Progress struct {
	Doing   string // "mark", "wait", "mark again", "delete"
	Done    int64
	Total   int64 // 0: not known
	Waiting time.Time
}

// Counts are objects and their bytes.
type Counts struct{ Objects, Bytes int64 }

// A Report is what a Sweep found and did, by kind of key.
type Report struct {
	Live, Young, Garbage, Deleted map[names.Kind]Counts
	Strays                        int // unfinished files that were removed
}

// Sweep deletes what nothing points to any more, in a way that needs no lock against
// writers (catalog.md, section 11). It takes two windows.
func Sweep(ctx context.Context, s origin.WriteStore, pages page.Getter, o Options) (Report, error) {
	return Report{}, errors.ErrUnsupported
}

// CheckOptions tune a Check.
type CheckOptions struct {
	Data     bool // read every xorb, too
	Progress func(Progress)
	Found    func(Finding)
}

// A Finding is one thing that is wrong.
type Finding struct {
	Key     names.Key // where
	Symbol  string    // and Version and Path: one of those that need it, if known
	Version uint64
	Path    string
	Err     error
	Missing bool // cannot be read, or is not there; else it is damaged
}

// A CheckReport sums up a Check.
type CheckReport struct {
	Symbols, Versions, Snapshots, Pages, Entries, Shards, Xorbs int64
	Ignored                                                     int64 // keys that do not parse
	Damaged, Missing                                            int64
}

// Check walks everything that can be reached and tells Found what is wrong, to the end.
func Check(ctx context.Context, s origin.Store, pages page.Getter, o CheckOptions) (CheckReport, error) {
	return CheckReport{}, errors.ErrUnsupported
}

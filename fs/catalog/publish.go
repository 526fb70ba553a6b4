package catalog

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/codec/page"
)

// Errors that a caller can act on.
var (
	// ErrVersion says that the newest version is not the one that was asked for.
	ErrVersion = errors.New("the newest version is another one")

	// ErrBusy says that others were faster each time.
	ErrBusy = errors.New("others published first, ten times")
)

// PublisherOptions tune a Publisher; the zero value is right.
type PublisherOptions struct {
	Settings *names.Settings                            // of a catalog that has to be made; nil: names.DefaultSettings
	Clock    func() time.Time                           // nil: time.Now
	Sleep    func(context.Context, time.Duration) error // nil: a timer
	Random   func([]byte)                               // nil: crypto/rand
	Logger   *slog.Logger                               // nil: nothing is logged
}

// A Publisher adds versions to the catalog in a store.
type Publisher struct{}

// NewPublisher opens the catalog for writing, and makes it if there is none.
func NewPublisher(ctx context.Context, s origin.WriteStore, pages page.Getter, o PublisherOptions) (*Publisher, error) {
	return nil, errors.ErrUnsupported
}

// Catalog returns the same catalog for reading.
func (p *Publisher) Catalog() *Stored { return nil }

// PublishOptions are what a new version says of itself.
type PublishOptions struct {
	IfVersion *uint64 // give up with ErrVersion if the newest live version is another one
	Writer    string
	Message   string
	Labels    map[string]string
}

// A Publishing is one publish under way. It must begin before the first look at what the
// store holds already, because a sweep waits for publishes by when they began
// (catalog.md, section 11). It is used by one goroutine, but for Known and Sink.
type Publishing struct{}

// Begin reads the state of the symbol and of the sweep: the window starts.
func (p *Publisher) Begin(ctx context.Context, symbol string, o PublishOptions) (*Publishing, error) {
	return nil, errors.ErrUnsupported
}

// Head returns the row of the newest live version when the publish began; nil if none.
func (p *Publishing) Head() *names.Row { return nil }

// Known notes which xorbs are reused, and Sink which xorbs and shards are stored now.
// The shards of entries that were not stored now count as reused.
func (p *Publishing) Known(k pack.Known) pack.Known { return k }

// Sink see Known.
func (p *Publishing) Sink(s pack.Sink) pack.Sink { return s }

// Has says whether a shard of an earlier publish is still there and may be reused: it
// rescues it from a sweep that is under way.
func (p *Publishing) Has(ctx context.Context, s codec.Hash) (bool, error) {
	return false, errors.ErrUnsupported
}

// Replace publishes a whole tree, given in the order of its keys. When another publisher
// was faster it becomes the version after that one's.
func (p *Publishing) Replace(ctx context.Context, tree iter.Seq2[page.Entry, error]) (names.Row, error) {
	return names.Row{}, errors.ErrUnsupported
}

// Update publishes the newest tree with some changes, sorted by key; a directory that is
// removed takes what is below it along, and parents that are missing are made. When
// another publisher was faster the changes are applied to its tree.
func (p *Publishing) Update(ctx context.Context, changes []page.Change) (names.Row, error) {
	return names.Row{}, errors.ErrUnsupported
}

// Again publishes a tree that is there already: from ver:HASH, or an older version.
func (p *Publishing) Again(ctx context.Context, row names.Row) (names.Row, error) {
	return names.Row{}, errors.ErrUnsupported
}

// Delete removes versions of a symbol. Their data stays for the time of grace.
func (p *Publisher) Delete(ctx context.Context, symbol string, numbers ...uint64) error {
	return errors.ErrUnsupported
}

// KeepRule says which versions a prune keeps: the newest Last, those since Since, and
// with Snapshots those that a snapshot holds. The newest live version stays always.
type KeepRule struct {
	Last      int
	Since     time.Time
	Snapshots bool
}

// Prune deletes what a rule does not keep, as one change, and returns the rows. With
// dryRun it only returns them.
func (p *Publisher) Prune(ctx context.Context, symbol string, keep KeepRule, dryRun bool) ([]names.Row, error) {
	return nil, errors.ErrUnsupported
}

// Snapshot resolves each symbol and keeps what it finds alive under a name. Without
// replace it is io/fs.ErrExist if there is a snapshot of that name.
func (p *Publisher) Snapshot(ctx context.Context, name, message string, symbols map[string]names.AsOf, replace bool) (*names.Snapshot, error) {
	return nil, errors.ErrUnsupported
}

// DeleteSnapshot deletes a snapshot, or says io/fs.ErrNotExist.
func (p *Publisher) DeleteSnapshot(ctx context.Context, name string) error {
	return errors.ErrUnsupported
}

// RebuildSymbols makes the symbol list anew from the refs, and returns how many symbols
// are live.
func (p *Publisher) RebuildSymbols(ctx context.Context) (int, error) {
	return 0, errors.ErrUnsupported
}

// RepairRef makes a lost ref anew from the versions of a symbol. If two have the highest
// seq it refuses and names both; pick, if not "", decides.
func (p *Publisher) RepairRef(ctx context.Context, symbol string, pick names.Key) (*names.Ref, error) {
	return nil, errors.ErrUnsupported
}

package catalog

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// A VersionedCatalog is a Catalog whose symbols have a history.
type VersionedCatalog interface {
	Catalog

	// Resolve returns the row of a version, or io/fs.ErrNotExist. The text of that error
	// distinguishes deleted versions from those that never existed.
	Resolve(ctx context.Context, symbol string, at names.AsOf) (names.Row, error)

	// OpenRow opens the tree of a row.
	OpenRow(ctx context.Context, symbol string, row names.Row) (Tree, error)

	// Live yields the live versions of a symbol, newest first.
	Live(ctx context.Context, symbol string) iter.Seq2[names.Row, error]

	// Latest returns the newest live version. It is one conditional read, and cheap when
	// nothing changed.
	Latest(ctx context.Context, symbol string) (names.Row, error)

	// Snapshots yields the names of the snapshots, sorted.
	Snapshots(ctx context.Context) iter.Seq2[string, error]

	// Snapshot returns a snapshot, or io/fs.ErrNotExist.
	Snapshot(ctx context.Context, name string) (*names.Snapshot, error)

	// Changes yields the entries that differ between two trees, in the order of their
	// keys; equal pages are not read.
	Changes(ctx context.Context, from, to names.Row) iter.Seq2[page.Change, error]
}

// A StoreCatalog is the catalog in a store. It is safe for concurrent use and never
// writes.
type StoreCatalog struct {
	store    origin.Store
	pages    page.Getter
	settings *names.Settings
	refs     refs
	versions versions
	identity identity
}

var _ VersionedCatalog = (*StoreCatalog)(nil)

// A settingsError reports a store that has symbols, but no settings of a catalog. It is
// codec.ErrCorrupt.
type settingsError struct{}

func (settingsError) Error() string {
	return "the settings of the catalog are missing; restore the folder cref from a copy of the store"
}

func (settingsError) Unwrap() error { return codec.ErrCorrupt }

// Exists reports whether a store has a catalog. It returns codec.ErrCorrupt for a catalog that
// has lost its settings.
func Exists(ctx context.Context, s origin.Store) (bool, error) {
	for again := false; ; again = true {
		_, err := s.Size(ctx, names.SettingsKey())
		if !errors.Is(err, origin.ErrNotFound) {
			return err == nil, err
		}
		symbols, err := hasSymbols(ctx, s)
		if err != nil || !symbols {
			return false, err
		}
		if again { // another process may create a catalog meanwhile, the settings first
			return false, settingsError{}
		}
	}
}

// hasSymbols reports whether a store has a reference to versions.
func hasSymbols(ctx context.Context, s origin.Store) (bool, error) {
	for _, err := range s.List(ctx, names.RefPrefix, "") {
		if errors.Is(err, errors.ErrUnsupported) {
			return false, nil
		}
		return err == nil, err
	}
	return false, nil
}

// Open opens the catalog in a store. It returns origin.ErrNotFound if the store has none, and
// codec.ErrCorrupt if its settings are lost or damaged.
func Open(ctx context.Context, s origin.Store, pages page.Getter) (*StoreCatalog, error) {
	var settings names.Settings
	tag, err := ReadDocument(ctx, s, names.SettingsKey(), "", &settings)
	if errors.Is(err, origin.ErrNotFound) {
		if _, lost := Exists(ctx, s); lost != nil {
			err = lost
		}
	}
	if err != nil {
		return nil, err
	}
	c := &StoreCatalog{store: s, pages: pages, settings: &settings, refs: newRefs(), versions: newVersions()}
	c.identity.tag, c.identity.checked = tag, time.Now()
	return c, nil
}

// Settings returns the settings of the catalog.
func (c *StoreCatalog) Settings() *names.Settings { return c.settings }

// Pages returns the index pages of the store, as passed to Open.
func (c *StoreCatalog) Pages() page.Getter { return c.pages }

// Open implements Catalog.
func (c *StoreCatalog) Open(ctx context.Context, symbol string, at names.AsOf) (Tree, error) {
	row, err := c.Resolve(ctx, symbol, at)
	if err != nil {
		return nil, err
	}
	return c.OpenRow(ctx, symbol, row)
}

// Changes implements VersionedCatalog.
func (c *StoreCatalog) Changes(ctx context.Context, from, to names.Row) iter.Seq2[page.Change, error] {
	changes := page.Diff(ctx, c.pages, from.Tree(), to.Tree())
	return func(yield func(page.Change, error) bool) {
		for change, err := range changes {
			if from.Pinned && change.Old != nil {
				hint(change.Old)
			}
			if to.Pinned && change.New != nil {
				hint(change.New)
			}
			if !yield(change, err) {
				return
			}
		}
	}
}

// An AbsentError is the reason why a symbol, version or snapshot does not exist. It is an
// io/fs.ErrNotExist.
type AbsentError struct {
	Kind AbsentKind
	Name string // of the symbol, also of a version; of the snapshot
	what string // that begins the text
	why  string
}

// An AbsentKind is what does not exist.
type AbsentKind uint8

// The kinds of an AbsentError. Zero is something else.
const (
	AbsentSymbol AbsentKind = iota + 1
	AbsentVersion
	AbsentSnapshot
)

func (e *AbsentError) Error() string { return e.what + ": " + e.why }

// Unwrap makes it an io/fs.ErrNotExist, without the text of that error.
func (e *AbsentError) Unwrap() error { return iofs.ErrNotExist }

func NewAbsentError(what, format string, args ...any) error {
	return &AbsentError{what: what, why: fmt.Sprintf(format, args...)}
}

func AbsentSymbolError(symbol string) error {
	return &AbsentError{Kind: AbsentSymbol, Name: symbol, what: symbol, why: "no such symbol"}
}

func absentVersionError(symbol, format string, args ...any) error {
	return &AbsentError{Kind: AbsentVersion, Name: symbol, what: symbol, why: fmt.Sprintf(format, args...)}
}

func AbsentSnapshotError(name string) error {
	return &AbsentError{Kind: AbsentSnapshot, Name: name, what: "snapshot " + name, why: "no snapshot has this name"}
}

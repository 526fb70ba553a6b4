package catalog

import (
	"context"
	"errors"
	"iter"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// A Versioned is a Catalog whose symbols have a history.
type Versioned interface {
	Catalog

	// Resolve returns the row of a version, or io/fs.ErrNotExist with a text that says
	// whether it was deleted or never existed.
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

// Stored is the catalog kept in a store. It is safe for concurrent use and never writes.
type Stored struct {
	store    origin.Store
	pages    page.Getter
	settings *names.Settings
}

var _ Versioned = (*Stored)(nil)

// Is says whether there is a catalog in a store.
func Is(ctx context.Context, s origin.Store) (bool, error) { return false, errors.ErrUnsupported }

// Open opens the catalog in a store. It is origin.ErrNotFound if there is none.
func Open(ctx context.Context, s origin.Store, pages page.Getter) (*Stored, error) {
	return nil, errors.ErrUnsupported
}

// Settings returns those the catalog was made with.
func (c *Stored) Settings() *names.Settings { return c.settings }

// Symbols implements Catalog.
func (c *Stored) Symbols(ctx context.Context) iter.Seq2[string, error] { return nil }

// Open implements Catalog. The Tree has All and Sums too, as *tree.Tree has.
func (c *Stored) Open(ctx context.Context, symbol string, at names.AsOf) (Tree, error) {
	return nil, errors.ErrUnsupported
}

// OpenRow implements Versioned.
func (c *Stored) OpenRow(ctx context.Context, symbol string, row names.Row) (Tree, error) {
	return nil, errors.ErrUnsupported
}

// Resolve implements Versioned.
func (c *Stored) Resolve(ctx context.Context, symbol string, at names.AsOf) (names.Row, error) {
	return names.Row{}, errors.ErrUnsupported
}

// Live implements Versioned.
func (c *Stored) Live(ctx context.Context, symbol string) iter.Seq2[names.Row, error] { return nil }

// Latest implements Versioned.
func (c *Stored) Latest(ctx context.Context, symbol string) (names.Row, error) {
	return names.Row{}, errors.ErrUnsupported
}

// Snapshots implements Versioned.
func (c *Stored) Snapshots(ctx context.Context) iter.Seq2[string, error] { return nil }

// Snapshot implements Versioned.
func (c *Stored) Snapshot(ctx context.Context, name string) (*names.Snapshot, error) {
	return nil, errors.ErrUnsupported
}

// Changes implements Versioned.
func (c *Stored) Changes(ctx context.Context, from, to names.Row) iter.Seq2[page.Change, error] {
	return nil
}

// History yields the changes of a symbol, newest first: publishes and deletions.
func (c *Stored) History(ctx context.Context, symbol string) iter.Seq2[*names.Version, error] {
	return nil
}

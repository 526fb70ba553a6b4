package fs

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

// A source opens the volumes of a mount.
type source struct {
	catalog     catalog.Catalog
	versioned   catalog.VersionedCatalog // the same catalog; nil: it has no versions
	at          names.AsOf
	rows        map[string]names.Row // of a snapshot, by symbol; nil: no snapshot
	follow      time.Duration        // 0: never
	followPause time.Duration
	hidden      string // directory of old versions; "": none
	log         *slog.Logger
}

func newSource(ctx context.Context, c catalog.Catalog, o Options) (*source, error) {
	s := &source{catalog: c, at: o.At, follow: o.Follow, followPause: o.followPause, log: o.Logger}
	s.versioned, _ = c.(catalog.VersionedCatalog)
	if o.VersionsDir != NoVersionsDir && s.versioned != nil {
		s.hidden = o.VersionsDir
		if !isLegalName(s.hidden) {
			return nil, fmt.Errorf("directory of versions %q: not a name", s.hidden)
		}
	}
	if o.Snapshot != "" {
		if s.versioned == nil {
			return nil, &iofs.PathError{Op: "open", Path: "snapshot " + o.Snapshot, Err: iofs.ErrNotExist}
		}
		snapshot, err := s.versioned.Snapshot(ctx, o.Snapshot)
		if err != nil {
			return nil, err
		}
		s.rows = snapshot.Rows
	}
	if s.versioned == nil || s.rows != nil {
		s.follow = 0
	}
	return s, nil
}

// openRoot returns the root volume of a mount: one symbol, or a directory per symbol if the
// catalog has named symbols and symbol is "".
func (s *source) openRoot(ctx context.Context, symbol string) (*volume, error) {
	if symbol != "" {
		return s.openSymbol(ctx, symbol)
	}
	list, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	if slices.Equal(list, []string{""}) {
		return s.openSymbol(ctx, "")
	}
	return newSymbols(s, list), nil
}

// list returns the symbols.
func (s *source) list(ctx context.Context) ([]string, error) {
	if s.rows != nil {
		return slices.Sorted(maps.Keys(s.rows)), nil
	}
	var list []string
	for symbol, err := range s.catalog.Symbols(ctx) {
		if err != nil {
			return nil, err
		}
		list = append(list, symbol)
	}
	return list, nil
}

// openSymbol returns the volume of a symbol. The caller sets its parent.
func (s *source) openSymbol(ctx context.Context, symbol string) (*volume, error) {
	t, err := s.openTree(ctx, symbol)
	if err != nil {
		return nil, err
	}
	v := &volume{symbol: symbol, label: symbolLabel(symbol), oneInode: t.OneInode(), cacheListings: true}
	v.claimer, _ = t.(catalog.Claimer)
	if s.versioned != nil {
		v.reopen = s.versioned.OpenRow
	}
	v.setTTL(s.ttl())
	if s.hidden != "" {
		v.hidden = s.hidden
		v.nested = &hiddenVersions{newVersions(s, v)}
	}
	v.setTree(t)
	return v, nil
}

func (s *source) openTree(ctx context.Context, symbol string) (catalog.Tree, error) {
	if s.rows == nil {
		return s.catalog.Open(ctx, symbol, s.at)
	}
	row, ok := s.rows[symbol]
	if !ok {
		return nil, fmt.Errorf("%s: not in the snapshot: %w", symbol, iofs.ErrNotExist)
	}
	return s.versioned.OpenRow(ctx, symbol, row)
}

// ttl returns the time for which the kernel may cache the trees of symbols.
func (s *source) ttl() time.Duration {
	if s.follow == 0 {
		return forever
	}
	return minute
}

// row returns the version of a symbol that the mount should show.
func (s *source) row(ctx context.Context, symbol string) (names.Row, error) {
	if s.at.Form == names.Latest {
		return s.versioned.Latest(ctx, symbol)
	}
	return s.versioned.Resolve(ctx, symbol, s.at)
}

// isGone reports whether a version or its symbol was deleted.
func isGone(err error) bool { return errors.Is(err, iofs.ErrNotExist) }

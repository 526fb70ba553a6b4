package signature

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// An Error reports a version without a valid signature. It is io/fs.ErrPermission.
type Error struct {
	Symbol  string
	Version names.Row
	why     error
}

func (e *Error) Error() string {
	if e.Version.Time.IsZero() {
		return fmt.Sprintf("%s: tree %v is refused: %v", e.Symbol, e.Version.Identity, e.why)
	}
	return fmt.Sprintf("%s: version %d is refused: %v", e.Symbol, e.Version.Number, e.why)
}

// Unwrap makes it io/fs.ErrPermission, without the text of that error.
func (e *Error) Unwrap() error { return iofs.ErrPermission }

// A RollbackError reports that a store offers an older newest version than one that was shown
// before. It is io/fs.ErrPermission.
type RollbackError struct {
	Symbol  string
	Offered names.Row
	Shown   Shown
	deleted bool // the store says that the version was deleted
}

func (e *RollbackError) Error() string {
	if e.Offered.Number == e.Shown.Version {
		return fmt.Sprintf("%s: rollback: version %d is from %s, and one from %s was shown before; accept a restored store once with --accept-rollback",
			e.Symbol, e.Offered.Number, timeText(e.Offered.Time), timeText(e.Shown.Time))
	}
	why := "if the store was restored from a copy"
	if e.deleted {
		why = fmt.Sprintf("the store says that version %d was deleted: if that is right", e.Shown.Version)
	}
	return fmt.Sprintf("%s: rollback: the newest signed version is %d, and version %d was shown before; %s, accept it once with --accept-rollback",
		e.Symbol, e.Offered.Number, e.Shown.Version, why)
}

// Unwrap makes it io/fs.ErrPermission, without the text of that error.
func (e *RollbackError) Unwrap() error { return iofs.ErrPermission }

// A Shown is the newest version of a symbol that was shown.
type Shown struct {
	Version uint64
	Time    time.Time
}

// A Memory has the newest version of each symbol that was shown. It is safe for concurrent use.
type Memory interface {
	// Shown returns the newest version that was shown; false: none.
	Shown(catalogID, symbol string) (Shown, bool)

	// Remember stores a version. With replace, it takes the place of a newer one.
	Remember(catalogID, symbol string, s Shown, replace bool)
}

// Options describe a Catalog.
type Options struct {
	Allowed        *Allowed
	Memory         Memory       // nil: no rollback is noticed
	AcceptRollback bool         // accept one rollback of each symbol
	Logger         *slog.Logger // gets a warning for each version that is not shown
}

// maxKnown bounds the versions whose result is cached.
const maxKnown = 4096

// A Catalog is a catalog whose versions have valid signatures. The newest version is the newest
// one with a valid signature. Any other way to name a version without one is an *Error. It is safe
// for concurrent use.
type Catalog struct {
	*catalog.StoreCatalog
	o Options

	mu       sync.Mutex
	results  *lru.Cache[signedVersion, result] // guarded by mu
	reported *lru.Cache[signedVersion, bool]   // guarded by mu
	accepted map[string]bool                   // symbols with an accepted rollback; guarded by mu
}

var (
	_ catalog.VersionedCatalog = (*Catalog)(nil)
	_ catalog.Watcher          = (*Catalog)(nil)
	_ catalog.Checker          = (*Catalog)(nil)
)

type signedVersion struct {
	symbol string
	row    names.Row
}

type result struct {
	principals string
	err        error
}

// New returns the signed versions of a catalog.
func New(c *catalog.StoreCatalog, o Options) *Catalog {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Catalog{
		StoreCatalog: c, o: o, accepted: map[string]bool{},
		results: lru.New[signedVersion, result](maxKnown, nil), reported: lru.New[signedVersion, bool](maxKnown, nil),
	}
}

// Signer returns the principals that signed a version, or an *Error.
func (c *Catalog) Signer(symbol string, row names.Row) (principals string, err error) {
	key := signedVersion{symbol, row.WithoutPlace()}
	c.mu.Lock()
	known, ok := c.results.Get(key)
	c.mu.Unlock()
	if !ok {
		var why error
		if known.principals, why = c.o.Allowed.Verify(c.Settings().ID, symbol, row); why != nil {
			known.err = &Error{symbol, row, why}
		}
		c.mu.Lock()
		known = c.results.Add(key, known, 1)
		c.mu.Unlock()
	}
	return known.principals, known.err
}

// check returns the reason why a version has no valid signature.
func (c *Catalog) check(symbol string, row names.Row) error {
	_, err := c.Signer(symbol, row)
	return err
}

// report logs once that a version is not shown.
func (c *Catalog) report(symbol string, row names.Row, err error) {
	var refused *Error
	if !errors.As(err, &refused) {
		return
	}
	key := signedVersion{symbol, row.WithoutPlace()}
	c.mu.Lock()
	_, known := c.reported.Get(key)
	if !known {
		c.reported.Add(key, true, 1)
	}
	c.mu.Unlock()
	if !known {
		c.o.Logger.Warn("a version without a valid signature is not shown", "event", "version_refused",
			"symbol", symbol, "version", row.Number, "err", refused.why)
	}
}

// Open implements catalog.Catalog.
func (c *Catalog) Open(ctx context.Context, symbol string, at names.AsOf) (catalog.Tree, error) {
	row, err := c.Resolve(ctx, symbol, at)
	if err != nil {
		return nil, err
	}
	return c.StoreCatalog.OpenRow(ctx, symbol, pinned(row))
}

// pinned returns a row whose identity proves the tree: a signature covers no hash of a page.
func pinned(row names.Row) names.Row {
	row.Pinned = true
	return row
}

// Changes implements catalog.VersionedCatalog.
func (c *Catalog) Changes(ctx context.Context, from, to names.Row) iter.Seq2[page.Change, error] {
	return c.StoreCatalog.Changes(ctx, pinned(from), pinned(to))
}

// OpenRow implements catalog.VersionedCatalog. The row may be that of a snapshot.
func (c *Catalog) OpenRow(ctx context.Context, symbol string, row names.Row) (catalog.Tree, error) {
	row, err := c.signed(ctx, symbol, row)
	if err != nil {
		c.report(symbol, row, err)
		return nil, err
	}
	return c.StoreCatalog.OpenRow(ctx, symbol, pinned(row))
}

// Latest implements catalog.VersionedCatalog.
func (c *Catalog) Latest(ctx context.Context, symbol string) (names.Row, error) {
	newest, err := c.StoreCatalog.Latest(ctx, symbol)
	if err != nil {
		return names.Row{}, err
	}
	row := newest
	if why := c.check(symbol, newest); why != nil {
		if row, err = c.newestSigned(ctx, symbol, newest, why); err != nil {
			return names.Row{}, err
		}
	}
	return row, c.remember(ctx, symbol, row, true)
}

// newestSigned returns the newest version with a valid signature. The newest one has none.
func (c *Catalog) newestSigned(ctx context.Context, symbol string, newest names.Row, why error) (names.Row, error) {
	for row, err := range c.Live(ctx, symbol) {
		if err != nil {
			return names.Row{}, err
		}
		c.report(symbol, newest, why)
		return row, nil
	}
	return names.Row{}, fmt.Errorf("%w; no older version has a valid signature", why)
}

// Live implements catalog.VersionedCatalog.
func (c *Catalog) Live(ctx context.Context, symbol string) iter.Seq2[names.Row, error] {
	return func(yield func(names.Row, error) bool) {
		for row, err := range c.StoreCatalog.Live(ctx, symbol) {
			if err == nil && c.check(symbol, row) != nil {
				continue
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// remember remembers that a version is shown. With isNewest, the store offers no newer one, and
// an older one than before is a RollbackError.
func (c *Catalog) remember(ctx context.Context, symbol string, row names.Row, isNewest bool) error {
	if c.o.Memory == nil {
		return nil
	}
	id, now := c.Settings().ID, Shown{row.Number, row.Time}
	shown, ok := c.o.Memory.Shown(id, symbol)
	accepted := false
	switch {
	case !ok, now.Version > shown.Version:
	case !isNewest, now.Version == shown.Version && now.Time.Equal(shown.Time):
		return nil
	default:
		if accepted = c.acceptOnce(symbol); !accepted {
			head, err := c.head(ctx, symbol)
			return &RollbackError{symbol, row, shown, err == nil && head.IsDeleted(shown.Version)}
		}
	}
	c.o.Memory.Remember(id, symbol, now, accepted)
	return nil
}

// head returns the newest element of the version list.
func (c *Catalog) head(ctx context.Context, symbol string) (*names.Version, error) {
	seen, err := c.ReadRef(ctx, symbol)
	if err != nil {
		return nil, err
	}
	return c.ReadVersion(ctx, seen.Ref.Head)
}

// acceptOnce reports whether a rollback of a symbol is accepted, which happens once.
func (c *Catalog) acceptOnce(symbol string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.o.AcceptRollback || c.accepted[symbol] {
		return false
	}
	c.accepted[symbol] = true
	return true
}

// Resolve implements catalog.VersionedCatalog. An age counts the versions with valid signatures.
func (c *Catalog) Resolve(ctx context.Context, symbol string, at names.AsOf) (names.Row, error) {
	switch at.Form {
	case names.Latest:
		return c.Latest(ctx, symbol)
	case names.ByAge:
		return c.byAge(ctx, symbol, at)
	case names.ByIdentity:
		return c.byIdentity(ctx, symbol, at)
	}
	row, err := c.StoreCatalog.Resolve(ctx, symbol, at)
	if err != nil {
		return names.Row{}, err
	}
	if row, err = c.signed(ctx, symbol, row); err != nil || at.Form == names.BySnapshot {
		return row, err
	}
	isNewest := false
	if at.Form == names.ByTime && c.o.Memory != nil { // the version that was shown existed at that time
		shown, ok := c.o.Memory.Shown(c.Settings().ID, symbol)
		isNewest = ok && !at.Time.Before(shown.Time)
	}
	return row, c.remember(ctx, symbol, row, isNewest)
}

// signed returns a row with a valid signature. The row of a snapshot may be older than the
// signature of its version.
func (c *Catalog) signed(ctx context.Context, symbol string, row names.Row) (names.Row, error) {
	why := c.check(symbol, row)
	if why == nil || row.Time.IsZero() {
		return row, why
	}
	live, err := c.StoreCatalog.Resolve(ctx, symbol, names.AsOf{Form: names.ByNumber, Number: row.Number})
	if err == nil && live.Unsigned().WithoutPlace() == row.Unsigned().WithoutPlace() && c.check(symbol, live) == nil {
		return live, nil
	}
	return row, why
}

// byAge returns a version by its age, 1 being the newest.
func (c *Catalog) byAge(ctx context.Context, symbol string, at names.AsOf) (names.Row, error) {
	row, err := c.Latest(ctx, symbol)
	if err != nil || at.Number == 1 {
		return row, err
	}
	count := uint64(0)
	for row, err := range c.Live(ctx, symbol) {
		if err != nil {
			return names.Row{}, err
		}
		if count++; count == at.Number {
			return row, nil
		}
	}
	return names.Row{}, catalog.NewAbsentError(symbol, "no version %v, the number of signed versions is %d", at, count)
}

// byIdentity returns a version or a row of a snapshot by its tree. Only such rows have signatures.
func (c *Catalog) byIdentity(ctx context.Context, symbol string, at names.AsOf) (names.Row, error) {
	for row, err := range c.Live(ctx, symbol) {
		switch {
		case err != nil && !errors.Is(err, iofs.ErrNotExist):
			return names.Row{}, err
		case err == nil && row.Identity == at.Identity:
			return row, nil
		}
	}
	for name, err := range c.Snapshots(ctx) {
		if errors.Is(err, errors.ErrUnsupported) {
			break
		}
		if err != nil {
			return names.Row{}, err
		}
		s, err := c.Snapshot(ctx, name)
		if err != nil {
			return names.Row{}, err
		}
		if row, ok := s.Rows[symbol]; ok && row.Identity == at.Identity && c.check(symbol, row) == nil {
			return row, nil
		}
	}
	return names.Row{}, &Error{symbol, names.Row{Identity: at.Identity}, errors.New("no version with this tree has a valid signature")}
}

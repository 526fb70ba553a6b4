package catalog

import (
	"context"
	"fmt"
	"iter"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// Latest implements VersionedCatalog.
func (c *StoreCatalog) Latest(ctx context.Context, symbol string) (names.Row, error) {
	seen, err := c.ReadRef(ctx, symbol)
	if err != nil {
		return names.Row{}, err
	}
	if seen.Ref.Latest == nil {
		return names.Row{}, absentVersionError(symbol, "all versions were deleted, or moved to another symbol")
	}
	return *seen.Ref.Latest, nil
}

// Resolve implements VersionedCatalog. The row of ver:HASH is pinned, and has neither number nor
// time.
func (c *StoreCatalog) Resolve(ctx context.Context, symbol string, at names.AsOf) (names.Row, error) {
	switch at.Form {
	case names.Latest:
		return c.Latest(ctx, symbol)
	case names.BySnapshot:
		return c.inSnapshot(ctx, symbol, at.Snapshot)
	case names.ByIdentity:
		return c.byIdentity(ctx, symbol, at)
	}
	seen, err := c.ReadRef(ctx, symbol)
	if err != nil {
		return names.Row{}, err
	}
	if latest := seen.Ref.Latest; latest != nil && isNewest(*latest, at) {
		return *latest, nil
	}
	head, err := c.ReadVersion(ctx, seen.Ref.Head)
	if err != nil {
		return names.Row{}, err
	}
	return c.find(ctx, head, at)
}

// isNewest reports whether at means the newest live version. The version list is then not
// read, and need not be sound.
func isNewest(latest names.Row, at names.AsOf) bool {
	switch at.Form {
	case names.ByNumber:
		return latest.Number == at.Number
	case names.ByAge:
		return at.Number == 1
	case names.ByTime:
		return !latest.Time.After(at.Time)
	}
	return false
}

func (c *StoreCatalog) inSnapshot(ctx context.Context, symbol, name string) (names.Row, error) {
	s, err := c.Snapshot(ctx, name)
	if err != nil {
		return names.Row{}, err
	}
	row, ok := s.Rows[symbol]
	if !ok {
		return names.Row{}, absentVersionError(symbol, "not in snapshot %s", name)
	}
	return row, nil
}

// find searches the live versions.
func (c *StoreCatalog) find(ctx context.Context, head *names.Version, at names.AsOf) (names.Row, error) {
	if at.Form == names.ByNumber {
		if err := CheckLive(head, at.Number); err != nil {
			return names.Row{}, err
		}
	}
	live := uint64(0)
	for row, err := range c.LiveFrom(ctx, head) {
		if err != nil {
			return names.Row{}, err
		}
		live++
		switch {
		case at.Form == names.ByNumber && row.Number == at.Number,
			at.Form == names.ByAge && live == at.Number,
			at.Form == names.ByTime && !row.Time.After(at.Time):
			return row, nil
		}
	}
	switch at.Form {
	case names.ByNumber:
		return names.Row{}, fmt.Errorf("%s: %w", head.Symbol, codec.Corrupt("version list", 0, "version %d is in none of its rows", at.Number))
	case names.ByAge:
		return names.Row{}, absentVersionError(head.Symbol, "no version %v, the number of live versions is %d", at, live)
	case names.ByTime:
		return names.Row{}, absentVersionError(head.Symbol, "no live version is from %v or before", at)
	}
	return names.Row{}, fmt.Errorf("%s: version of unknown form %d", head.Symbol, at.Form)
}

// CheckLive returns the reason why a version is not live; nil if it is live or unknown.
func CheckLive(head *names.Version, number uint64) error {
	if number > head.Number {
		return absentVersionError(head.Symbol, "version %d never existed, the highest is %d", number, head.Number)
	}
	if d, gone := head.Deletion(number); gone && d.Seq != 0 {
		return absentVersionError(head.Symbol, "version %d was deleted, by change %d", number, d.Seq)
	} else if gone {
		return absentVersionError(head.Symbol, "version %d was deleted long ago", number)
	}
	return nil
}

// LiveFrom yields the live versions below a head, newest first. The head decides: older
// elements may have rows that were deleted later.
func (c *StoreCatalog) LiveFrom(ctx context.Context, head *names.Version) iter.Seq2[names.Row, error] {
	return func(yield func(names.Row, error) bool) {
		for v := head; ; {
			for _, row := range v.Rows {
				if !head.IsDeleted(row.Number) && !yield(row, nil) {
					return
				}
			}
			if v.Next == "" {
				return
			}
			next, err := c.ReadVersion(ctx, v.Next)
			if err != nil {
				yield(names.Row{}, fmt.Errorf("%s: older versions: %w", head.Symbol, err))
				return
			}
			v = next
		}
	}
}

// Live implements VersionedCatalog.
func (c *StoreCatalog) Live(ctx context.Context, symbol string) iter.Seq2[names.Row, error] {
	return func(yield func(names.Row, error) bool) {
		head, err := c.readHead(ctx, symbol)
		if err != nil {
			yield(names.Row{}, err)
			return
		}
		c.LiveFrom(ctx, head)(yield)
	}
}

// current returns a change with the current row of its version. Moved has the rows of younger
// repacks; current adds those of v.
func current(v *names.Version, moved map[uint64]names.Row) *names.Version {
	if v.Kind == names.Repack {
		for _, row := range v.Rows {
			if _, ok := moved[row.Number]; !ok {
				moved[row.Number] = row
			}
		}
	}
	row, ok := moved[v.Number]
	if !ok || v.Kind != names.Write || v.Rows[0].Root == row.Root {
		return v
	}
	now := *v
	now.Rows = append([]names.Row{row}, v.Rows[1:]...)
	return &now
}

// readHead returns the newest element of the version list of a symbol.
func (c *StoreCatalog) readHead(ctx context.Context, symbol string) (*names.Version, error) {
	seen, err := c.ReadRef(ctx, symbol)
	if err != nil {
		return nil, err
	}
	return c.ReadVersion(ctx, seen.Ref.Head)
}

// History yields the changes of a symbol, newest first: publishes, deletions, signatures and
// repacks. The first row of a publish is the current one: that of the last repack, if there was
// one. The changes must not be changed.
func (c *StoreCatalog) History(ctx context.Context, symbol string) iter.Seq2[*names.Version, error] {
	return func(yield func(*names.Version, error) bool) {
		v, err := c.readHead(ctx, symbol)
		moved := map[uint64]names.Row{} // by repacks
		for err == nil && yield(current(v, moved), nil) {
			if v.Parent == "" {
				return
			}
			v, err = c.ReadVersion(ctx, v.Parent)
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

package writer

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

// Delete removes versions of a symbol. Their data stays for the grace period. If one of
// them is not live, Delete removes none and returns io/fs.ErrNotExist.
func (w *Writer) Delete(ctx context.Context, symbol string, numbers ...uint64) error {
	if len(numbers) == 0 {
		return errors.New("no version to delete")
	}
	sg, st, err := w.begin(ctx, symbol)
	if err != nil {
		return err
	}
	_, err = w.commit(ctx, st, sg, func(_ context.Context, st *state) (*change, error) {
		if st.head == nil {
			return nil, catalog.AbsentSymbolError(symbol)
		}
		for _, n := range numbers {
			if err := catalog.CheckLive(st.head, n); err != nil {
				return nil, err
			}
		}
		return &change{deleted: numbers}, nil
	})
	return err
}

// DeleteAll removes all live versions of a symbol as one change. Their data stays for the grace
// period. It returns io/fs.ErrNotExist if no version is live, and ErrVersion if the newest one is
// not ifVersion; nil: any.
func (w *Writer) DeleteAll(ctx context.Context, symbol string, ifVersion *uint64) error {
	sg, st, err := w.begin(ctx, symbol)
	if err != nil {
		return err
	}
	_, err = w.commit(ctx, st, sg, func(ctx context.Context, st *state) (*change, error) {
		if st.latest() == nil {
			return nil, catalog.AbsentSymbolError(symbol)
		}
		if err := st.checkVersion(ifVersion); err != nil {
			return nil, err
		}
		c := new(change)
		for row, err := range w.catalog.LiveFrom(ctx, st.head) {
			if err != nil {
				return nil, err
			}
			c.deleted = append(c.deleted, row.Number)
		}
		return c, nil
	})
	return err
}

// A KeepRule selects the versions that a prune keeps: the newest Last, those since Since,
// and with Snapshots those in a snapshot. The newest live version always stays.
type KeepRule struct {
	Last      int
	Since     time.Time // zero: no limit
	Snapshots bool
}

// keeps reports whether a version stays. The argument newer is the number of newer live
// versions.
func (k *KeepRule) keeps(row names.Row, newer int) bool {
	return newer < max(1, k.Last) || !k.Since.IsZero() && !row.Time.Before(k.Since)
}

// Prune deletes the versions that a rule does not keep, as one change. It returns their
// rows, newest first. With dryRun, it only returns the rows. It refuses a rule without Last and Since.
func (w *Writer) Prune(ctx context.Context, symbol string, keep KeepRule, dryRun bool) ([]names.Row, error) {
	if keep.Last < 1 && keep.Since.IsZero() {
		return nil, errors.New("the rule has neither a number of versions nor a time")
	}
	sg, st, err := w.begin(ctx, symbol)
	if err != nil {
		return nil, err
	}
	held := map[uint64]bool{}
	if keep.Snapshots {
		if held, err = w.versionsInSnapshots(ctx, symbol); err != nil {
			return nil, err
		}
	}
	var rows []names.Row
	_, err = w.commit(ctx, st, sg, func(ctx context.Context, st *state) (*change, error) {
		if st.head == nil {
			return nil, catalog.AbsentSymbolError(symbol)
		}
		rows = nil
		c, newer := new(change), 0
		for row, err := range w.catalog.LiveFrom(ctx, st.head) {
			if err != nil {
				return nil, err
			}
			if !keep.keeps(row, newer) && !held[row.Number] {
				rows = append(rows, row)
				c.deleted = append(c.deleted, row.Number)
			}
			newer++
		}
		if dryRun || len(rows) == 0 {
			return nil, nil //nolint:nilnil // nothing to do
		}
		return c, nil
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// versionsInSnapshots returns the versions of a symbol that are in snapshots.
func (w *Writer) versionsInSnapshots(ctx context.Context, symbol string) (map[uint64]bool, error) {
	held := map[uint64]bool{}
	for name, err := range w.catalog.Snapshots(ctx) {
		if err != nil {
			return nil, err
		}
		s, err := w.catalog.Snapshot(ctx, name)
		if err != nil {
			return nil, err
		}
		if row, ok := s.Rows[symbol]; ok {
			held[row.Number] = true
		}
	}
	return held, nil
}

// manyIntervals bounds the deleted intervals of an element. Beyond it, old intervals are
// merged, for which the versions of the symbol must be listed.
const manyIntervals = 256

// forget marks deletions older than four grace periods as "long ago". The clock of the
// store decides.
func (w *Writer) forget(ctx context.Context, v *names.Version) {
	newest := map[uint64]time.Time{} // element of a seq → when it was put
	var now time.Time
	for item, err := range w.store.List(ctx, names.VersionsPrefix(v.Symbol), "") {
		if err != nil {
			return // the next deletion tries again
		}
		if k, err := names.ParseKey(item.Key); err == nil {
			newest[k.Seq] = latest(newest[k.Seq], item.Modified)
			now = latest(now, item.Modified)
		}
	}
	young := uint64(math.MaxUint64)
	for seq, t := range newest {
		if now.Sub(t) < 4*w.catalog.Settings().Grace {
			young = min(young, seq)
		}
	}
	if young != math.MaxUint64 && young > 0 {
		v.Forget(young - 1)
	}
}

func latest(a, b time.Time) time.Time { return slices.MaxFunc([]time.Time{a, b}, time.Time.Compare) }

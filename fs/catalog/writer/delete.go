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

// Delete removes versions of a symbol. Their data stays for the time of grace. If one of
// them is not live none is removed, and the error is io/fs.ErrNotExist.
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

// KeepRule says which versions a prune keeps: the newest Last, those since Since, and
// with Snapshots those that a snapshot holds. The newest live version stays always.
type KeepRule struct {
	Last      int
	Since     time.Time // zero: no version is kept for its time
	Snapshots bool
}

// keeps says whether a version stays of which so many live ones are newer.
func (k *KeepRule) keeps(row names.Row, newer int) bool {
	return newer < max(1, k.Last) || !k.Since.IsZero() && !row.Time.Before(k.Since)
}

// Prune deletes what a rule does not keep, as one change, and returns the rows, newest
// first. With dryRun it only returns them.
func (w *Writer) Prune(ctx context.Context, symbol string, keep KeepRule, dryRun bool) ([]names.Row, error) {
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
			return nil, nil //nolint:nilnil // there is nothing to do
		}
		return c, nil
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// versionsInSnapshots returns the versions of a symbol that snapshots hold.
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

// manyIntervals is how many deleted intervals an element may have before those that are
// long ago are put together, for which the versions of the symbol must be listed.
const manyIntervals = 256

// forget makes deletions that are four times the time of grace ago "long ago". The ages
// are told by the store's clock.
func (w *Writer) forget(ctx context.Context, v *names.Version) {
	newest := map[uint64]time.Time{} // element of a seq → when it was put
	var now time.Time
	for item, err := range w.store.List(ctx, names.VersionsPrefix(v.Symbol), "") {
		if err != nil {
			return // the next deletion does it
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

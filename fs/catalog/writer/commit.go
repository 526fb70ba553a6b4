package writer

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// A state is what one reading found of a symbol.
type state struct {
	symbol string
	ref    *names.Ref // nil: the symbol does not exist
	tag    origin.Tag
	head   *names.Version // nil: the symbol does not exist
}

// latest returns the newest live version; nil if no version is live.
func (s *state) latest() *names.Row {
	if s.ref == nil {
		return nil
	}
	return s.ref.Latest
}

// load reads the state of a symbol. An unreadable newest element is an error: no change
// can follow it.
func (w *Writer) load(ctx context.Context, symbol string) (*state, error) {
	if err := names.CheckSymbol(symbol); err != nil {
		return nil, err
	}
	seen, err := w.catalog.ReadRef(ctx, symbol)
	if errors.Is(err, iofs.ErrNotExist) {
		return &state{symbol: symbol}, nil
	}
	if err != nil {
		return nil, err
	}
	head, err := w.catalog.ReadVersion(ctx, seen.Ref.Head)
	if err != nil {
		return nil, fmt.Errorf("%s: nothing can follow its newest version: %w", symbol, err)
	}
	return &state{symbol, seen.Ref, seen.Tag, head}, nil
}

// A change describes the next element of a version list.
type change struct {
	add     *names.Row  // of a publish, without number and time
	sign    SignFunc    // signs add; nil: no signature
	deleted []uint64    // of a deletion
	signed  *signedRows // of a signature for an existing version
	moved   []names.Row // of a repack: all live versions, newest first
	writer  string
	message string
	labels  map[string]string
}

// kind returns the kind of the element.
func (c *change) kind() names.ChangeKind {
	switch {
	case c.add != nil:
		return names.Write
	case c.signed != nil:
		return names.Sign
	case c.moved != nil:
		return names.Repack
	}
	return names.Delete
}

// errOvertaken reports that another change happened first.
var errOvertaken = errors.New("another change was faster")

// commit makes a change to a symbol. It calls plan with the current state, and again after
// each change of another writer. A nil change means that nothing is to be done.
func (w *Writer) commit(ctx context.Context, st *state, sg *sweepGuard, plan func(context.Context, *state) (*change, error)) (*names.Version, error) {
	symbol := st.symbol
	for try := 1; ; try++ {
		c, err := plan(ctx, st)
		if c == nil || err != nil {
			return nil, err
		}
		v, ref, err := w.appendVersion(ctx, st, sg, c)
		if err == nil {
			w.postCommit(ctx, st, v, ref)
			return v, nil
		}
		if !errors.Is(err, errOvertaken) {
			return nil, fmt.Errorf("%s: %w", symbol, err)
		}
		if try == maxTries {
			why := ErrBusy
			if errors.Is(err, ErrSlow) {
				why = ErrSlow
			}
			return nil, fmt.Errorf("%s: %w", symbol, why)
		}
		if err := w.pause(ctx, try); err != nil {
			return nil, err
		}
		if st, err = w.load(ctx, symbol); err != nil {
			return nil, err
		}
	}
}

// appendVersion stores the element that follows a state and makes it the head. Each object
// is durable before an object that refers to it is stored.
func (w *Writer) appendVersion(ctx context.Context, st *state, sg *sweepGuard, c *change) (*names.Version, *names.Ref, error) {
	v, err := w.element(ctx, st, c)
	if err != nil {
		return nil, nil, err
	}
	value, err := names.Encode(v)
	if errors.As(err, new(*names.SizeError)) && len(v.Rows) > w.catalog.Settings().Block {
		err = fmt.Errorf("%w: %d versions do not fit into one change; delete old versions first (xetfs prune)", err, len(v.Rows))
	}
	if err != nil {
		return nil, nil, err
	}
	ref := &names.Ref{Symbol: st.symbol, Seq: v.Seq, Head: names.VersionKey(v, value)}
	if ref.Latest, err = w.newest(ctx, v); err != nil {
		return nil, nil, err
	}
	if st.latest() == nil && ref.Latest != nil {
		added := names.Symbol{Name: st.symbol, Seq: v.Seq, Time: v.Time}
		if err := w.put(ctx, names.SymbolKey(added), nil); err != nil {
			return nil, nil, err
		}
	}
	if err := w.store.Sync(ctx); err != nil {
		return nil, nil, err
	}
	if err := w.put(ctx, ref.Head, value); err != nil {
		return nil, nil, err
	}
	if err := w.store.Sync(ctx); err != nil {
		return nil, nil, err
	}
	late, err := sg.renew(ctx)
	if err == nil && late {
		err = errors.Join(errOvertaken, ErrSlow) // the element and its entry in the symbol list may be deleted
	}
	if err != nil {
		return nil, nil, err
	}
	return v, ref, w.swap(ctx, st, ref)
}

// element returns the element that follows a state.
func (w *Writer) element(ctx context.Context, st *state, c *change) (*names.Version, error) {
	v := &names.Version{
		Symbol: st.symbol, Kind: c.kind(), Seq: 1, Time: w.now(), TxID: w.id(),
		Writer: c.writer, Message: c.message, Labels: c.labels,
	}
	parent := names.Key("")
	if st.head != nil {
		parent = st.ref.Head
		v.Seq, v.Number = st.head.Seq+1, st.head.Number
		if !v.Time.After(st.head.Time) {
			v.Time = st.head.Time.Add(time.Nanosecond)
		}
		if c.add != nil {
			v.Number++
		}
	}
	if c.add != nil {
		c.add.Number, c.add.Time = v.Number, v.Time
		if c.sign != nil {
			var err error
			if c.add.Sig, err = c.sign(ctx, w.catalog.Settings().ID, st.symbol, *c.add); err != nil {
				return nil, fmt.Errorf("sign version %d: %w", v.Number, err)
			}
		}
	}
	if c.signed != nil {
		v.FollowSigned(st.head, parent, c.signed.number, c.signed.rows, c.signed.next)
		return v, nil
	}
	v.Follow(st.head, parent, c.add, c.deleted, w.catalog.Settings().Block)
	if v.Kind == names.Repack {
		v.Rows, v.Next, v.Repacked = c.moved, "", v.Seq
	}
	if v.Kind == names.Delete && len(v.Deleted) > manyIntervals { // the others add none
		w.forget(ctx, v)
	}
	return v, nil
}

// newest returns the newest live row of an element that becomes the head.
func (w *Writer) newest(ctx context.Context, v *names.Version) (*names.Row, error) {
	for row, err := range w.catalog.LiveFrom(ctx, v) {
		if err != nil {
			return nil, err
		}
		return &row, nil
	}
	return nil, nil //nolint:nilnil // all versions are deleted
}

// swap replaces the ref of the symbol in st by ref. The change happens at this moment.
// swap returns errOvertaken if another change happened first.
func (w *Writer) swap(ctx context.Context, st *state, ref *names.Ref) error {
	value, err := names.Encode(ref)
	if err != nil {
		return err
	}
	unknown := false // whether a try may have succeeded
	for try := 1; ; try++ {
		err := w.swapOnce(ctx, st, value)
		if err == nil {
			return w.syncNew(ctx, st)
		}
		lost := errors.Is(err, origin.ErrConflict) || errors.Is(err, origin.ErrExists) || errors.Is(err, origin.ErrNotFound)
		unknown = unknown || errors.Is(err, origin.ErrUnknown)
		switch {
		case !lost && !unknown:
			return err
		case try == maxTries:
			return orUnknown(unknown, err)
		}
		same, won, readErr := w.readBack(ctx, st, ref, unknown)
		switch {
		case readErr != nil:
			return orUnknown(unknown, readErr)
		case won:
			return w.syncNew(ctx, st)
		case lost || !same:
			return errOvertaken
		}
		if err := w.pause(ctx, try); err != nil {
			return orUnknown(unknown, err)
		}
	}
}

// swapOnce is one try of swap.
func (w *Writer) swapOnce(ctx context.Context, st *state, value []byte) error {
	k := names.RefKey(st.symbol)
	return w.timed(ctx, func(ctx context.Context) (err error) {
		if st.ref == nil {
			_, err = w.store.PutIfAbsent(ctx, k, value)
		} else {
			_, err = w.store.PutIfMatch(ctx, k, value, st.tag)
		}
		return err
	})
}

// timed runs a change that must happen within the window. It gives up after a quarter of
// the window, and the change may then have happened.
func (w *Writer) timed(ctx context.Context, change func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, w.catalog.Settings().Window/4)
	defer cancel()
	err := change(ctx)
	if err != nil && ctx.Err() != nil {
		return orUnknown(true, err)
	}
	return err
}

// syncNew makes the ref of a new symbol durable. PutIfMatch is durable without it.
func (w *Writer) syncNew(ctx context.Context, st *state) error {
	if st.ref != nil {
		return nil
	}
	err := w.store.Sync(ctx)
	return orUnknown(err != nil, err)
}

// orUnknown adds ErrUnknown to an error if the change may have happened.
func orUnknown(unknown bool, err error) error {
	if !unknown || errors.Is(err, origin.ErrUnknown) {
		return err
	}
	return fmt.Errorf("%w: %w", origin.ErrUnknown, err)
}

// readBack returns the outcome of a swap: the ref is still the same, or it leads to the
// change. The txid makes each change unique. With deep, the change may be far down the
// list, because others followed; that costs one read for each of them.
func (w *Writer) readBack(ctx context.Context, st *state, ref *names.Ref, deep bool) (same, won bool, err error) {
	now, err := w.catalog.ReadRef(ctx, st.symbol)
	if errors.Is(err, iofs.ErrNotExist) {
		return st.ref == nil, false, nil
	}
	if err != nil {
		return false, false, err
	}
	if st.ref != nil && now.Tag == st.tag {
		return true, false, nil
	}
	k := now.Ref.Head
	for deep && k != ref.Head && k != "" {
		v, err := w.catalog.ReadVersion(ctx, k)
		if err != nil {
			return false, false, err
		}
		if v.Seq <= ref.Seq {
			break
		}
		k = v.Parent
	}
	return false, k == ref.Head, nil
}

// postCommit updates the symbol list. The change has happened, so an error is only logged.
func (w *Writer) postCommit(ctx context.Context, st *state, v *names.Version, ref *names.Ref) {
	if (st.latest() == nil) == (ref.Latest == nil) {
		return
	}
	var err error
	if ref.Latest == nil {
		gone := names.Symbol{Name: v.Symbol, Seq: v.Seq, Time: v.Time, Gone: true}
		err = w.put(ctx, names.SymbolKey(gone), nil)
	}
	if err == nil {
		err = w.maybeCompact(ctx)
	}
	if err != nil {
		w.o.Logger.Warn("the symbol list is behind", "event", "symbol_list", "symbol", v.Symbol, "err", err)
	}
}

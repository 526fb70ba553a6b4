package writer

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog/tree"
)

// PublishOptions describe a new version.
type PublishOptions struct {
	IfVersion *uint64 // return ErrVersion if the newest live version is another one
	IfNone    bool    // return ErrVersion if a version is live
	Writer    string
	Message   string
	Labels    map[string]string // Replace reads them after its entries
	Verify    bool              // read all pages of the newest tree, and store damaged ones again
	Sign      SignFunc          // nil: the version has no signature
	Nested    bool              // allow a symbol that another hides, or that hides others: NestedError
}

// A Session is one publish. It must begin before the first lookup in the store, because a
// sweep waits for publishes by their start (catalog.md, section 11). One goroutine uses
// it, except for Known and Sink.
type Session struct {
	w     *Writer
	o     PublishOptions
	st    *state
	guard *sweepGuard
	reuse reuseTracker
}

// Begin reads the state of the symbol and of the sweep. The window of the sweep guard
// begins. The lookups of Known use the same context.
func (w *Writer) Begin(ctx context.Context, symbol string, o PublishOptions) (*Session, error) {
	sg, st, err := w.begin(ctx, symbol)
	if err != nil {
		return nil, err
	}
	b := &Session{w: w, o: o, st: st, guard: sg}
	b.reuse.init(ctx, w.store, sg)
	if err := b.checkVersion(st); err != nil {
		return nil, err
	}
	if !o.Nested {
		if err := w.catalog.CheckNested(ctx, symbol); err != nil {
			return nil, fmt.Errorf("%s: %w", symbol, err)
		}
	}
	return b, b.checkTexts()
}

// begin reads the state of the sweep, then that of a symbol.
func (w *Writer) begin(ctx context.Context, symbol string) (*sweepGuard, *state, error) {
	sg, err := w.openSweepGuard(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("state of the sweep: %w", err)
	}
	st, err := w.load(ctx, symbol)
	return sg, st, err
}

// checkTexts refuses invalid texts early: the version is encoded at the end.
func (s *Session) checkTexts() error {
	row := names.Row{Time: s.w.now(), Root: page.Hash{1}, Identity: page.Identity{1}}
	v, err := s.w.element(context.Background(), &state{symbol: s.st.symbol}, &change{
		add: &row, writer: s.o.Writer, message: s.o.Message, labels: s.o.Labels,
	})
	if err == nil {
		_, err = names.Encode(v)
	}
	return err
}

// Head returns the newest live version at the start of the publish; nil if no version is
// live.
func (s *Session) Head() *names.Row { return s.st.latest() }

// Repacked reports whether the symbol was repacked. Places of files that are known from an
// earlier publish may then be old.
func (s *Session) Repacked() bool { return s.st.head != nil && s.st.head.Repacked > 0 }

// Has reports whether a shard of an earlier publish exists and may be reused. It rescues
// the shard from a sweep that is under way.
func (s *Session) Has(ctx context.Context, h codec.Hash) (bool, error) {
	return s.reuse.hasShard(ctx, h)
}

// checkVersion compares a state with IfVersion and IfNone.
func (s *Session) checkVersion(st *state) error {
	if latest := st.latest(); s.o.IfNone && latest != nil {
		return fmt.Errorf("%s: %w: %d, not none", st.symbol, ErrVersion, latest.Number)
	}
	return st.checkVersion(s.o.IfVersion)
}

// checkVersion returns ErrVersion if the newest live version is not want; nil: any.
func (s *state) checkVersion(want *uint64) error {
	switch latest := s.latest(); {
	case want == nil || latest != nil && latest.Number == *want:
		return nil
	case latest == nil:
		return fmt.Errorf("%s: %w: none, not %d", s.symbol, ErrVersion, *want)
	default:
		return fmt.Errorf("%s: %w: %d, not %d", s.symbol, ErrVersion, latest.Number, *want)
	}
}

// Replace publishes a whole tree. Its entries are in the order of their keys, with an
// entry for each directory, the root included. If another publish was faster, the new
// version follows that one.
func (s *Session) Replace(ctx context.Context, entries iter.Seq2[page.Entry, error]) (names.Row, error) {
	root, err := s.build(ctx, entries)
	if err != nil {
		return names.Row{}, fmt.Errorf("%s: %w", s.st.symbol, err)
	}
	return s.commit(ctx, func(context.Context, *state) (page.Link, error) { return root, nil })
}

// ErrSame reports that a tree is that of the newest version.
var ErrSame = errors.New("the tree is the same")

// ReplaceChanged is Replace for a tree that differs from the newest one. Otherwise it
// returns ErrSame, and stores missing and damaged pages of the tree again. A tree whose content
// is at other places is the same, unless content of the newest tree is lost.
func (s *Session) ReplaceChanged(ctx context.Context, entries iter.Seq2[page.Entry, error]) (names.Row, error) {
	root, err := s.build(ctx, entries)
	if err != nil {
		return names.Row{}, fmt.Errorf("%s: %w", s.st.symbol, err)
	}
	same, err := s.isSame(ctx, root)
	if err != nil {
		return names.Row{}, fmt.Errorf("%s: %w", s.st.symbol, err)
	}
	if same {
		if err := s.w.store.Sync(ctx); err != nil {
			return names.Row{}, err
		}
		return names.Row{}, ErrSame
	}
	return s.commit(ctx, func(context.Context, *state) (page.Link, error) { return root, nil })
}

// isSame reports whether a tree is the newest one.
func (s *Session) isSame(ctx context.Context, root page.Link) (bool, error) {
	latest := s.st.latest()
	if latest == nil || latest.Identity != root.Identity {
		return false, nil
	}
	if latest.Root == root.Page {
		return true, nil
	}
	if s.o.Verify {
		return false, nil // content that is at another place now may have been damaged
	}
	left, err := s.leftShards(ctx, latest.Root, root.Page)
	var missing []names.Key
	if err == nil {
		missing, err = s.Missing(ctx, left)
	}
	if errors.Is(err, codec.ErrCorrupt) || errors.Is(err, origin.ErrNotFound) {
		return false, nil
	}
	return len(missing) == 0, err
}

// build stores the pages of a whole tree, except those that the newest tree has.
func (s *Session) build(ctx context.Context, entries iter.Seq2[page.Entry, error]) (page.Link, error) {
	pages := s.newPagePutter(ctx)
	if latest := s.st.latest(); latest != nil {
		pages.skip = s.w.pagesOf(ctx, latest.Root, s.o.Verify)
	}
	root, err := tree.Build(ctx, s.w.catalog.Settings().Page, s.checked(ctx, entries), pages.put)
	return root, pages.finish(err)
}

// Republish publishes an existing tree: that of ver:HASH, or of an older version.
func (s *Session) Republish(ctx context.Context, row names.Row) (names.Row, error) {
	return s.commit(ctx, func(ctx context.Context, st *state) (page.Link, error) { return s.linkOf(ctx, st, row) })
}

// commit makes a tree the next version. It calls plan again if the newest tree has
// changed.
func (s *Session) commit(ctx context.Context, plan func(context.Context, *state) (page.Link, error)) (names.Row, error) {
	st, err := s.w.load(ctx, s.st.symbol) // a long time may have passed
	if err != nil {
		return names.Row{}, err
	}
	first := false // no version was live before
	v, err := s.w.commit(ctx, st, s.guard, func(ctx context.Context, st *state) (*change, error) {
		if err := s.checkVersion(st); err != nil {
			return nil, err
		}
		first = st.latest() == nil
		if first && !s.o.Nested {
			if err := s.w.catalog.FindNested(ctx, st.symbol); err != nil {
				return nil, fmt.Errorf("%s: %w", st.symbol, err)
			}
		}
		root, err := plan(ctx, st)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", st.symbol, err)
		}
		return &change{
			add:    &names.Row{Root: root.Page, Identity: root.Identity, Entries: root.Entries, Bytes: root.Bytes},
			sign:   s.o.Sign,
			writer: s.o.Writer, message: s.o.Message, labels: s.o.Labels,
		}, nil
	})
	if err != nil {
		return names.Row{}, err
	}
	if first && !s.o.Nested {
		if err := s.w.yieldNested(ctx, v); err != nil {
			return names.Row{}, err
		}
	}
	return v.Rows[0], nil
}

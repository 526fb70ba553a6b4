package commits

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/xetfs/xetfs/cache/origin/hub"
	"github.com/xetfs/xetfs/cache/origin/hub/hubserve"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// LabelDigest is the label with the digest of a commit, 32 hex digits.
const LabelDigest = "hub_commit"

// errMade ends a plan: the commit is a version already.
type errMade struct{ id string }

func (*errMade) Error() string { return "the commit exists" }

// errDoubt ends a plan that makes no version. The cause may be that the commit was made before, and
// other commits followed. The search for it needs no lock, because the history behind a head never
// changes.
type errDoubt struct {
	past   history
	end    func(*names.Version) bool // of the search; nil: never
	err    error                     // if the commit was not made; nil: it has no changes
	newest string                    // ID of the newest version
}

func (*errDoubt) Error() string { return "the commit may exist" }

// Commit makes a version of a commit and returns its ID. The version exists already if it is the
// same commit. A commit without changes returns the ID of the newest version.
func (m *Maker) Commit(ctx context.Context, r *Request) (id string, err error) {
	message := r.Commit.Title
	if d := strings.TrimSpace(r.Commit.Description); d != "" {
		message += "\n\n" + d
	}
	s, err := m.o.Writer.Begin(ctx, r.Symbol, writer.PublishOptions{Writer: r.Author, Message: message, Nested: true})
	if err != nil {
		return "", explained(err)
	}
	b := s.Base()
	if b.Latest == nil {
		return "", hub.ErrRepoNotFound
	}
	past := history{m: m, head: b.Head, latest: *b.Latest}
	newest, err := past.newest(ctx) // deleted versions may hide it: the plan finds all in memory
	if err != nil {
		return "", err
	}
	if m.isStale(r, newest) {
		return m.findStale(ctx, r, past, newest)
	}
	tree, err := m.o.Writer.Catalog().OpenRow(ctx, r.Symbol, *b.Latest)
	if err != nil {
		return "", err
	}
	st, err := m.read(ctx, r, tree)
	if err != nil {
		return "", err
	}
	row, labels, err := m.update(ctx, st, s)
	var made *errMade
	var doubt *errDoubt
	switch {
	case errors.As(err, &made):
		return made.id, nil
	case errors.As(err, &doubt):
		return m.settle(ctx, doubt)
	case errors.Is(err, writer.ErrSame):
		return st.newest, nil
	case err != nil:
		return "", explained(err)
	}
	return m.o.ID(&names.Version{Rows: []names.Row{row}, Labels: labels}), nil
}

// update publishes a commit while no other commit of the symbol is planned.
func (m *Maker) update(ctx context.Context, st *stage, s *writer.Session) (row names.Row, labels map[string]string, err error) {
	unlock, err := m.lock(ctx, st.r.Symbol)
	if err != nil {
		return row, nil, err
	}
	defer unlock()
	if err := st.protect(ctx, s); err != nil {
		return row, nil, err
	}
	labels = map[string]string{LabelDigest: st.digest.text()}
	row, err = s.UpdateWith(ctx, func(ctx context.Context, b writer.Base) ([]page.Change, map[string]string, error) {
		changes, err := m.plan(ctx, st, b)
		return changes, labels, err
	})
	return row, labels, err
}

// settle returns the ID of the commit if it was made before, or else the result of its plan.
func (m *Maker) settle(ctx context.Context, d *errDoubt) (id string, err error) {
	v, err := d.past.find(ctx, d.end)
	switch {
	case err != nil:
		return "", err
	case v != nil:
		return m.o.ID(v), nil
	case d.err != nil:
		return "", explained(d.err)
	}
	return d.newest, nil
}

// findStale returns the ID of a commit with an old parent if it was made before, or a refusal. It
// stores nothing.
func (m *Maker) findStale(ctx context.Context, r *Request, past history, newest *names.Version) (id string, err error) {
	d := newDigest(r)
	for op, err := range r.Commit.Operations {
		if err != nil {
			return "", err
		}
		d.add(&op)
	}
	past.digest = d.text()
	return m.settle(ctx, m.staleDoubt(r, past, newest))
}

// plan returns the changes of a commit to the newest tree.
func (m *Maker) plan(ctx context.Context, st *stage, b writer.Base) ([]page.Change, error) {
	if b.Latest == nil {
		return nil, hub.ErrRepoNotFound
	}
	past := history{m: m, digest: st.digest.text(), head: b.Head, latest: *b.Latest}
	newest, err := past.newest(ctx)
	if err != nil {
		return nil, err
	}
	st.newest = m.o.ID(newest)
	if past.isCommit(newest) {
		return nil, &errMade{st.newest}
	}
	if m.isStale(st.r, newest) {
		return nil, m.staleDoubt(st.r, past, newest)
	}
	tree, err := m.o.Writer.Catalog().OpenRow(ctx, st.r.Symbol, *b.Latest)
	if err != nil {
		return nil, err
	}
	changes, err := m.changes(ctx, st, tree)
	if len(changes) > 0 && err == nil {
		return changes, nil
	}
	var refused *hubserve.Refusal
	if err != nil && !errors.As(err, &refused) {
		return nil, err
	}
	return nil, &errDoubt{past: past, err: err, newest: st.newest}
}

// isStale reports whether a commit has another parent than the newest version.
func (m *Maker) isStale(r *Request, newest *names.Version) bool {
	return r.Commit.Parent != "" && !m.isParent(newest, r.Commit.Parent)
}

// staleDoubt returns the end of the plan of a stale commit. If the commit was made, it follows its
// parent in the history, so the search ends at the parent.
func (m *Maker) staleDoubt(r *Request, past history, newest *names.Version) *errDoubt {
	id := m.o.ID(newest)
	return &errDoubt{
		past:   past,
		end:    func(v *names.Version) bool { return m.isParent(v, r.Commit.Parent) },
		err:    refusal(http.StatusPreconditionFailed, "the parentCommit is not the newest commit; that is %s", id),
		newest: id,
	}
}

// isParent reports whether a client may name a version by a commit hash.
func (m *Maker) isParent(v *names.Version, parent string) bool {
	return m.o.ID(v) == parent || v.Rows[0].Identity.String()[:40] == parent
}

// changes returns the changes of the operations to a tree, in the order of keys.
func (m *Maker) changes(ctx context.Context, st *stage, tree catalog.Tree) ([]page.Change, error) {
	p := newPlan(m, st, tree)
	if err := p.run(ctx); err != nil {
		return nil, err
	}
	return p.sorted(), nil
}

// maxHistory bounds the versions that are read to find a commit.
const maxHistory = 500

// A history finds a commit among the versions of a symbol.
type history struct {
	m      *Maker
	digest string
	head   names.Key
	latest names.Row
}

// isCommit reports whether a version is the commit.
func (h *history) isCommit(v *names.Version) bool { return v.Labels[LabelDigest] == h.digest }

// newest returns the newest live version.
func (h *history) newest(ctx context.Context) (found *names.Version, err error) {
	err = h.walk(ctx, func(v *names.Version) bool {
		if v.Number == h.latest.Number {
			found = v
		}
		return found != nil
	})
	if err == nil && found == nil { // far behind many deletions
		found = &names.Version{Number: h.latest.Number, Rows: []names.Row{h.latest}}
	}
	return found, err
}

// find returns the live version that is the commit, or nil. It stops behind the version for which
// end returns true; nil: never.
func (h *history) find(ctx context.Context, end func(*names.Version) bool) (found *names.Version, err error) {
	var head *names.Version
	err = h.walk(ctx, func(v *names.Version) bool {
		if head == nil {
			head = v
		}
		if h.isCommit(v) && !head.IsDeleted(v.Number) {
			found = v
		}
		return found != nil || end != nil && end(v)
	})
	return found, err
}

// walk calls visit for the publishes of the symbol, newest first, until it returns true. Unlike History
// of the catalog, it begins at the head of a plan and is bounded. The first row of a publish may name
// a tree that a repack has replaced since. Its identity is still that of the version.
func (h *history) walk(ctx context.Context, visit func(*names.Version) bool) error {
	k := h.head
	for range maxHistory {
		if k == "" {
			return nil
		}
		v, err := h.m.o.Writer.Catalog().ReadVersion(ctx, k)
		if err != nil {
			return err
		}
		if v.Kind == names.Write && visit(v) {
			return nil
		}
		k = v.Parent
	}
	return nil
}

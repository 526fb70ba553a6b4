package sweep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// roots marks everything that the references and snapshots lead to.
func (m *marker) roots(ctx context.Context) error {
	err := each(ctx, m.store, names.RefPrefix, func(_ origin.Item, p names.Parsed) error {
		m.symbols[p.Symbol] = struct{}{}
		return m.spawn(func() error { return m.symbol(ctx, p.Symbol) })
	})
	if err != nil {
		return err
	}
	return each(ctx, m.store, names.SnapshotPrefix, func(_ origin.Item, p names.Parsed) error {
		return m.spawn(func() error { return m.snapshot(ctx, p.Symbol) })
	})
}

// each lists the objects of one kind. Keys that do not parse are nobody's.
func each(ctx context.Context, s origin.Store, prefix string, visit func(origin.Item, names.Parsed) error) error {
	for item, err := range s.List(ctx, prefix, "") {
		if err != nil {
			return fmt.Errorf("%s: %w", prefix, err)
		}
		if p, err := names.ParseKey(item.Key); err == nil {
			if err := visit(item, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// symbol marks the list of versions of a symbol, and the trees of those that live.
func (m *marker) symbol(ctx context.Context, symbol string) error {
	ref := new(names.Ref)
	k := names.RefKey(symbol)
	if _, err := readDocument(ctx, m.store, k, ref); err != nil {
		return err
	}
	if ref.Symbol != symbol {
		return fmt.Errorf("%s: %w", k, codec.Corrupt("vref", 0, "it is that of %.80q", ref.Symbol))
	}
	h := history{rows: map[uint64]names.Row{}, recent: map[uint64]time.Time{}}
	if err := m.versions(ctx, &h, ref); err != nil {
		return err
	}
	if ref.Latest != nil {
		h.rows[ref.Latest.Number] = *ref.Latest
	}
	for _, row := range h.rows {
		if d, gone := h.head.Deletion(row.Number); gone {
			if t, ok := h.recent[d.Seq]; ok {
				m.addDeleted(row.Root, t.Add(m.grace))
			}
			continue
		}
		if err := m.spawn(func() error { return m.page(ctx, row.Root) }); err != nil {
			return err
		}
	}
	return nil
}

// addDeleted records the tree of a deleted version, which stays until end.
func (m *marker) addDeleted(root page.Hash, end time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deleted = append(m.deleted, root)
	if end.After(m.graceEnd) {
		m.graceEnd = end
	}
}

// markDeleted marks the trees that addDeleted recorded. It is called after the walk of the
// roots, so that graceOnly has only what nothing else needs.
func (m *marker) markDeleted(ctx context.Context) error {
	m.counting = true
	defer func() { m.counting = false }()
	return m.walk(ctx, func(ctx context.Context) error {
		for _, root := range m.deleted {
			if err := m.spawn(func() error { return m.page(ctx, root) }); err != nil {
				return err
			}
		}
		return nil
	})
}

// A history is what the list of versions of one symbol says.
type history struct {
	head   *names.Version
	rows   map[uint64]names.Row // by number, deleted or not
	recent map[uint64]time.Time // times of the deletions within the time of grace, by change
}

// versions marks the elements of the list that can be reached from the head.
func (m *marker) versions(ctx context.Context, h *history, ref *names.Ref) error {
	var times map[names.Key]time.Time
	for todo := []names.Key{ref.Head}; len(todo) > 0; {
		k := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		p, err := names.ParseKey(k)
		if err != nil {
			return err
		}
		if !m.add(names.VersionKind, p.Hash) {
			continue
		}
		v, err := readVersion(ctx, m.store, k)
		if err != nil {
			return err
		}
		if h.head == nil {
			h.head = v
			if times, err = m.deletions(ctx, v); err != nil {
				return err
			}
		}
		if t, ok := times[k]; ok && m.now.Sub(t) < m.grace {
			h.recent[v.Seq] = t
		}
		for _, row := range v.Rows {
			h.rows[row.Number] = row
		}
		for _, older := range []names.Key{v.Next, v.Parent} {
			if older != "" {
				todo = append(todo, older)
			}
		}
	}
	return nil
}

func readVersion(ctx context.Context, s origin.Store, k names.Key) (*names.Version, error) {
	b, _, err := s.Get(ctx, k, "")
	if err != nil {
		return nil, err
	}
	v, err := names.DecodeVersion(k, b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k, err)
	}
	return v, nil
}

// deletions returns when the changes that deleted something were stored, with those of
// writers that lost against them. Clocks of writers are not used.
func (m *marker) deletions(ctx context.Context, head *names.Version) (map[names.Key]time.Time, error) {
	seqs := map[uint64]bool{}
	for _, d := range head.Deleted {
		if d.Seq != 0 { // else long ago
			seqs[d.Seq] = true
		}
	}
	if len(seqs) == 0 {
		return nil, nil
	}
	times := map[names.Key]time.Time{}
	err := each(ctx, m.store, names.VersionsPrefix(head.Symbol), func(item origin.Item, p names.Parsed) error {
		if seqs[p.Seq] {
			times[item.Key] = item.Modified
		}
		return nil
	})
	return times, err
}

// snapshot marks the trees of a snapshot, whether their versions live or not. One that is
// gone was deleted a moment ago.
func (m *marker) snapshot(ctx context.Context, name string) error {
	snap := new(names.Snapshot)
	_, err := readDocument(ctx, m.store, names.SnapshotKey(name), snap)
	if errors.Is(err, origin.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, row := range snap.Rows {
		if err := m.spawn(func() error { return m.page(ctx, row.Root) }); err != nil {
			return err
		}
	}
	return nil
}

// lostRef reports whether a version is of a symbol without a reference. No command deletes
// references, so the reference is lost, and a sweep would delete the whole symbol: that is an
// error. The first change of a symbol may also be of a publish that was killed. It stays, and
// catalog repair-ref or the next publish of the symbol decides.
func (m *marker) lostRef(ctx context.Context, version names.Parsed) (lost bool, err error) {
	if _, ok := m.symbols[version.Symbol]; ok {
		return false, nil
	}
	k := names.RefKey(version.Symbol)
	_, err = m.store.Size(ctx, k)
	switch {
	case !errors.Is(err, origin.ErrNotFound):
		return false, err // the symbol may have been made a moment ago
	case version.Seq <= 1:
		return true, nil
	}
	return true, fmt.Errorf("%s: %w, but change %d of its symbol exists: catalog repair-ref makes it anew", k, origin.ErrNotFound, version.Seq)
}

// firstChange marks the first change of a symbol without a reference, and its trees.
func (m *marker) firstChange(ctx context.Context, k names.Key) error {
	v, err := readVersion(ctx, m.store, k)
	if err != nil {
		return err
	}
	p, err := names.ParseKey(k)
	if err != nil {
		return err
	}
	m.add(p.Kind, p.Hash)
	for _, row := range v.Rows {
		if err := m.page(ctx, row.Root); err != nil {
			return err
		}
	}
	return nil
}

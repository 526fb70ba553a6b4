package sweep

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
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
	return each(ctx, m.store, names.SnapshotPrefix, func(item origin.Item, p names.Parsed) error {
		return m.spawn(func() error { return m.snapshot(ctx, p.Symbol, item.Modified) })
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
	if _, err := catalog.ReadDocument(ctx, m.store, k, "", ref); err != nil {
		return err
	}
	if ref.Symbol != symbol {
		return fmt.Errorf("%s: %w", k, codec.Corrupt("vref", 0, "it is that of %.80q", ref.Symbol))
	}
	h := history{rows: map[uint64]names.Row{}, older: map[oldRow]uint64{}, keys: map[names.Key]uint64{}, repacks: map[uint64]time.Time{}, recent: map[uint64]time.Time{}}
	if err := m.versions(ctx, &h, ref); err != nil {
		return err
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
	for row, seq := range h.older {
		if t, ok := h.replacedAt(seq); ok && m.now.Sub(t) < m.grace {
			m.addDeleted(row.root, t.Add(m.grace))
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
	head    *names.Version
	rows    map[uint64]names.Row // by number, deleted or not: the first one from the head on
	older   map[oldRow]uint64    // rows that a repack has replaced, and the last change with them
	keys    map[names.Key]uint64 // changes of the deletions and repacks
	repacks map[uint64]time.Time // times of repacks, by change
	recent  map[uint64]time.Time // times of the deletions within the time of grace, by change
}

// An oldRow is a version with the tree that it had before a repack.
type oldRow struct {
	number uint64
	root   page.Hash
}

// add adds the rows of an element. Younger elements were added before.
func (h *history) add(v *names.Version) {
	for _, row := range v.Rows {
		known, ok := h.rows[row.Number]
		switch {
		case !ok:
			h.rows[row.Number] = row
		case known.Root != row.Root:
			old := oldRow{row.Number, row.Root}
			h.older[old] = max(h.older[old], v.Seq)
		}
	}
}

// replacedAt returns when a repack replaced the rows that the change seq had last.
func (h *history) replacedAt(seq uint64) (t time.Time, ok bool) {
	first := uint64(math.MaxUint64)
	for repack, at := range h.repacks {
		if repack > seq && repack < first {
			first, t, ok = repack, at, true
		}
	}
	return t, ok
}

// versions marks the elements of the list that can be reached from the head, youngest first.
func (m *marker) versions(ctx context.Context, h *history, ref *names.Ref) error {
	if ref.Latest != nil {
		h.rows[ref.Latest.Number] = *ref.Latest
	}
	todo := map[names.Key]uint64{ref.Head: math.MaxUint64} // to their changes
	for len(todo) > 0 {
		k := youngest(todo)
		delete(todo, k)
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
		}
		if v.Kind == names.Delete || v.Kind == names.Repack {
			h.keys[k] = v.Seq
		}
		if v.Kind == names.Repack {
			h.repacks[v.Seq] = time.Time{}
		}
		h.add(v)
		for _, older := range []names.Key{v.Next, v.Parent} {
			if p, err := names.ParseKey(older); err == nil {
				todo[older] = p.Seq
			}
		}
	}
	return m.times(ctx, h)
}

// youngest returns the key of the last change.
func youngest(keys map[names.Key]uint64) (last names.Key) {
	for k, seq := range keys {
		if last == "" || seq > keys[last] {
			last = k
		}
	}
	return last
}

func readVersion(ctx context.Context, s origin.Store, k names.Key) (v *names.Version, err error) {
	_, err = catalog.ReadObject(ctx, s, k, "", func(b []byte) (err error) {
		v, err = names.DecodeVersion(k, b)
		return err
	})
	return v, err
}

// times reads when the deletions and repacks of a history were stored. Clocks of writers are
// not used.
func (m *marker) times(ctx context.Context, h *history) error {
	seqs := map[uint64]bool{}
	for _, d := range h.head.Deleted {
		if d.Seq != 0 { // else long ago
			seqs[d.Seq] = true
		}
	}
	for seq := range h.repacks {
		seqs[seq] = true
	}
	if len(seqs) == 0 {
		return nil
	}
	return each(ctx, m.store, names.VersionsPrefix(h.head.Symbol), func(item origin.Item, p names.Parsed) error {
		seq, ok := h.keys[item.Key]
		if !ok || !seqs[seq] {
			return nil
		}
		if _, repack := h.repacks[seq]; repack {
			h.repacks[seq] = item.Modified
		} else if m.now.Sub(item.Modified) < m.grace {
			h.recent[seq] = item.Modified
		}
		return nil
	})
}

// snapshot marks the trees of a snapshot, whether their versions live or not. The trees that a
// repack has replaced stay for the time of grace. A snapshot that is gone was deleted a moment
// ago.
func (m *marker) snapshot(ctx context.Context, name string, stored time.Time) error {
	snap := new(names.Snapshot)
	_, err := catalog.ReadDocument(ctx, m.store, names.SnapshotKey(name), "", snap)
	if errors.Is(err, origin.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if m.now.Sub(stored) < m.grace {
		for _, row := range snap.Replaced {
			m.addDeleted(row.Root, stored.Add(m.grace))
		}
	}
	for _, old := range snap.Older {
		if m.now.Sub(old.Replaced) < m.grace {
			m.addDeleted(old.Root, old.Replaced.Add(m.grace))
		}
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

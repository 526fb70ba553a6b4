package fs

import (
	"context"
	iofs "io/fs"
	"iter"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

// maxVersions bounds the open versions of a symbol without a node.
const maxVersions = 16

// versions is the hidden directory of a symbol, and opens its versions:
//
//	12                  that version, if it is live; listed
//	ver:HASH            the tree with that identity
//	latest, -2,         links to one of those
//	2026-03-01, snap:X
//
// So every directory has one name in the kernel. Each part is read on demand.
type versions struct {
	*source
	vol *volume // of this directory
	of  *volume // of the symbol

	mu     sync.Mutex
	open   *lru.Cache[versionKey, *volume] // guarded by mu
	live   []names.Row                     // oldest first; guarded by mu
	listed time.Time                       // time of live; guarded by mu
}

// A versionKey is a path in the directory of versions and the tree at that path.
type versionKey struct {
	path string
	root page.Hash
}

var (
	_ shownTree    = (*versions)(nil)
	_ volumeOpener = (*versions)(nil)
)

func newVersions(s *source, of *volume) *versions {
	v := &versions{source: s, of: of, open: lru.New[versionKey, *volume](maxVersions, nil)}
	v.vol = &volume{parent: of, at: s.hidden, symbol: of.symbol, label: versionsLabel(of.symbol), nested: v}
	v.vol.nameTTL, v.vol.attrTTL = minute, minute
	v.vol.absentTTL, v.vol.linkTTL = moment, moment
	v.vol.setTree(v)
	return v
}

// hiddenVersions is the volume in the tree of a symbol: the directory of its versions.
type hiddenVersions struct{ *versions }

// labelAt implements volumeOpener.
func (h *hiddenVersions) labelAt(path string) (string, bool) {
	return h.vol.label, path == h.vol.at
}

// volumeAt implements volumeOpener.
func (h *hiddenVersions) volumeAt(context.Context, string) (*volume, error) { return h.vol, nil }

// Version implements shownTree.
func (v *versions) Version() names.Row { return names.Row{} }

// Totals implements shownTree: they are unknown.
func (v *versions) Totals() (entries, bytes int64) { return 0, 0 }

// Lookup implements shownTree. Directories are volumes, so the entries are links.
func (v *versions) Lookup(ctx context.Context, path string) (page.Entry, error) {
	if path == "" {
		return page.Entry{Type: page.Dir, Mode: 0o555, ModTime: v.of.current.Load().row.Time}, nil
	}
	at, err := names.ParseAsOf(path)
	if err != nil {
		return page.Entry{}, &iofs.PathError{Op: "lookup", Path: path, Err: iofs.ErrNotExist}
	}
	row, err := v.versioned.Resolve(ctx, v.of.symbol, at)
	if err != nil {
		return page.Entry{}, err
	}
	target := strconv.FormatUint(row.Number, 10)
	switch at.Form {
	case names.ByIdentity:
		target = at.String()
	case names.BySnapshot:
		target, err = v.nameOf(ctx, row)
	}
	return page.Entry{Path: path, Type: page.Symlink, Mode: 0o777, ModTime: row.Time, Target: target}, err
}

// nameOf returns the name of a version in a snapshot, which may be deleted outside the snapshot.
func (v *versions) nameOf(ctx context.Context, row names.Row) (string, error) {
	live, err := v.versioned.Resolve(ctx, v.of.symbol, names.AsOf{Form: names.ByNumber, Number: row.Number})
	if isGone(err) || err == nil && live.Identity != row.Identity {
		return names.AsOf{Form: names.ByIdentity, Identity: row.Identity}.String(), nil
	}
	return strconv.FormatUint(row.Number, 10), err
}

// List implements shownTree, in the order of numbers.
func (v *versions) List(ctx context.Context, _, after string) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		live, err := v.rows(ctx, after == "")
		if err != nil {
			yield(page.Entry{}, err)
			return
		}
		last, err := strconv.ParseUint(after, 10, 64)
		for _, row := range live {
			if err == nil && row.Number <= last {
				continue
			}
			e := page.Entry{Path: strconv.FormatUint(row.Number, 10), Type: page.Dir, Mode: 0o555, ModTime: row.Time}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// numberInListing returns the number of a version in a listing, which no deletion changes.
func (v *versions) numberInListing(name string) uint64 {
	number, _ := strconv.ParseUint(name, 10, 64) // List has written it
	return number + 1
}

// rows returns the live versions, oldest first. With anew it accepts no list older than a
// moment.
func (v *versions) rows(ctx context.Context, anew bool) ([]names.Row, error) {
	v.mu.Lock()
	live, listed := v.live, v.listed
	v.mu.Unlock()
	if age := time.Since(listed); age < moment || !anew && age < minute {
		return live, nil
	}
	live = nil
	for row, err := range v.versioned.Live(ctx, v.of.symbol) {
		if err != nil {
			return nil, err
		}
		live = append(live, row)
	}
	slices.Reverse(live)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.live, v.listed = live, time.Now()
	return live, nil
}

// labelAt implements volumeOpener.
func (v *versions) labelAt(path string) (string, bool) {
	at, ok := parseDirectory(path)
	switch {
	case !ok:
		return "", false
	case at.Form == names.ByIdentity:
		return treeLabel(v.of.symbol, at.Identity), true
	}
	return numberLabel(v.of.symbol, at.Number), true
}

// parseDirectory parses the names of directories.
func parseDirectory(name string) (names.AsOf, bool) {
	if name == "" || name[0] != 'v' && (name[0] < '0' || name[0] > '9') {
		return names.AsOf{}, false
	}
	at, err := names.ParseAsOf(name)
	return at, err == nil && at.String() == name && (at.Form == names.ByNumber || at.Form == names.ByIdentity)
}

// volumeAt implements volumeOpener.
func (v *versions) volumeAt(ctx context.Context, path string) (*volume, error) {
	at, _ := parseDirectory(path)
	row, err := v.versioned.Resolve(ctx, v.of.symbol, at)
	if err != nil {
		return nil, err
	}
	key := versionKey{path, row.Root}
	v.mu.Lock()
	known, ok := v.open.Get(key)
	v.mu.Unlock()
	if ok {
		return known, nil
	}
	t, err := v.versioned.OpenRow(ctx, v.of.symbol, row)
	if err != nil {
		return nil, err
	}
	label, _ := v.labelAt(path)
	fixed := &volume{parent: v.vol, at: path, symbol: v.of.symbol, label: label, oneInode: v.of.oneInode, cacheListings: true}
	fixed.setTTL(forever)
	fixed.setTree(t)
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.open.Add(key, fixed, 1), nil
}

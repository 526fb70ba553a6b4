package fs

import (
	"context"
	"iter"
	"sync/atomic"
	"time"

	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// These are the times for which the kernel may cache a reply.
const (
	forever = 365 * 24 * time.Hour // for unchanging replies
	minute  = time.Minute          // for replies that xetfs invalidates
	moment  = time.Second          // for replies that change without notice
)

// A volume is one tree of the mount: that of a symbol, of one version, or a generated one that
// leads to those. Volumes contain volumes. Each has its own inode numbers, because its entries
// may differ from those of others.
type volume struct {
	parent   *volume         // nil: the root of the mount
	at       string          // path of its root in parent
	symbol   string          // "": none
	label    string          // part of its inode numbers, with path and content
	oneInode bool            // see identify
	claimer  catalog.Claimer // claims of its paths; nil: none

	nested volumeOpener // opens the volumes in this one; nil: none
	hidden string       // name in its root of an unlisted volume; "": none

	nameTTL, absentTTL, attrTTL time.Duration // cache times of names, absent names, attributes
	linkTTL                     time.Duration // of names of links
	cacheListings               bool          // the kernel may cache listings

	current   atomic.Pointer[version] // never nil
	earlier   earlierVersions         // shown before the current one
	reopen    openFunc                // opens an earlier version; nil: none can be opened
	switching atomic.Bool             // the kernel may still have old names
}

// A version is a current or earlier tree of a volume.
type version struct {
	vol  *volume
	tree shownTree
	row  names.Row // zero: no version of a symbol

	number uint64 // of the tree in its volume, from 0; a position in a listing has it
}

// An openFunc opens a version of a symbol.
type openFunc = func(ctx context.Context, symbol string, row names.Row) (catalog.Tree, error)

// A shownTree is the part of a catalog.Tree that a volume needs. The generated trees have no
// more.
type shownTree interface {
	Version() names.Row
	Lookup(ctx context.Context, path string) (page.Entry, error)
	List(ctx context.Context, dir, after string) iter.Seq2[page.Entry, error]
	Totals() (entries, bytes int64)
}

// A volumeOpener opens the volumes inside another volume.
type volumeOpener interface {
	// labelAt returns the label of a possible volume at a path. It does not wait.
	labelAt(path string) (label string, ok bool)

	// volumeAt opens the volume at a path with a label, or returns io/fs.ErrNotExist.
	volumeAt(ctx context.Context, path string) (*volume, error)
}

// setTree makes t the current tree of v. One goroutine calls it at a time.
func (v *volume) setTree(t shownTree) *version {
	from := &version{vol: v, tree: t, row: t.Version()}
	if old := v.current.Load(); old != nil {
		from.number = old.number + 1
		v.earlier.add(old)
	}
	v.current.Store(from)
	return from
}

// setTTL sets all cache times of v.
func (v *volume) setTTL(d time.Duration) { v.nameTTL, v.absentTTL, v.attrTTL, v.linkTTL = d, d, d, d }

// displayPath returns the path from the root of the mount, for people.
func (v *volume) displayPath(path string) string {
	if v == nil || v.parent == nil {
		return path
	}
	at := v.parent.displayPath(v.at)
	if path == "" {
		return at
	}
	return join(at, path)
}

// find returns the entry of a path and its version: the root of another volume, or an entry of
// v.
func (v *volume) find(ctx context.Context, path string) (page.Entry, *version, error) {
	from := v.current.Load()
	if v.nested != nil {
		if _, ok := v.nested.labelAt(path); ok {
			in, err := v.nested.volumeAt(ctx, path)
			if err != nil {
				return page.Entry{}, from, err
			}
			from, path = in.current.Load(), ""
		}
	}
	e, err := from.Lookup(ctx, path)
	return e, from, err
}

// Lookup implements sequence.Tree.
func (vr *version) Lookup(ctx context.Context, path string) (page.Entry, error) {
	e, err := vr.tree.Lookup(ctx, path)
	e.Path = path
	return e, err
}

// List implements sequence.Tree.
func (vr *version) List(ctx context.Context, dir, after string) iter.Seq2[page.Entry, error] {
	return vr.tree.List(ctx, dir, after)
}

// Number implements sequence.Tree.
func (vr *version) Number(e *page.Entry) uint64 { return vr.vol.identify(e).ino }

// isCurrent reports whether the volume still shows this version.
func (vr *version) isCurrent() bool { return vr.vol.current.Load() == vr }

// ttlOfName returns the cache time of the name of an entry.
func (v *volume) ttlOfName(t page.Type) time.Duration {
	if t == page.Symlink {
		return v.linkTTL
	}
	return v.nameTTL
}

// ttlOfAbsent returns the cache time of an absent name. A listed symbol without a version is
// being published, so its time is short.
func (v *volume) ttlOfAbsent(path string) time.Duration {
	if v.nested != nil {
		if _, ok := v.nested.labelAt(path); ok {
			return min(v.absentTTL, moment)
		}
	}
	return v.absentTTL
}

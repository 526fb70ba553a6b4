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

// How long the kernel may keep what it was told.
const (
	forever = 365 * 24 * time.Hour // what never changes
	minute  = time.Minute          // what we say by ourselves when it changes
	moment  = time.Second          // what changes without our being told
)

// A volume is one tree of the mount: that of a symbol, or of one version of it, or one
// that is made up here and leads to those. Volumes lie in each other. Each has inodes of
// its own, because what it shows at a path may differ from what others show there.
type volume struct {
	parent   *volume         // that it lies in; nil: it is the root of the mount
	at       string          // path of its root in up
	symbol   string          // whose tree it is; "": of none
	label    string          // part of its inode numbers, beside path and content
	oneInode bool            // see identify
	claimer  catalog.Claimer // of its paths; nil: they claim nothing

	nested volumeOpener // the volumes that lie in it; nil: none
	hidden string       // name in its root that leads to one and is in no listing; "": none

	nameTTL, absentTTL, attrTTL time.Duration // how long the kernel may keep names, that there is none, attributes
	linkTTL                     time.Duration // the same for the names of links
	cacheListings               bool          // the kernel may keep listings

	current   atomic.Pointer[version] // what it shows now; never nil
	switching atomic.Bool             // the kernel has not yet been told all that changed
}

// A version is a tree that a volume shows, or has shown.
type version struct {
	vol  *volume
	tree shownTree
	row  names.Row // zero: it is a version of nothing
}

// A shownTree is the part of a catalog.Tree that a volume needs. The trees of symbols and of
// versions, which fs generates, have no more.
type shownTree interface {
	Version() names.Row
	Lookup(ctx context.Context, path string) (page.Entry, error)
	List(ctx context.Context, dir, after string) iter.Seq2[page.Entry, error]
	Totals() (entries, bytes int64)
}

// An inner is the volumes that lie in another one.
type volumeOpener interface {
	// labelAt returns the label of the volume at a path, if there may be one. It asks
	// nobody.
	labelAt(path string) (label string, ok bool)

	// volumeAt opens the volume at a path, or says io/fs.ErrNotExist. It is for paths
	// that labelAt knows.
	volumeAt(ctx context.Context, path string) (*volume, error)
}

// setTree makes v show a tree from now on.
func (v *volume) setTree(t shownTree) *version {
	from := &version{vol: v, tree: t, row: t.Version()}
	v.current.Store(from)
	return from
}

// ttl sets how long the kernel may keep what it is told of v.
func (v *volume) setTTL(d time.Duration) { v.nameTTL, v.absentTTL, v.attrTTL, v.linkTTL = d, d, d, d }

// displayPath returns the path of a path in v from the root of the mount, for people.
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

// find returns the entry of a path and the version that it is of: the root of another
// volume, if one lies there.
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
	e, err := from.lookup(ctx, path)
	return e, from, err
}

// lookup returns the entry of a path in one version.
func (vr *version) lookup(ctx context.Context, path string) (page.Entry, error) {
	e, err := vr.tree.Lookup(ctx, path)
	e.Path = path
	return e, err
}

// isCurrent says whether the volume still shows this version.
func (vr *version) isCurrent() bool { return vr.vol.current.Load() == vr }

// ttlOfName says how long the kernel may keep the name of an entry of v.
func (v *volume) ttlOfName(t page.Type) time.Duration {
	if t == page.Symlink {
		return v.linkTTL
	}
	return v.nameTTL
}

// ttlOfAbsent says how long the kernel may keep that there is nothing at a path. A symbol
// that is listed and has no version has one soon: it is being published.
func (v *volume) ttlOfAbsent(path string) time.Duration {
	if v.nested != nil {
		if _, ok := v.nested.labelAt(path); ok {
			return min(v.absentTTL, moment)
		}
	}
	return v.absentTTL
}

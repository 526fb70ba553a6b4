package serve

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/commits"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/fs/catalog"
)

// A version is one version of a symbol, as the Hub shows it. It never changes.
type version struct {
	row   names.Row
	id    string   // of the commit: 40 hex digits
	tags  []string // by its labels
	title string

	message string // without the title
	author  string
	cost    int64 // memory in bytes, about
}

// commitLabels are the labels with the commit of a version that was imported.
var commitLabels = []string{"git_commit", "commit"}

// ownLabels are labels of xetfs that are no tags. The last one is that of an import that has left out entries.
var ownLabels = []string{commits.LabelDigest, commits.LabelMoved, "hub_left_out"}

// newVersion returns the version of a publish; d is nil if only its row is known.
func newVersion(row names.Row, d *names.Version) *version {
	v := &version{row: row, id: treeCommit(row), cost: 250}
	if d == nil {
		return v
	}
	title, message, _ := strings.Cut(d.Message, "\n")
	v.title, v.message, v.author = title, strings.TrimSpace(message), d.Writer
	for _, key := range slices.Sorted(maps.Keys(d.Labels)) { // git_commit after commit
		switch value := d.Labels[key]; {
		case slices.Contains(commitLabels, key) && isCommitHash(value):
			v.id = value
		case slices.Contains(ownLabels, key):
		case key == "tag":
			v.tags = append(v.tags, value)
		default:
			v.tags = append(v.tags, key+"="+value)
		}
	}
	slices.Sort(v.tags)
	v.cost += int64(len(d.Message) + len(v.author))
	for _, tag := range v.tags {
		v.cost += 16 + int64(len(tag))
	}
	return v
}

// treeCommit returns the commit of a version without a label.
func treeCommit(row names.Row) string { return row.Identity.String()[:40] }

// isCommitHash reports whether s has the form of git's names: 40 hex digits.
func isCommitHash(s string) bool {
	return len(s) == 40 && strings.Trim(s, "0123456789abcdef") == ""
}

// isCommit reports whether a revision is the commit of v, or the identity of its tree.
func (v *version) isCommit(revision string) bool {
	return revision == v.id || revision == v.row.Identity.String() || revision == treeCommit(v.row)
}

// A lineage is the changes of a symbol, newest first, as far as they were read. It never changes.
type lineage struct {
	head     *names.Version // has only the deletions, which decide which versions are live
	headKey  names.Key
	latest   names.Row
	versions []*version
	moved    map[uint64]names.Row // rows of the last repack of each version; never changed
	next     names.Key            // the change behind versions; "": none
	checked  time.Time            // when the reference was read; zero: it is read again
	asOf     time.Time            // before the reference was read
	isAbsent bool                 // the symbol has no live version
}

// Bounds of lineages.
const (
	maxLineages = 32 << 20        // bytes, of all symbols
	maxVersions = 10_000          // of one symbol
	readAhead   = 64              // changes that are read in one step
	lineageAge  = 1 * time.Second // of a remote store; a local one is read for each request
)

// lineages has the symbols that were read last. It is safe for concurrent use.
type lineages struct {
	catalog *catalog.StoreCatalog
	age     time.Duration // after it a reference is read again

	mu       *sync.Mutex
	bySymbol *lru.Cache[string, *lineage] // guarded by mu
}

func newLineages(c *catalog.StoreCatalog, local bool) lineages {
	age := lineageAge
	if local {
		age = 0
	}
	return lineages{catalog: c, age: age, mu: new(sync.Mutex), bySymbol: lru.New[string, *lineage](maxLineages, nil)}
}

func (ls *lineages) cached(symbol string) *lineage {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l, _ := ls.bySymbol.Get(symbol)
	return l
}

// expire makes the next request read the reference of a symbol, which has just changed.
func (ls *lineages) expire(symbol string) {
	expired := lineage{}
	if l := ls.cached(symbol); l != nil {
		expired = *l
	}
	expired.asOf, expired.checked = time.Now(), time.Time{}
	ls.put(symbol, &expired)
}

// put stores a lineage. A slow reader does not replace what is newer than its reference.
func (ls *lineages) put(symbol string, l *lineage) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if known, ok := ls.bySymbol.Get(symbol); ok && l.asOf.Before(known.asOf) {
		if l.headKey != known.headKey || len(l.versions) <= len(known.versions) {
			return
		}
		longer := *l
		longer.asOf, longer.checked = known.asOf, known.checked
		l = &longer
	}
	ls.bySymbol.Remove(symbol)
	ls.bySymbol.Add(symbol, l, l.cost())
}

// cost returns the memory of a lineage in bytes, about.
func (l *lineage) cost() int64 {
	n := int64(200)
	if l.head != nil {
		n += 24 * int64(len(l.head.Deleted))
	}
	n += 150 * int64(len(l.moved))
	for _, v := range l.versions {
		n += v.cost
	}
	return n
}

// get returns the lineage of a symbol, or io/fs.ErrNotExist for one without a live version. It
// returns the last known lineage while the store does not answer.
func (ls *lineages) get(ctx context.Context, symbol string) (*lineage, error) {
	return ls.recent(ctx, symbol, ls.age)
}

// recent is get for a caller to which a lineage of some age is new enough.
func (ls *lineages) recent(ctx context.Context, symbol string, age time.Duration) (*lineage, error) {
	old, asOf := ls.cached(symbol), time.Now()
	if old != nil && asOf.Sub(old.checked) < age {
		return old.orAbsent(symbol)
	}
	ref, err := ls.catalog.ReadRef(ctx, symbol)
	switch {
	case old != nil && !old.checked.IsZero() && errors.Is(err, origin.ErrUnavailable):
		return old.orAbsent(symbol)
	case isAbsent(err) || err == nil && ref.Ref.Latest == nil:
		ls.put(symbol, &lineage{isAbsent: true, asOf: asOf, checked: time.Now()})
		return nil, catalog.AbsentSymbolError(symbol)
	case err != nil:
		return nil, err
	}
	if old != nil && old.headKey == "" { // absent
		old = nil
	}
	l := &lineage{headKey: ref.Ref.Head, latest: *ref.Ref.Latest, next: ref.Ref.Head, asOf: asOf, checked: time.Now()}
	if old != nil && old.headKey == l.headKey {
		l.head, l.versions, l.moved, l.next = old.head, old.versions, old.moved, old.next
	} else if l, err = ls.advance(ctx, l, old); err != nil {
		return nil, err
	}
	ls.put(symbol, l)
	return l, nil
}

// orAbsent returns l, or io/fs.ErrNotExist for a symbol without a live version.
func (l *lineage) orAbsent(symbol string) (*lineage, error) {
	if l.isAbsent {
		return nil, catalog.AbsentSymbolError(symbol)
	}
	return l, nil
}

// advance reads the first changes of a new lineage. It continues with an old one if that is
// among them.
func (ls *lineages) advance(ctx context.Context, l, old *lineage) (*lineage, error) {
	for range readAhead {
		d, err := ls.catalog.ReadVersion(ctx, l.next)
		if err != nil {
			return nil, err
		}
		l.add(d)
		if old == nil || l.next == "" {
			return l, nil
		}
		if l.next == old.headKey {
			for _, v := range old.versions {
				l.addVersion(v)
			}
			l.addMoved(old.moved)
			l.next = old.next
			return l, nil
		}
	}
	return l, nil
}

// add adds the next change.
func (l *lineage) add(d *names.Version) {
	if l.head == nil {
		l.head = &names.Version{Deleted: d.Deleted}
	}
	switch {
	case d.Kind == names.Repack:
		rows := make(map[uint64]names.Row, len(d.Rows))
		for _, row := range d.Rows {
			rows[row.Number] = row
		}
		l.addMoved(rows)
	case d.Kind == names.Write && len(d.Rows) > 0:
		l.addVersion(newVersion(d.Rows[0], d))
	}
	l.next = d.Parent
}

// addVersion adds the next older version. A label that versions with different
// trees share is the commit of the older one alone, because clients may have cached its files.
func (l *lineage) addVersion(v *version) {
	for i := max(0, len(l.versions)-readAhead); i < len(l.versions); i++ {
		if newer := *l.versions[i]; newer.id == v.id && newer.row.Identity != v.row.Identity {
			newer.id = treeCommit(newer.row)
			l.versions[i] = &newer
		}
	}
	l.versions = append(l.versions, l.current(v))
}

// isSettled reports whether the commit of version i is final: no older version can have its label.
func (l *lineage) isSettled(i int) bool {
	return l.next == "" || i < len(l.versions) && (i+readAhead < len(l.versions) || l.versions[i].id == treeCommit(l.versions[i].row))
}

// addMoved adds the rows of an older repack.
func (l *lineage) addMoved(rows map[uint64]names.Row) {
	if len(rows) == 0 {
		return
	}
	all := maps.Clone(rows)
	maps.Copy(all, l.moved)
	l.moved = all
}

// current returns a version with the row of the last repack. Its commit stays.
func (l *lineage) current(v *version) *version {
	row, ok := l.moved[v.row.Number]
	if !ok || row.Root == v.row.Root {
		return v
	}
	now := *v
	now.row = row
	return &now
}

// extend returns l with more changes.
func (ls *lineages) extend(ctx context.Context, symbol string, l *lineage) (*lineage, error) {
	longer := *l
	longer.versions = slices.Clone(l.versions)
	for i := 0; i < readAhead && longer.next != ""; i++ {
		d, err := ls.catalog.ReadVersion(ctx, longer.next)
		if err != nil {
			return nil, err
		}
		longer.add(d)
	}
	ls.put(symbol, &longer)
	return &longer, nil
}

// versions yields the live versions, newest first. It ends with the first error. It replaces *l by the lineage
// with the changes that it has read.
func (ls *lineages) versions(ctx context.Context, symbol string, l **lineage) iter.Seq2[*version, error] {
	return func(yield func(*version, error) bool) {
		for i := 0; i < maxVersions; i++ {
			for !(*l).isSettled(i) {
				longer, err := ls.extend(ctx, symbol, *l)
				if err != nil {
					yield(nil, err)
					return
				}
				*l = longer
			}
			if i == len((*l).versions) {
				return
			}
			if v := (*l).versions[i]; !(*l).head.IsDeleted(v.row.Number) && !yield(v, nil) {
				return
			}
		}
	}
}

// ofRow returns the version of a row, with its labels if the version is in memory.
func (l *lineage) ofRow(row names.Row) *version {
	for _, v := range l.versions {
		if v.row.Number == row.Number && v.row.Root == row.Root {
			return v
		}
	}
	return newVersion(row, nil)
}

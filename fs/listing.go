package fs

import (
	"context"
	"sort"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/xetfs/xetfs/codec/page"
)

// batchSize is the number of names per read of a directory. A batch has more names than a
// message, so that a tree does not search its position for each message.
const batchSize = 1024

// A dirHandle is one open directory, or one that all readers without handles share. A tree
// continues after a name, the kernel after a number.
// So the handle caches a part of the listing and a name per batchSize names.
type dirHandle struct {
	ver  *version
	path string
	ino  uint64

	isShared bool // it has no handle

	mu     sync.Mutex
	part   *listing   // nil: in use by a message, or empty; guarded by mu
	marks  []position // in order; guarded by mu
	closed bool       // guarded by mu

	stale bool // guarded by staleListings.mu
}

// A position is a name in its directory and its number, from 1. Numbers have gaps if names can
// vanish from a tree.
type position struct {
	n    uint64
	name string
	fill pageFill // up to the name
}

// A listing is a part of a directory, with the readahead of the next part.
type listing struct {
	batch
	next *nextBatch // nil: no readahead
	room []dirEntry // spare memory of one batch
}

// A batch is a run of names.
type batch struct {
	after position
	names []dirEntry
	last  position // of names; after, if there are none
	end   bool     // no name follows
	err   error    // why no name follows
}

// A dirEntry is one name with its reply to the kernel.
type dirEntry struct {
	path    string // "": illegal name
	name    string // end of path
	n       uint64 // its number
	id      identity
	kind    page.Type
	hasAttr bool // attr is valid
	attr    fuse.Attr
}

// A nextBatch is a batch in readahead.
type nextBatch struct {
	first  uint64 // number of the name before it
	cancel context.CancelFunc
	done   chan struct{} // closed once batch is final
	batch
}

// take removes the cached part of the listing from h: one message uses it at a time.
func (h *dirHandle) take() *listing {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.part
	h.part = nil
	if l == nil {
		l = &listing{}
	}
	return l
}

func (h *dirHandle) put(l *listing) {
	h.mu.Lock()
	old := h.part
	h.part = l
	if h.closed {
		old, h.part = l, nil
	}
	h.mu.Unlock()
	old.close()
}

func (h *dirHandle) close() {
	h.mu.Lock()
	l := h.part
	h.part, h.closed = nil, true
	h.mu.Unlock()
	l.close()
}

// close stops the readahead.
func (l *listing) close() {
	if l != nil && l.next != nil {
		l.next.cancel()
		l.next = nil
	}
}

// namesBehind returns the names after the n-th: at least one, except at the end.
func (f *filesystem) namesBehind(ctx context.Context, h *dirHandle, l *listing, n uint64) ([]dirEntry, error) {
	if l.next != nil && !l.holds(n) {
		l.useNext(ctx, n)
	}
	if !l.holds(n) {
		f.read(ctx, h, &l.batch, n)
	}
	names := l.names[sort.Search(len(l.names), func(i int) bool { return l.names[i].n > n }):]
	if len(names) > 0 && l.next == nil && !l.end && l.err == nil {
		f.readAhead(h, l)
	}
	if err := l.err; err != nil && len(names) == 0 {
		l.batch = batch{names: l.names[:0]} // the next message retries
		return nil, err
	}
	return names, nil
}

// holds reports whether the batch has the names after the n-th.
func (b *batch) holds(n uint64) bool {
	first, last := b.after.n, b.last.n
	return first <= n && n < last || n == last && (b.end || b.err != nil)
}

// useNext continues with the batch of the readahead if it follows the n-th name.
func (l *listing) useNext(ctx context.Context, n uint64) {
	next := l.next
	l.next = nil
	if next.first == n {
		select {
		case <-next.done:
			if next.err == nil {
				l.room, l.batch = l.names, next.batch
			}
		case <-ctx.Done():
		}
	}
	next.cancel()
}

// readAhead starts to read the batch after that of l. An error has no effect: the batch is read
// again on demand.
func (f *filesystem) readAhead(h *dirHandle, l *listing) {
	ctx, cancel := context.WithTimeout(context.Background(), f.metaLimit())
	last := l.last.n
	next := &nextBatch{first: last, cancel: cancel, done: make(chan struct{})}
	next.after = l.last
	next.names, l.next, l.room = l.room, next, nil
	f.background.Go(func() {
		defer close(next.done)
		f.read(ctx, h, &next.batch, last)
	})
}

// read fills b with the names after the n-th.
func (f *filesystem) read(ctx context.Context, h *dirHandle, b *batch, n uint64) {
	at := b.after
	if at.n != n || n == 0 {
		at = h.before(n)
	}
	if at.n == 0 {
		at.fill = emptyFill
	}
	*b = batch{names: b.names[:0], last: at}
	for e, err := range h.ver.tree.List(ctx, h.path, at.name) {
		if err != nil {
			b.err = err
			break
		}
		name, ok := base(h.path, e.Path)
		next := h.after(b.last, name, ok)
		if next.n <= n {
			if at = next; at.n%batchSize == 0 {
				h.mark(at)
			}
			b.last = at
			continue
		}
		if i := len(b.names); i >= batchSize && b.names[i-1].name != "" {
			b.after = at
			h.mark(at)
			return
		}
		b.names = append(b.names, f.newDirEntry(h, &e, name, ok))
		b.names[len(b.names)-1].n = next.n
		b.last = next
	}
	at.n, b.end = n, b.err == nil
	b.after = at
}

// after returns the position of the name after p.
func (h *dirHandle) after(p position, name string, ok bool) position {
	p.n, p.name = p.n+1, name
	if v, ok := h.ver.tree.(*versions); ok {
		p.n = v.numberInListing(name)
	}
	if h.shows(name, ok) {
		p.fill = p.fill.add(name)
	}
	return p
}

// shows reports whether the kernel gets a name. ok is false for a name outside the directory.
func (h *dirHandle) shows(name string, ok bool) bool {
	return ok && isLegalName(name) && (h.path != "" || name != h.ver.vol.hidden)
}

// newDirEntry returns the entry for the kernel. An illegal name is logged, and only counts.
func (f *filesystem) newDirEntry(h *dirHandle, e *page.Entry, name string, ok bool) dirEntry {
	vol := h.ver.vol
	if !h.shows(name, ok) {
		f.reports.rejected(vol.displayPath(h.path), name)
		return dirEntry{name: name}
	}
	l := dirEntry{path: e.Path, name: name, kind: e.Type}
	if vol.nested != nil {
		if label, ok := vol.nested.labelAt(e.Path); ok {
			l.id = rootOf(label)
			return l
		}
	}
	l.id, l.hasAttr = vol.identify(e), true
	f.attr(e, &l.attr)
	return l
}

// before returns the last known position up to number n.
func (h *dirHandle) before(n uint64) position {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := sort.Search(len(h.marks), func(i int) bool { return h.marks[i].n > n })
	if i == 0 {
		return position{}
	}
	return h.marks[i-1]
}

// mark records a position if it is far enough from the last one.
func (h *dirHandle) mark(at position) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := position{}
	if len(h.marks) > 0 {
		last = h.marks[len(h.marks)-1]
	}
	if at.name != "" && at.n >= last.n+batchSize {
		h.marks = append(h.marks, at)
	}
}

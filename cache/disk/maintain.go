package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"

	"github.com/xetfs/xetfs/codec"
)

// An Entry is one thing that a store keeps.
type Entry struct {
	Kind   string     // "xorb", "page" or "file"
	Hash   codec.Hash // of a page: plain BLAKE3, which has another text form
	Chunks int        // of a xorb: how many of them are kept; 1 of all others
	Bytes  int64
}

// String names the entry as events do.
func (e Entry) String() string {
	if e.Kind == "page" {
		return fmt.Sprintf("page %x", e.Hash[:])
	}
	return e.Kind + " " + e.Hash.String()
}

// Entries returns what is kept, in no order. What comes or goes meanwhile may be missing.
func (s *Store) Entries() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		x := s.disk.Load().index
		for k, ranges := range x.all() {
			e := Entry{Kind: "xorb", Hash: k.hash}
			if k.kind == pageKind {
				e.Kind = "page"
			}
			for _, r := range ranges {
				e.Chunks += r.chunks.Len()
				e.Bytes += r.size
			}
			if !yield(e) {
				return
			}
		}
		for _, w := range x.allFiles() {
			if !yield(Entry{Kind: "file", Hash: w.hash, Chunks: 1, Bytes: w.size}) {
				return
			}
		}
	}
}

// all returns the parts of every object. The lock is not held while they are looked at.
func (x *index) all() iter.Seq2[key, []span] {
	return func(yield func(key, []span) bool) {
		for id := 0; ; id++ {
			k, spans, more := x.spansOf(id)
			if !more || len(spans) > 0 && !yield(k, spans) {
				return
			}
		}
	}
}

// spansOf returns the parts of the object at a place of the table, and whether the table
// goes so far.
func (x *index) spansOf(id int) (k key, spans []span, more bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if id >= len(x.objects) {
		return k, nil, false
	}
	o := &x.objects[id]
	for _, l := range o.leaves {
		for _, e := range l.extents {
			spans = x.join(spans, e)
		}
	}
	measure(spans)
	return o.key, spans, true
}

func (x *index) allFiles() []*wholeFile {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var all []*wholeFile
	for _, w := range x.files {
		all = append(all, w)
	}
	return all
}

// Verify reads everything and compares it with its checksums. What is damaged is
// forgotten and, with the reason, reported; what has gone is no damage. It returns how
// many entries it has read. The
// error is that of ctx, or says that the disk does not answer.
func (s *Store) Verify(ctx context.Context, report func(Entry, error)) (entries int, err error) {
	d := s.disk.Load()
	for k, parts := range d.index.all() {
		if err := s.verifySpans(ctx, d, k, parts, report); err != nil {
			return entries, err
		}
		entries++
	}
	for _, w := range d.index.allFiles() {
		if err := ctx.Err(); err != nil {
			return entries, err
		}
		if err := s.verifyFile(ctx, d, w, report); err != nil {
			return entries, err
		}
		entries++
	}
	return entries, nil
}

// verifyFile returns an error only if nothing was found out.
func (s *Store) verifyFile(ctx context.Context, d *folder, w *wholeFile, report func(Entry, error)) error {
	err := s.scrubFile(ctx, d, w, nil)
	switch {
	case err == nil || errors.Is(err, errMoved) || errors.Is(err, fs.ErrNotExist) || s.gone(err):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	report(Entry{Kind: "file", Hash: w.hash, Chunks: 1, Bytes: w.size}, err)
	return nil
}

// verifyBytes is about how much Verify reads at once.
const verifyBytes = 1 << 20

func (s *Store) verifySpans(ctx context.Context, d *folder, k key, spans []span, report func(Entry, error)) error {
	slow := 0
	for len(spans) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.down(); err != nil {
			return err
		}
		p := []span{spans[0].first(verifyBytes)}
		n, err := s.readSpans(d, k, p, make([]byte, p[0].size), RunOptions{})
		switch bad := p[0].chunks.Len() - n; {
		case errors.Is(err, errTimeout):
			if slow++; slow == maxFailures {
				return err
			}
			continue
		case bad > 0 && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, errMoved)):
			n = p[0].chunks.Len()
		case bad > 0 && err != nil && !p[0].segment.gone.Load():
			e := Entry{Kind: "xorb", Hash: k.hash, Chunks: 1}
			if k.kind == pageKind {
				e.Kind = "page"
			}
			report(e, &codec.ChunkError{Chunk: int(p[0].chunks.Start) + n, Err: err})
			n++
		}
		if spans[0] = spans[0].behind(max(n, 1)); spans[0].chunks.Len() == 0 {
			spans = slices.Delete(spans, 0, 1)
		}
	}
	return nil
}

// first returns the chunks at the start of p that have n bytes together, and one at least.
func (p span) first(n int64) span {
	c := 1
	for c < len(p.table) && p.table[c].end()-p.off <= n {
		c++
	}
	return firstChunks([]span{p}, c)[0]
}

// behind returns p without its first n chunks.
func (p span) behind(n int) span {
	skip := p.table[n-1].end() - p.off
	p.off, p.size = p.off+skip, p.size-skip
	p.table = p.table[n:]
	p.at += uint32(n)
	p.chunks.Start += uint32(n)
	return p
}

// Clear forgets everything. Whole files that are open stay until they are closed.
func (s *Store) Clear() error {
	wr := s.writer.Load()
	if wr == nil {
		return ErrReadOnly
	}
	return wr.do(wr.clear)
}

func (wr *writer) clear() error {
	var all []*segment
	x := wr.d.index
	x.mu.RLock()
	for _, s := range x.segments {
		all = append(all, s)
	}
	x.mu.RUnlock()
	for _, s := range all {
		wr.remove(s)
	}
	for _, w := range x.allFiles() {
		if x.forgetFile(w.hash) != nil {
			wr.removeFile(wr.d, w)
		}
	}
	wr.ghost = ghost{}
	return wr.rotate()
}

// Trim throws away what is used least until all files together take n bytes at most, or
// nothing is left that could go.
func (s *Store) Trim(n int64) error {
	wr := s.writer.Load()
	if wr == nil {
		return ErrReadOnly
	}
	return wr.do(func() error {
		wr.shrink(n)
		return wr.rotate()
	})
}

// shrink throws away what is used least until all files together take n bytes at most. It
// forgets no more where nothing can be deleted.
func (wr *writer) shrink(n int64) {
	for wr.s.stats.used.Load() > n && !wr.s.health.suspended.Load() {
		if len(wr.orphans) > 0 {
			wr.deleteOrphan()
		} else if !wr.evict() {
			return
		}
	}
}

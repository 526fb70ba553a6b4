package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/codec"
)

// An Entry is one stored xorb, page or file.
type Entry struct {
	Kind   string     // "xorb", "page" or "file"
	Hash   codec.Hash // of a page: plain BLAKE3, which has another text form
	Chunks int        // number of stored chunks of a xorb; 1 for others
	Bytes  int64
}

// String returns the name of the entry in events.
func (e Entry) String() string {
	if e.Kind == "page" {
		return fmt.Sprintf("page %x", e.Hash[:])
	}
	return e.Kind + " " + e.Hash.String()
}

// Entries returns all stored entries in no order. Entries that are added or forgotten meanwhile
// may be missing.
func (s *Store) Entries() iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		x := s.disk.Load().index
		for k, ranges := range x.All() {
			e := Entry{Kind: "xorb", Hash: k.Hash}
			if k.Kind == index.PageKind {
				e.Kind = "page"
			}
			for _, r := range ranges {
				e.Chunks += r.Chunks.Len()
				e.Bytes += r.Size
			}
			if !yield(e) {
				return
			}
		}
		for _, w := range x.Files() {
			if !yield(Entry{Kind: "file", Hash: w.Hash, Chunks: 1, Bytes: w.Size}) {
				return
			}
		}
	}
}

// Xorbs returns the xorbs with chunks on disk, and the ranges of these chunks in order. It reads the
// index alone.
func (s *Store) Xorbs() iter.Seq2[codec.Hash, []codec.ChunkRange] {
	return func(yield func(codec.Hash, []codec.ChunkRange) bool) {
		for k, spans := range s.disk.Load().index.All() {
			var ranges []codec.ChunkRange
			for _, p := range spans {
				ranges = append(ranges, p.Chunks)
			}
			if k.Kind == index.ChunkKind && !yield(k.Hash, ranges) {
				return
			}
		}
	}
}

// Verify reads all entries and compares them with their checksums. It forgets and reports
// corrupt ones; evicted ones are no damage. It returns the number of entries that were read. The
// error is that of ctx, of a disk that does not answer, or of a lack of descriptors or memory.
func (s *Store) Verify(ctx context.Context, report func(Entry, error)) (entries int, err error) {
	d := s.disk.Load()
	for k, spans := range d.index.All() {
		if err := s.verifySpans(ctx, d, k, spans, report); err != nil {
			return entries, err
		}
		entries++
	}
	for _, w := range d.index.Files() {
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

// verifyFile returns an error only if the comparison was impossible.
func (s *Store) verifyFile(ctx context.Context, d *folder, w *index.WholeFile, report func(Entry, error)) error {
	err := s.scrubFile(ctx, d, w, nil)
	switch {
	case err == nil || errors.Is(err, errMoved) || errors.Is(err, fs.ErrNotExist) || s.gone(err):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case isResourceExhausted(err):
		return err
	}
	report(Entry{Kind: "file", Hash: w.Hash, Chunks: 1, Bytes: w.Size}, err)
	return nil
}

func (s *Store) verifySpans(ctx context.Context, d *folder, k index.Key, spans []index.Span, report func(Entry, error)) error {
	slow := 0
	for len(spans) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.down(); err != nil {
			return err
		}
		p := []index.Span{spans[0].First(verifyBytes)}
		n, err := s.readSpans(d, k, p, make([]byte, p[0].Size), RunOptions{})
		switch bad := p[0].Chunks.Len() - n; {
		case errors.Is(err, errTimeout):
			if slow++; slow == maxFailures {
				return err
			}
			continue
		case isResourceExhausted(err):
			return err
		case bad > 0 && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, errMoved)):
			n = p[0].Chunks.Len()
		case bad > 0 && err != nil && !p[0].Segment.Gone.Load():
			e := Entry{Kind: "xorb", Hash: k.Hash, Chunks: 1}
			if k.Kind == index.PageKind {
				e.Kind = "page"
			}
			report(e, &codec.ChunkError{Chunk: int(p[0].Chunks.Start) + n, Err: err})
			n++
		}
		if spans[0] = spans[0].Behind(max(n, 1)); spans[0].Chunks.Len() == 0 {
			spans = slices.Delete(spans, 0, 1)
		}
	}
	return nil
}

// Clear forgets everything. Open whole files stay on disk until they are closed.
func (s *Store) Clear() error {
	wr := s.writer.Load()
	if wr == nil {
		return ErrReadOnly
	}
	return wr.do(wr.clear)
}

func (wr *writer) clear() error {
	x := wr.d.index
	for _, s := range x.Segments() {
		wr.remove(s)
	}
	for _, w := range x.Files() {
		if x.ForgetFile(w.Hash) != nil {
			wr.removeFile(wr.d, w)
		}
	}
	wr.policy.ForgetGhosts()
	return wr.rotate()
}

// Trim evicts until all files together take at most n bytes, or nothing more can be evicted.
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

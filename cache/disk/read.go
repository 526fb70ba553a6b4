package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
	"github.com/xetfs/xetfs/cache/nowait"
	"github.com/xetfs/xetfs/codec"
)

// read returns the bytes of chunks from the first of r on, and their number. It compares each
// chunk with its checksum unless o says otherwise. It searches again once if chunks moved
// meanwhile.
func (s *Store) read(k index.Key, r codec.ChunkRange, o RunOptions) (b []byte, n int) {
	var few [4]index.Span
	for again := false; ; again = true {
		if s.down() != nil {
			return nil, 0
		}
		d := s.disk.Load()
		spans := d.index.Find(k, r, few[:0])
		if len(spans) == 0 || o.All && spans[len(spans)-1].Chunks.End < r.End {
			return nil, 0
		}
		if b == nil {
			b = o.Buffer(index.SizeOf(spans))
			r.End = spans[len(spans)-1].Chunks.End // the buffer has room for no more
		}
		if len(b) < index.SizeOf(spans) {
			return nil, 0 // the chunks changed since the first search
		}
		n, err := s.readSpans(d, k, spans, b, o)
		if errors.Is(err, errMoved) && !again {
			continue
		}
		if o.All && n < r.Len() || n == 0 {
			return nil, 0
		}
		spans = index.FirstChunks(spans, n)
		d.index.Touch(spans)
		return b[:index.SizeOf(spans)], n
	}
}

// readSpans fills b and returns the number of correct chunks from the first on. It forgets
// incorrect ones.
func (s *Store) readSpans(d *folder, k index.Key, spans []index.Span, b []byte, o RunOptions) (n int, err error) {
	bad := -1 // the first span that could not be read
	if done, size := tryRead(spans, b); done < len(spans) {
		if o.NoWait {
			return 0, errWouldWait
		}
		// readSlowly keeps the spans, so it gets a copy; the fast path allocates nothing.
		bad, err = s.readSlowly(d, slices.Clone(spans), done, b[size:])
	}
	if bad < 0 && err != nil {
		s.failed("reading", err)
		return 0, err
	}
	for i, p := range spans {
		if i == bad {
			return n, s.unreadable(k, p, err)
		}
		good := p.Chunks.Len()
		if !o.Unchecked {
			good = p.Check(k, b)
		}
		n += good
		if good < p.Chunks.Len() {
			c := p.Chunks.Start + uint32(good)
			return n, s.damaged(k, p, c, errChecksum)
		}
		b = b[p.Size:]
	}
	return n, nil
}

// WillRead makes the kernel read the chunks of r that are stored, up to the first missing one, into
// the page cache. It does not wait for the disk. It has no effect if many other calls do.
//
// The reads of a stream reach the disk in small parts and out of order. The readahead of the kernel
// is then late, and each read that finds nothing in memory costs two goroutines and a timer.
func (s *Store) WillRead(x codec.Hash, r codec.ChunkRange) {
	if s.down() != nil {
		return
	}
	d := s.disk.Load()
	spans := d.index.Find(index.XorbKey(x), r, nil)
	if len(spans) == 0 {
		return
	}
	s.ahead.try(func() { d.fetch(spans) })
}

// fetch makes the kernel read spans into the page cache. It opens the segments, because opened may close
// its files at any moment. It ends at the first error, which a reader finds, too.
func (d *folder) fetch(spans []index.Span) {
	for len(spans) > 0 {
		segment := spans[0].Segment
		f, err := d.Open(segment.Name(), false)
		if err != nil {
			return
		}
		for ; len(spans) > 0 && spans[0].Segment == segment; spans = spans[1:] {
			if plain := f.OSFile(); plain != nil {
				nowait.Fetch(int(plain.Fd()), spans[0].Off, int(spans[0].Size))
			}
		}
		_ = f.Close() // it was only read
	}
}

var errWouldWait = errors.New("not in memory")

// tryRead reads the spans that are in memory, up to the first other one. It returns their number
// and bytes.
func tryRead(spans []index.Span, b []byte) (n int, size int64) {
	for _, p := range spans {
		f := openOf(p.Segment)
		if f == nil || int64(f.TryRead(b[size:size+p.Size], p.Off)) != p.Size {
			break
		}
		if !p.Segment.Recent.Load() {
			p.Segment.Recent.Store(true)
		}
		n, size = n+1, size+p.Size
	}
	return n, size
}

// readSlowly reads the spans from the one at first on, within the time limit. bad is the span of
// the error, negative if the error concerns none.
func (s *Store) readSlowly(d *folder, spans []index.Span, first int, b []byte) (bad int, err error) {
	err = s.reads.do(func() error {
		for i, p := range spans[first:] {
			if err := d.readSpan(p, b[:p.Size]); err != nil {
				return &spanError{first + i, err}
			}
			b = b[p.Size:]
		}
		return nil
	})
	var failed *spanError
	if errors.As(err, &failed) {
		return failed.span, failed.err
	}
	return -1, err
}

// A spanError is an error of one span.
type spanError struct {
	span int
	err  error
}

func (e *spanError) Error() string { return fmt.Sprintf("part %d: %v", e.span, e.err) }

func (e *spanError) Unwrap() error { return e.err }

// compare reports whether b has the bytes of the chunks of r. It forgets each chunk that
// differs.
func (s *Store) compare(k index.Key, r codec.ChunkRange, b []byte) bool {
	var few [4]index.Span
	spans := s.disk.Load().index.Find(k, r, few[:0])
	if index.SizeOf(spans) != len(b) {
		return false // the chunks changed since the read
	}
	n, seed := r.Len(), index.Seed(k)
	for _, p := range spans {
		for i := range p.Chunks.Len() {
			if p.Matches(seed, i, b) {
				n--
				continue
			}
			_ = s.damaged(k, p, p.Chunks.Start+uint32(i), errChecksum) // the reason is known
		}
		b = b[p.Size:]
	}
	return n == 0
}

// unreadable forgets a span that could not be read, if the disk is responsible.
func (s *Store) unreadable(k index.Key, p index.Span, err error) error {
	if p.Segment.Gone.Load() || errors.Is(err, os.ErrClosed) {
		return errMoved
	}
	if isResourceExhausted(err) {
		s.failed("reading "+p.Segment.Name(), err)
		return err
	}
	missing := errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, vfs.ErrForeign)
	if s.drop(k, p.Chunks) > 0 && !s.gone(err) {
		s.dropped(describe(k, p.Chunks), err)
	}
	if !missing {
		s.failed("reading "+p.Segment.Name(), err)
	}
	return err
}

// damaged forgets chunk c of span p, unless the chunk moved meanwhile.
func (s *Store) damaged(k index.Key, p index.Span, c uint32, err error) error {
	if p.Segment.Gone.Load() {
		return errMoved
	}
	r := codec.ChunkRange{Start: c, End: c + 1}
	if s.drop(k, r) > 0 {
		s.dropped(describe(k, r), err)
	}
	return err
}

// RunOptions tune RunIn.
type RunOptions struct {
	// Buffer returns memory for the packed chunks. It is called at most once, with the number of
	// bytes. Without a result, a read that hangs may still write into the buffer, which must not
	// be reused then. NoWait excludes this case.
	Buffer func(size int) []byte

	All    bool // all chunks of r or none
	NoWait bool // only chunks in memory; the call never waits for the disk

	// Unchecked skips the checksums. The caller compares each chunk with its hash, or calls
	// Check.
	Unchecked bool
}

// drop forgets chunks and returns the number of those in the index. Queued puts may hold more
// of them: the writer drops these when it has stored them.
func (s *Store) drop(k index.Key, r codec.ChunkRange) int {
	wr := s.writer.Load()
	queued := wr != nil && wr.hasPuts() // before Drop, which misses a put that is entered later
	n := s.disk.Load().index.Drop(k, r)
	if wr != nil && (n > 0 || queued) {
		wr.dropped(k, r)
	}
	return n
}

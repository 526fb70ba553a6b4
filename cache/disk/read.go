package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
	"github.com/xetfs/xetfs/codec"
)

// read returns the bytes of chunks from the first of r on, each compared with its
// checksum unless into says otherwise, and how many chunks there are. If some moved while
// they were looked for, all are looked for once more.
func (s *Store) read(k key, r codec.ChunkRange, o RunOptions) (b []byte, n int) {
	var few [4]span
	for again := false; ; again = true {
		if s.down() != nil {
			return nil, 0
		}
		d := s.disk.Load()
		spans := d.find(k, r, few[:0])
		if len(spans) == 0 || o.All && spans[len(spans)-1].chunks.End < r.End {
			return nil, 0
		}
		if b == nil {
			b = o.Buffer(sizeOf(spans))
			r.End = spans[len(spans)-1].chunks.End // there is room for no more
		}
		if len(b) < sizeOf(spans) {
			return nil, 0 // other chunks than at first
		}
		n, err := s.readSpans(d, k, spans, b, o)
		if errors.Is(err, errMoved) && !again {
			continue
		}
		if o.All && n < r.Len() || n == 0 {
			return nil, 0
		}
		spans = firstChunks(spans, n)
		d.touch(spans)
		return b[:sizeOf(spans)], n
	}
}

// find returns the parts that hold the first chunks of r.
func (d *folder) find(k key, r codec.ChunkRange, spans []span) []span {
	d.index.mu.RLock()
	defer d.index.mu.RUnlock()
	return d.index.find(k, r, spans)
}

// touch counts that chunks were used.
func (d *folder) touch(spans []span) {
	d.index.mu.RLock()
	defer d.index.mu.RUnlock()
	for _, p := range spans {
		for i := range p.table {
			p.table[i].touch()
		}
	}
}

func sizeOf(spans []span) (n int) {
	for _, p := range spans {
		n += int(p.size)
	}
	return n
}

// firstChunks returns parts without what is behind the first n chunks.
func firstChunks(spans []span, n int) []span {
	for i := range spans {
		p := &spans[i]
		if c := p.chunks.Len(); c < n {
			n -= c
			continue
		}
		if n == 0 {
			return spans[:i]
		}
		p.chunks.End = p.chunks.Start + uint32(n)
		p.table = p.table[:n]
		p.size = p.table[n-1].end() - p.off
		return spans[:i+1]
	}
	return spans
}

// errMoved means that a segment went while somebody was about to read it.
var errMoved = errors.New("it was moved or evicted meanwhile")

// readSpans fills b and returns how many chunks from the first on are right. What it
// finds to be wrong is forgotten.
func (s *Store) readSpans(d *folder, k key, spans []span, b []byte, o RunOptions) (n int, err error) {
	bad := -1 // the first part that could not be read
	if done, size := tryRead(spans, b); done < len(spans) {
		if o.NoWait {
			return 0, errWouldWait
		}
		// The slow way keeps the parts; the others need not pay for that.
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
		good := p.chunks.Len()
		if !o.Unchecked {
			good = p.check(k, b)
		}
		n += good
		if good < p.chunks.Len() {
			c := p.chunks.Start + uint32(good)
			return n, s.damaged(k, p, c, errChecksum)
		}
		b = b[p.size:]
	}
	return n, nil
}

var errWouldWait = errors.New("not in memory")

// tryRead reads the parts that are in memory, up to the first that is not, and returns how
// many that are, and their bytes.
func tryRead(spans []span, b []byte) (n int, size int64) {
	for _, p := range spans {
		f := p.segment.open.Load()
		if f == nil || int64(f.TryRead(b[size:size+p.size], p.off)) != p.size {
			break
		}
		if !p.segment.recent.Load() {
			p.segment.recent.Store(true)
		}
		n, size = n+1, size+p.size
	}
	return n, size
}

// readSlowly reads the parts from the one at first on, and does not wait for ever. If the
// error is that of a part it says of which one, else bad is negative.
func (s *Store) readSlowly(d *folder, spans []span, first int, b []byte) (bad int, err error) {
	err = s.reads.do(func() error {
		for i, p := range spans[first:] {
			if err := d.readSpan(p, b[:p.size]); err != nil {
				return &spanError{first + i, err}
			}
			b = b[p.size:]
		}
		return nil
	})
	var failed *spanError
	if errors.As(err, &failed) {
		return failed.span, failed.err
	}
	return -1, err
}

// A spanError says which part could not be read.
type spanError struct {
	span int
	err  error
}

func (e *spanError) Error() string { return fmt.Sprintf("part %d: %v", e.span, e.err) }

func (e *spanError) Unwrap() error { return e.err }

var errChecksum = errors.New("not the bytes that were written")

// readSpan fills b. The file may have been closed to open others in its place.
func (d *folder) readSpan(p span, b []byte) error {
	for again := false; ; again = true {
		f, err := d.opened.get(d.Dir, p.segment)
		if err != nil {
			return err
		}
		_, err = f.ReadAt(b, p.off)
		if !errors.Is(err, os.ErrClosed) || again {
			return err
		}
	}
}

// check returns how many chunks at the start of b match their checksums.
func (p *span) check(k key, b []byte) int {
	seed := seed(k)
	for i := range p.table {
		if !p.matches(seed, i, b) {
			return i
		}
	}
	return len(p.table)
}

// matches says whether the i-th chunk of p, which is in b, matches its checksum.
func (p *span) matches(seed uint32, i int, b []byte) bool {
	start := p.off
	if i > 0 {
		start = p.table[i-1].end()
	}
	return checksum(seed, p.chunks.Start+uint32(i), b[start-p.off:p.table[i].end()-p.off]) == p.table[i].crc
}

// compare says whether the chunks of r are kept, and b is their bytes. It forgets each
// that differs.
func (s *Store) compare(k key, r codec.ChunkRange, b []byte) bool {
	var few [4]span
	spans := s.disk.Load().find(k, r, few[:0])
	if sizeOf(spans) != len(b) {
		return false // other chunks than were read, or fewer
	}
	n, seed := r.Len(), seed(k)
	for _, p := range spans {
		for i := range p.table {
			if p.matches(seed, i, b) {
				n--
				continue
			}
			_ = s.damaged(k, p, p.chunks.Start+uint32(i), errChecksum) // which is why
		}
		b = b[p.size:]
	}
	return n == 0
}

// unreadable forgets a part that could not be read, if that is the disk's fault.
func (s *Store) unreadable(k key, p span, err error) error {
	if p.segment.gone.Load() || errors.Is(err, os.ErrClosed) {
		return errMoved
	}
	if isResourceExhausted(err) {
		s.failed("reading "+p.segment.name(), err)
		return err
	}
	missing := errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, vfs.ErrForeign)
	if s.drop(k, p.chunks) > 0 && !s.gone(err) {
		s.dropped(describe(k, p.chunks), err)
	}
	if !missing {
		s.failed("reading "+p.segment.name(), err)
	}
	return err
}

// damaged forgets chunk c, which lies in part p, unless it is elsewhere by now.
func (s *Store) damaged(k key, p span, c uint32, err error) error {
	if p.segment.gone.Load() {
		return errMoved
	}
	r := codec.ChunkRange{Start: c, End: c + 1}
	if s.drop(k, r) > 0 {
		s.dropped(describe(k, r), err)
	}
	return err
}

package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/xetfs/xetfs/codec"
)

// read returns the bytes of chunks from the first of r on, each compared with its
// checksum unless into says otherwise, and how many chunks there are. If some moved while
// they were looked for, all are looked for once more.
func (s *Store) read(k key, r codec.ChunkRange, o RunOptions) (b []byte, n int) {
	var few [4]part
	for again := false; ; again = true {
		if s.down() != nil {
			return nil, 0
		}
		d := s.disk.Load()
		parts := d.find(k, r, few[:0])
		if len(parts) == 0 || o.All && parts[len(parts)-1].chunks.End < r.End {
			return nil, 0
		}
		if b == nil {
			b = o.Buffer(sizeOf(parts))
			r.End = parts[len(parts)-1].chunks.End // there is room for no more
		}
		if len(b) < sizeOf(parts) {
			return nil, 0 // other chunks than at first
		}
		n, err := s.readParts(d, k, parts, b, o)
		if errors.Is(err, errMoved) && !again {
			continue
		}
		if o.All && n < r.Len() || n == 0 {
			return nil, 0
		}
		parts = firstChunks(parts, n)
		d.touch(parts)
		return b[:sizeOf(parts)], n
	}
}

// find returns the parts that hold the first chunks of r.
func (d *folder) find(k key, r codec.ChunkRange, parts []part) []part {
	d.index.mu.RLock()
	defer d.index.mu.RUnlock()
	return d.index.find(k, r, parts)
}

// touch counts that chunks were used.
func (d *folder) touch(parts []part) {
	d.index.mu.RLock()
	defer d.index.mu.RUnlock()
	for _, p := range parts {
		for i := range p.table {
			p.table[i].touch()
		}
	}
}

func sizeOf(parts []part) (n int) {
	for _, p := range parts {
		n += int(p.size)
	}
	return n
}

// firstChunks returns parts without what is behind the first n chunks.
func firstChunks(parts []part, n int) []part {
	for i := range parts {
		p := &parts[i]
		if c := p.chunks.Len(); c < n {
			n -= c
			continue
		}
		if n == 0 {
			return parts[:i]
		}
		p.chunks.End = p.chunks.Start + uint32(n)
		p.table = p.table[:n]
		p.size = p.table[n-1].end() - p.off
		return parts[:i+1]
	}
	return parts
}

// errMoved means that a segment went while somebody was about to read it.
var errMoved = errors.New("it was moved or evicted meanwhile")

// readParts fills b and returns how many chunks from the first on are right. What it
// finds to be wrong is forgotten.
func (s *Store) readParts(d *folder, k key, parts []part, b []byte, o RunOptions) (n int, err error) {
	bad := -1 // the first part that could not be read
	if done, size := readNow(parts, b); done < len(parts) {
		if o.NoWait {
			return 0, errNotNow
		}
		// The slow way keeps the parts; the others need not pay for that.
		bad, err = s.readSlowly(d, slices.Clone(parts), done, b[size:])
	}
	if bad < 0 && err != nil {
		s.failed("reading", err)
		return 0, err
	}
	for i, p := range parts {
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

var errNotNow = errors.New("not in memory")

// readNow reads the parts that are in memory, up to the first that is not, and returns how
// many that are, and their bytes.
func readNow(parts []part, b []byte) (n int, size int64) {
	for _, p := range parts {
		f := p.segment.open.Load()
		if f == nil || int64(f.readNow(b[size:size+p.size], p.off)) != p.size {
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
func (s *Store) readSlowly(d *folder, parts []part, first int, b []byte) (bad int, err error) {
	err = s.reads.do(func() error {
		for i, p := range parts[first:] {
			if err := d.readPart(p, b[:p.size]); err != nil {
				return &partError{first + i, err}
			}
			b = b[p.size:]
		}
		return nil
	})
	var failed *partError
	if errors.As(err, &failed) {
		return failed.part, failed.err
	}
	return -1, err
}

// A partError says which part could not be read.
type partError struct {
	part int
	err  error
}

func (e *partError) Error() string { return fmt.Sprintf("part %d: %v", e.part, e.err) }

func (e *partError) Unwrap() error { return e.err }

var errChecksum = errors.New("not the bytes that were written")

// readPart fills b. The file may have been closed to open others in its place.
func (d *folder) readPart(p part, b []byte) error {
	for again := false; ; again = true {
		f, err := d.opened.get(d.files, p.segment)
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
func (p *part) check(k key, b []byte) int {
	seed := seed(k)
	for i := range p.table {
		if !p.matches(seed, i, b) {
			return i
		}
	}
	return len(p.table)
}

// matches says whether the i-th chunk of p, which is in b, matches its checksum.
func (p *part) matches(seed uint32, i int, b []byte) bool {
	start := p.off
	if i > 0 {
		start = p.table[i-1].end()
	}
	return checksum(seed, p.chunks.Start+uint32(i), b[start-p.off:p.table[i].end()-p.off]) == p.table[i].crc
}

// compare says whether the chunks of r are kept, and b is their bytes. It forgets each
// that differs.
func (s *Store) compare(k key, r codec.ChunkRange, b []byte) bool {
	var few [4]part
	parts := s.disk.Load().find(k, r, few[:0])
	if sizeOf(parts) != len(b) {
		return false // other chunks than were read, or fewer
	}
	n, seed := r.Len(), seed(k)
	for _, p := range parts {
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
func (s *Store) unreadable(k key, p part, err error) error {
	if p.segment.gone.Load() || errors.Is(err, os.ErrClosed) {
		return errMoved
	}
	if starved(err) {
		s.failed("reading "+p.segment.name(), err)
		return err
	}
	missing := errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, errForeign)
	if s.drop(k, p.chunks) > 0 && !s.gone(err) {
		s.dropped(describe(k, p.chunks), err)
	}
	if !missing {
		s.failed("reading "+p.segment.name(), err)
	}
	return err
}

// damaged forgets chunk c, which lies in part p, unless it is elsewhere by now.
func (s *Store) damaged(k key, p part, c uint32, err error) error {
	if p.segment.gone.Load() {
		return errMoved
	}
	r := codec.ChunkRange{Start: c, End: c + 1}
	if s.drop(k, r) > 0 {
		s.dropped(describe(k, r), err)
	}
	return err
}

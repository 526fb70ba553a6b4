// Package chunker cuts a stream into chunks at places that its content chooses, so
// that an insertion moves few of them.
//
// # Rule
//
// A rolling hash of 64 bits runs over the stream: for each byte b, h = h<<1 + gear[b].
// A byte leaves it after 64 steps. A chunk ends behind a byte where the upper 16 bits
// of h are zero, if it then has at least MinSize bytes; it ends at codec.MaxChunkSize
// bytes in any case, and with the stream. Chunks of random data have 64 KiB on average.
//
// The hash begins anew with every chunk. As its window is much shorter than the
// smallest chunk, that makes no difference where a chunk may end: whether a place is a
// candidate depends on the 64 bytes before it and on nothing else. So candidates can be
// looked for anywhere, in any order, and several at a time.
package chunker

import (
	"io"

	"github.com/xetfs/xetfs/codec"
)

// MinSize is the least number of bytes of a chunk that is not the last of its stream.
const MinSize = 8 << 10

const (
	window   = 64                     // bytes that the hash depends on
	boundary = uint64(1) << (64 - 16) // a hash below it ends a chunk
	readSize = 8 * codec.MaxChunkSize // bytes asked of the reader at a time
	bufSize  = readSize + codec.MaxChunkSize
)

// maxEmptyReads is how often a reader may give neither bytes nor an error.
const maxEmptyReads = 100

// A Chunker cuts a stream into chunks.
type Chunker struct {
	r    io.Reader
	buf  []byte // what was read
	from int    // of buf: where the next chunk begins
	ends []int  // candidates in buf, ascending, beyond from
	seen int    // of buf: up to here candidates were looked for
	err  error  // of the reader
}

// New returns a Chunker that cuts what r gives.
func New(r io.Reader) *Chunker {
	c := new(Chunker)
	c.Reset(r)
	return c
}

// Reset makes c cut another stream. It keeps its buffer.
func (c *Chunker) Reset(r io.Reader) {
	*c = Chunker{r: r, buf: c.buf[:0], ends: c.ends[:0]}
}

// Next returns the next chunk. It is valid until the following call.
// After the last chunk Next returns io.EOF.
func (c *Chunker) Next() ([]byte, error) {
	if len(c.buf)-c.from < codec.MaxChunkSize && c.err == nil {
		c.fill()
	}
	if c.err != nil && c.err != io.EOF { //nolint:errorlint // an error that wraps io.EOF is no end
		return nil, c.err
	}
	rest := c.buf[c.from:]
	if len(rest) == 0 {
		return nil, io.EOF
	}
	n := c.end() - c.from
	c.from += n
	return rest[:n:n], nil
}

// end returns where the chunk ends that begins at c.from.
func (c *Chunker) end() int {
	last := min(len(c.buf), c.from+codec.MaxChunkSize)
	for i, end := range c.ends {
		if end >= c.from+MinSize {
			c.ends = c.ends[i:]
			return min(end, last)
		}
	}
	c.ends = c.ends[:0]
	return last
}

// fill reads until a whole chunk of the largest size is there, or the stream ends, and
// looks for candidates in what came.
func (c *Chunker) fill() {
	if cap(c.buf) == 0 {
		c.buf = make([]byte, 0, bufSize)
	}
	// The window of the first new place reaches back before it.
	keep := max(0, min(c.from, c.seen-window))
	c.shift(keep)
	for empty := 0; len(c.buf) < cap(c.buf) && c.err == nil; {
		var n int
		n, c.err = c.r.Read(c.buf[len(c.buf):cap(c.buf)])
		c.buf = c.buf[:len(c.buf)+n]
		if empty++; n > 0 {
			empty = 0
		}
		if empty == maxEmptyReads && c.err == nil {
			c.err = io.ErrNoProgress
		}
	}
	c.ends = appendCandidates(c.ends, c.buf, c.seen)
	c.seen = len(c.buf)
}

// shift drops the first n bytes of the buffer.
func (c *Chunker) shift(n int) {
	c.buf = c.buf[:copy(c.buf, c.buf[n:])]
	c.from -= n
	c.seen -= n
	for i := range c.ends {
		c.ends[i] -= n
	}
}

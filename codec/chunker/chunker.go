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
// The hash begins anew with every chunk. As its window is much shorter than the smallest
// chunk, where a chunk may end depends on the 64 bytes before and on nothing else: the
// hash may begin as late as that before the first place that counts.
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
	err  error  // of the reader
}

// New returns a Chunker that cuts what r gives.
func New(r io.Reader) *Chunker { return &Chunker{r: r} }

// Reset makes c cut another stream. It keeps its buffer.
func (c *Chunker) Reset(r io.Reader) { *c = Chunker{r: r, buf: c.buf[:0]} }

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
	n := Cut(rest)
	c.from += n
	return rest[:n:n], nil
}

// fill reads until the buffer is full, or the stream ends.
func (c *Chunker) fill() {
	if cap(c.buf) == 0 {
		c.buf = make([]byte, 0, bufSize)
	}
	c.buf = c.buf[:copy(c.buf, c.buf[c.from:])]
	c.from = 0
	c.buf, c.err = Fill(c.r, c.buf)
}

// Fill reads into the room behind buf until it is full, or the stream ends or fails. The
// error is that of r, io.EOF included, or io.ErrNoProgress if r keeps giving nothing.
func Fill(r io.Reader, buf []byte) ([]byte, error) {
	for empty := 0; len(buf) < cap(buf); {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err != nil {
			return buf, err
		}
		if empty++; n > 0 {
			empty = 0
		}
		if empty == maxEmptyReads {
			return buf, io.ErrNoProgress
		}
	}
	return buf, nil
}

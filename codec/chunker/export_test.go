package chunker

import (
	"io"

	"github.com/xetfs/xetfs/codec"
)

const (
	readSize = 8 * codec.MaxChunkSize // bytes requested from the reader at a time
	bufSize  = readSize + codec.MaxChunkSize
)

// A Chunker cuts a stream into chunks.
type Chunker struct {
	r    io.Reader
	buf  []byte // bytes read
	from int    // of buf: where the next chunk begins
	err  error  // of the reader
}

// New returns a Chunker that cuts the bytes of r.
func New(r io.Reader) *Chunker { return &Chunker{r: r} }

// Reset makes c cut another stream. It reuses its buffer.
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

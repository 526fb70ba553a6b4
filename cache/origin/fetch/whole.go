package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// wholeBuffer is the size of the pieces that ReadWhole passes on.
const wholeBuffer = 64 << 10

// ReadWhole calls take with the bytes of an object from off on, in order, and with the size of
// the object, at least once. An error of take ends it. The bytes are valid during the call.
// Bytes that arrived are not requested again.
func (c *Client) ReadWhole(ctx context.Context, r Request, off int64, take func(b []byte, size int64) error) error {
	if off < 0 {
		return fmt.Errorf("%q: offset %d is negative", r.Key, off)
	}
	return c.retry(ctx, r.Key, true, func(ctx context.Context) (int, error) {
		from := off
		err := c.tryReadWhole(ctx, &r, from, func(b []byte, size int64) error {
			c.limits.bytes.Add(int64(len(b)))
			off += int64(len(b))
			return take(b, size)
		})
		return int(min(off-from, farStep)), err
	})
}

// tryReadWhole is one attempt of ReadWhole. An answer with too few bytes, and an interrupted one, is
// continued at the byte reached.
func (c *Client) tryReadWhole(ctx context.Context, r *Request, off int64, take func(b []byte, size int64) error) error {
	for steps := 1; ; steps++ {
		n, size, err := c.requestFrom(ctx, r, off, take)
		off += n
		switch left := size - off + n; {
		case err != nil:
			if steps == maxSteps || n < leastStep || !errors.As(err, new(lostError)) || ctx.Err() != nil {
				return err
			}
		case off >= size:
			return nil
		case n < leastStep || n < left/64:
			return mismatch(r.Key, "%d bytes instead of %d", n, left) // too short to be continued
		}
	}
}

// requestFrom sends one request for all bytes from off on. It returns the number of bytes that
// arrived, and the size of the object.
func (c *Client) requestFrom(ctx context.Context, r *Request, off int64, take func(b []byte, size int64) error) (n, size int64, err error) {
	a, err := c.send(ctx, http.MethodGet, r, field{"Range", fmt.Sprintf("bytes=%d-", off)})
	if err != nil {
		return 0, 0, err
	}
	defer a.end()
	length, size, err := a.rest(off)
	switch {
	case err != nil:
		return 0, size, err
	case length == 0:
		return 0, size, take(nil, size)
	}
	n, err = a.passOn(length, func(b []byte) error { return take(b, size) })
	return n, size, err
}

// rest returns the length of an answer to a request for all bytes from off on, and the size of
// the object.
func (a *answer) rest(off int64) (length, size int64, err error) {
	switch {
	case a.StatusCode == http.StatusOK && off == 0 && a.ContentLength >= 0:
		return a.ContentLength, a.ContentLength, nil
	case a.StatusCode == http.StatusOK:
		return 0, 0, a.ignored()
	case a.StatusCode != http.StatusPartialContent:
		part, err := a.emptyPart(false)
		return 0, part.Size, err
	}
	br, err := a.contentRange()
	if err == nil && (br.start != off || br.size < 0) {
		err = a.mismatch("Content-Range %.80q", a.Header.Get("Content-Range"))
	}
	return br.end - br.start, br.size, err
}

// passOn calls take with length bytes of the body, and returns the number of bytes that
// arrived.
func (a *answer) passOn(length int64, take func(b []byte) error) (n int64, err error) {
	buf := make([]byte, min(length, wholeBuffer))
	for n < length {
		m, err := a.Read(buf[:min(int64(len(buf)), length-n)])
		if m > 0 {
			if err := take(buf[:m]); err != nil {
				return n, err
			}
			n += int64(m)
		}
		switch {
		case n == length:
		case errors.Is(err, io.EOF):
			return n, a.lost(errEndedEarly)
		case err != nil:
			return n, a.lost(err)
		}
	}
	return n, nil
}

package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/xetfs/xetfs/cache/origin"
)

// Head returns the size and the headers of an object.
func (c *Client) Head(ctx context.Context, r Request) (size int64, header http.Header, err error) {
	err = c.Retry(ctx, r.Key, func(ctx context.Context) error {
		size, header, err = c.head(ctx, &r)
		return err
	})
	return size, header, err
}

// head is one attempt of Head.
func (c *Client) head(ctx context.Context, r *Request) (int64, http.Header, error) {
	a, err := c.send(ctx, http.MethodHead, r)
	if err != nil {
		return 0, nil, err
	}
	defer a.end()
	if a.StatusCode != http.StatusOK || a.ContentLength < 0 {
		return 0, nil, a.permanent("%w: no size with %s", errMethod, statusText(a.StatusCode))
	}
	return a.ContentLength, a.Header, nil
}

// Size returns the size of an object, also from a server that does not support HEAD.
func (c *Client) Size(ctx context.Context, r Request) (size int64, err error) {
	err = c.Retry(ctx, r.Key, func(ctx context.Context) error {
		size, err = c.size(ctx, &r)
		return err
	})
	return size, err
}

// size is one attempt of Size.
func (c *Client) size(ctx context.Context, r *Request) (int64, error) {
	size, _, err := c.head(ctx, r)
	if !errors.Is(err, errMethod) {
		return size, err
	}
	var p partial
	err = c.tryReadPart(ctx, r, 0, 1, &p)
	return p.Size, err
}

// ReadPart returns up to n bytes of an object from off and its size; if off is negative, the
// last n bytes, or all. A part behind the end is empty, without an error. Bytes that arrived are
// not requested again.
func (c *Client) ReadPart(ctx context.Context, r Request, off int64, n int) (origin.Part, error) {
	var p partial
	err := c.retry(ctx, r.Key, false, func(ctx context.Context) (int, error) {
		before := p.done
		err := c.tryReadPart(ctx, &r, off, n, &p)
		return max(0, p.done-before), err
	})
	if err != nil {
		return origin.Part{}, err
	}
	return p.Part, nil
}

// A partial is a part of an object. Its first bytes have arrived.
type partial struct {
	origin.Part
	done      int
	validator string // of the object; empty: the part cannot be continued
}

// tryReadPart is one attempt of ReadPart. It continues p if its place is known.
func (c *Client) tryReadPart(ctx context.Context, r *Request, off int64, n int, p *partial) error {
	tail := off < 0
	switch {
	case p.done > 0:
		return c.continuePart(ctx, r, p)
	case tail && c.noSuffix.Load():
		return c.readTail(ctx, r, n, p)
	}
	want := fmt.Sprintf("bytes=%d-%d", off, off+int64(n)-1)
	if tail {
		want = fmt.Sprintf("bytes=-%d", n)
	}
	a, err := c.send(ctx, http.MethodGet, r, field{"Range", want})
	if err != nil {
		return err
	}
	err = a.part(off, n, p) // this releases the connection, which may be the only one
	switch {
	case tail && (errors.Is(err, errNoSuffix) || errors.Is(err, ErrIgnored)):
		c.noSuffix.Store(true)
		return c.readTail(ctx, r, n, p)
	case err != nil && p.done > 0:
		return c.continuePart(ctx, r, p)
	}
	return err
}

// continuePart reads the missing bytes of p. If the object was replaced, the next attempt begins anew.
func (c *Client) continuePart(ctx context.Context, r *Request, p *partial) error {
	from := p.done
	err := c.tryReadAt(ctx, r, p.Bytes[from:], p.Off+int64(from), p.validator, func(n int) { p.done = from + n })
	if errors.Is(err, errReplaced) {
		*p = partial{}
	}
	return err
}

// errNoSuffix is the error of a server that does not support suffix ranges, or does not return
// the size of the object.
var errNoSuffix = errors.New("the server does not return the end of an object")

// readTail is ReadPart for the end of an object from a server without suffix ranges.
func (c *Client) readTail(ctx context.Context, r *Request, n int, p *partial) error {
	size, err := c.size(ctx, r)
	if err != nil {
		return err
	}
	p.Part = origin.Part{Bytes: make([]byte, min(size, int64(n))), Off: max(0, size-int64(n)), Size: size}
	return c.tryReadAt(ctx, r, p.Bytes, p.Off, "", func(int) {})
}

// part takes the part out of an answer and ends it.
func (a *answer) part(off int64, n int, p *partial) (err error) {
	defer a.end()
	switch {
	case a.StatusCode == http.StatusOK:
		p.Part, err = a.partOfWhole(off, n)
	case a.StatusCode != http.StatusPartialContent:
		p.Part, err = a.emptyPart(off < 0)
	case off < 0 && strings.HasSuffix(a.Header.Get("Content-Range"), "/*"):
		err = errNoSuffix
	default:
		err = a.partOfRange(off, n, p)
	}
	return err
}

// partOfRange takes the requested part. It sets p.done if the rest of the body was lost, and the
// part can be continued.
func (a *answer) partOfRange(off int64, n int, p *partial) error {
	if strings.HasSuffix(a.Header.Get("Content-Range"), "/0") {
		return nil // an empty range has no spelling; some servers use this one
	}
	br, err := a.contentRange()
	if err != nil {
		return err
	}
	if off < 0 {
		off = max(0, br.size-int64(n))
	}
	if br.size < 0 || br.start != off || br.end != min(br.size, off+int64(n)) {
		return a.mismatch("Content-Range %.80q", a.Header.Get("Content-Range"))
	}
	p.Part = origin.Part{Bytes: make([]byte, br.end-br.start), Off: br.start, Size: br.size}
	if done, err := a.read(p.Bytes); err != nil {
		if p.validator = a.validator(); p.validator != "" && done >= leastStep {
			p.done = done
		}
		return err
	}
	a.finish()
	return nil
}

// partOfWhole takes the part out of a whole object.
func (a *answer) partOfWhole(off int64, n int) (origin.Part, error) {
	size := a.ContentLength
	if off < 0 {
		off = max(0, size-int64(n))
	}
	end := min(size, off+int64(n))
	if size < 0 || end > maxWhole {
		return origin.Part{}, a.ignored()
	}
	all := make([]byte, end) // off may be far behind the object
	if _, err := a.read(all); err != nil {
		return origin.Part{}, err
	}
	return origin.Part{Bytes: all[min(off, end):], Off: min(off, end), Size: size}, nil
}

// emptyPart is for an object that has no byte of the part, as status 416 reports. A server
// without suffix ranges may report this for the end of any file.
func (a *answer) emptyPart(tail bool) (origin.Part, error) {
	size, err := a.unsatisfiedSize()
	switch {
	case a.StatusCode != http.StatusRequestedRangeNotSatisfiable:
		return origin.Part{}, a.mismatch("the server says %s", statusText(a.StatusCode))
	case err == nil && (size == 0 || !tail):
		return origin.Part{Off: size, Size: size}, nil
	case tail:
		return origin.Part{}, errNoSuffix
	}
	return origin.Part{}, a.mismatch("no size with %s", statusText(a.StatusCode))
}

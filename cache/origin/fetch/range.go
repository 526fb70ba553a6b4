package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/xetfs/xetfs/cache/origin"
)

// maxWhole bounds what is read of a whole object that arrives instead of a part.
const maxWhole = 1 << 20

// ErrIgnored is the error of a whole object instead of a part that is behind maxWhole.
var ErrIgnored = errors.New("the server ignores ranges")

// errReplaced is the error of an answer that cannot continue an earlier one.
var errReplaced = errors.New("it was replaced while it was read")

// ReadAt fills p with the bytes of an object from off on, or returns an error. It calls
// progress with the number of final bytes at the start of p, but not for all of p. Bytes that
// arrived are not requested again.
func (c *Client) ReadAt(ctx context.Context, r Request, p []byte, off int64, progress func(n int)) error {
	if off < 0 {
		return fmt.Errorf("%q: offset %d is negative", r.Key, off)
	}
	done := 0
	return c.retry(ctx, r.Key, true, func(ctx context.Context) (int, error) {
		from := done
		err := c.tryReadAt(ctx, &r, p[from:], off+int64(from), "", func(n int) {
			c.limits.bytes.Add(int64(from + n - done))
			done = from + n
			progress(done)
		})
		return done - from, err
	})
}

// tryReadAt is one attempt of ReadAt. It continues an interrupted answer at the byte reached. Another
// ETag or Last-Modified shows that the object was replaced meanwhile; without both, the answer
// is not continued. validator is that of an earlier answer, or empty.
func (c *Client) tryReadAt(ctx context.Context, r *Request, p []byte, off int64, validator string, progress func(n int)) error {
	for done, steps := 0, 1; done < len(p); steps++ {
		from := done
		n, now, err := c.requestRange(ctx, r, p[from:], off+int64(from), validator, func(n int) { progress(from + n) })
		if err != nil && (steps == maxSteps || n < leastStep || now == "" || ctx.Err() != nil) {
			return err
		}
		done, validator = from+n, now
	}
	return nil
}

// leastStep is the number of bytes that an interrupted answer needs to be continued at once. A
// server that always stops earlier could not deliver a large object. maxSteps bounds the requests
// of an attempt, and so their rate: a pause follows.
const (
	leastStep = 2 << 10
	maxSteps  = 16
)

// requestRange sends one request. validator is empty, or that of an earlier answer, and must equal
// that of this one. requestRange returns the number of bytes that arrived and the validator of the
// object. An empty validator cannot distinguish two objects.
func (c *Client) requestRange(ctx context.Context, r *Request, p []byte, off int64, validator string, progress func(n int)) (int, string, error) {
	end := off + int64(len(p))
	fields := []field{{"Range", fmt.Sprintf("bytes=%d-%d", off, end-1)}}
	if strings.HasPrefix(validator, `"`) { // If-Range takes only strong tags
		fields = append(fields, field{"If-Range", validator})
	}
	a, err := c.send(ctx, http.MethodGet, r, fields...)
	if err != nil {
		return 0, "", err
	}
	defer a.end()
	now := a.validator()
	switch {
	case validator != "" && now != validator:
		return 0, "", a.unavailable("%w", errReplaced)
	case a.StatusCode == http.StatusOK:
		return a.readFromWhole(p, off)
	case a.StatusCode != http.StatusPartialContent:
		return 0, "", a.behindEnd(off, len(p))
	}
	br, err := a.contentRange()
	switch {
	case err != nil:
		return 0, "", err
	case br.start != off || br.end > end:
		return 0, "", a.mismatch("bytes [%d, %d) instead of [%d, %d)", br.start, br.end, off, end)
	case br.end < end && br.end == br.size:
		return 0, "", a.short(off, len(p), br.size)
	}
	n, err := a.readProgress(p[:br.end-off], progress)
	if err == nil {
		a.finish()
		if n < len(p) {
			err = a.mismatch("%d bytes instead of %d", n, len(p)) // a server may return less
		}
	}
	return n, now, err
}

// short is the error of n bytes at off of an object that has only size bytes.
func (a *answer) short(off int64, n int, size int64) error {
	return origin.Short(a.r.Key, off, n, size)
}

// validator returns the ETag of the object, or else its time.
func (a *answer) validator() string {
	if tag := a.Header.Get("ETag"); tag != "" {
		return tag
	}
	return a.Header.Get("Last-Modified")
}

// readFromWhole takes a part out of a whole object that arrived instead. The part must end
// within the first maxWhole bytes, or be the whole object. Some servers send small files whole,
// and some answer a range of all bytes with status 200.
func (a *answer) readFromWhole(p []byte, off int64) (int, string, error) {
	end := off + int64(len(p))
	if a.ContentLength >= 0 && a.ContentLength < end {
		return 0, "", a.short(off, len(p), a.ContentLength)
	}
	if all := off == 0 && a.ContentLength == int64(len(p)); !all && end > maxWhole {
		return 0, "", a.ignored()
	}
	if _, err := a.read(make([]byte, off)); err != nil {
		return 0, "", err
	}
	n, err := a.read(p)
	return n, "", err
}

// ignored is the error of a server that ignores ranges.
func (a *answer) ignored() error {
	return a.permanent("%w: it returns whole files instead", ErrIgnored)
}

// behindEnd is the error of a part that the object does not have, as status 416 reports.
func (a *answer) behindEnd(off int64, n int) error {
	if a.StatusCode != http.StatusRequestedRangeNotSatisfiable {
		return a.mismatch("the server says %s", statusText(a.StatusCode))
	}
	size, err := a.unsatisfiedSize()
	if err != nil || size > off {
		size = off // at most
	}
	return a.short(off, n, size)
}

// unsatisfiedSize returns the size of the object in an answer with status 416: "bytes */1000".
func (a *answer) unsatisfiedSize() (int64, error) {
	_, size, _ := strings.Cut(a.Header.Get("Content-Range"), "*/")
	return parseNumber(size)
}

// A byteRange is the position of a part: bytes start ≤ i < end of size. The size is -1 if the
// server does not send it.
type byteRange struct{ start, end, size int64 }

// contentRange parses the header with the range of this part: "bytes 0-99/1000". If the length
// of the answer is known, both must agree.
func (a *answer) contentRange() (byteRange, error) {
	text := a.Header.Get("Content-Range")
	br, ok := parseContentRange(text)
	switch {
	case !ok:
		return br, a.mismatch("Content-Range %.80q", text)
	case a.ContentLength >= 0 && a.ContentLength != br.end-br.start:
		return br, a.mismatch("%d bytes for Content-Range %.80q", a.ContentLength, text)
	}
	return br, nil
}

func parseContentRange(text string) (br byteRange, ok bool) {
	text, ok = strings.CutPrefix(text, "bytes ")
	span, total, ok2 := strings.Cut(text, "/")
	first, last, ok3 := strings.Cut(span, "-")
	var errs [3]error
	br.start, errs[0] = parseNumber(first)
	br.end, errs[1] = parseNumber(last)
	br.end++
	br.size = -1
	if total != "*" {
		br.size, errs[2] = parseNumber(total)
	}
	ok = ok && ok2 && ok3 && errors.Join(errs[:]...) == nil &&
		br.start < br.end && (br.size < 0 || br.end <= br.size)
	return br, ok
}

func parseNumber(text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 62)
	return int64(n), err //nolint:gosec // it has 62 bits
}

// SupportsRanges reports whether the server answers a request for one byte of an existing
// object with that byte. Some servers return small files whole; their Accept-Ranges decides.
func (c *Client) SupportsRanges(ctx context.Context, r Request) (bool, error) {
	a, err := c.send(ctx, http.MethodGet, &r, field{"Range", "bytes=0-0"})
	if err != nil {
		return false, err
	}
	defer a.discard()
	accepts := strings.EqualFold(strings.TrimSpace(a.Header.Get("Accept-Ranges")), "bytes")
	return a.StatusCode != http.StatusOK || a.ContentLength == 1 || accepts, nil
}

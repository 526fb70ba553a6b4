package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// maxWhole is how much is read of a whole object that came instead of a part.
const maxWhole = 1 << 20

// ReadAt implements origin.Store.
func (s *Store) ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error {
	return s.ReadAtProgress(ctx, k, p, off, func(int) {})
}

// ReadAtProgress implements origin.ProgressReader. It continues an interrupted answer where it
// ended. Another ETag or Last-Modified shows that the object was replaced meanwhile; without
// both, the answer is not continued.
func (s *Store) ReadAtProgress(ctx context.Context, k names.Key, p []byte, off int64, came func(n int)) error {
	if off < 0 {
		return fmt.Errorf("%q: offset %d is negative", k, off)
	}
	var state string // of the object, as the first answer showed it
	for done := 0; done < len(p); {
		from := done
		n, now, err := s.readSome(ctx, k, p[from:], off+int64(from), state, func(n int) { came(from + n) })
		if err != nil && (n < leastStep || n < (len(p)-from)/64 || now == "" || ctx.Err() != nil) {
			return err
		}
		done, state = from+n, now
	}
	return nil
}

// leastStep is the number of bytes that an interrupted answer needs to be continued. A server
// that always stops earlier could not deliver a large object.
const leastStep = 1 << 10

// readSome is one request. state is empty, or the state of an earlier answer, and must be equal
// to that of this one. It returns the number of bytes that arrived and the state of the object.
// An empty state cannot distinguish two objects.
func (s *Store) readSome(ctx context.Context, k names.Key, p []byte, off int64, state string, came func(n int)) (int, string, error) {
	header := map[string]string{"Range": fmt.Sprintf("bytes=%d-%d", off, off+int64(len(p))-1)}
	if strings.HasPrefix(state, `"`) { // If-Range takes only strong tags
		header["If-Range"] = state
	}
	a, err := s.ask(ctx, http.MethodGet, k, header)
	if err != nil {
		return 0, "", err
	}
	defer a.close()
	now := a.state()
	switch {
	case state != "" && now != state:
		return 0, "", a.failed("it was replaced while it was read")
	case a.StatusCode == http.StatusOK:
		return a.readWhole(p, off)
	case a.StatusCode != http.StatusPartialContent:
		return 0, "", a.tooShort(off, len(p))
	}
	r, err := a.contentRange()
	if err != nil {
		return 0, "", err
	}
	most := off + int64(len(p))
	switch {
	case r.start != off || r.end > most:
		return 0, "", a.mismatch("bytes [%d, %d) instead of [%d, %d)", r.start, r.end, off, most)
	case r.end < most && r.end == r.size:
		return 0, "", origin.Short(k, off, len(p), r.size)
	}
	n, err := a.readTelling(p[:r.end-off], came)
	if err == nil {
		a.finish()
		if n < len(p) {
			err = a.mismatch("%d bytes instead of %d", n, len(p)) // servers may give less than is asked for
		}
	}
	return n, now, err
}

// state returns the validator of this content of the object: its ETag or else its time.
func (a *answer) state() string {
	if tag := a.Header.Get("ETag"); tag != "" {
		return tag
	}
	return a.Header.Get("Last-Modified")
}

// readWhole takes a part out of a whole object that arrived instead. The part must end within
// the first maxWhole bytes, or be the whole object. Some servers send small files whole, and
// some answer a range of all bytes with status 200.
func (a *answer) readWhole(p []byte, off int64) (int, string, error) {
	if a.ContentLength >= 0 && a.ContentLength < off+int64(len(p)) {
		return 0, "", origin.Short(a.key, off, len(p), a.ContentLength)
	}
	if all := off == 0 && a.ContentLength == int64(len(p)); !all && off+int64(len(p)) > maxWhole {
		return 0, "", a.final("%w: it gives whole files instead", errIgnored)
	}
	skip := make([]byte, off)
	if _, err := a.read(skip); err != nil {
		return 0, "", err
	}
	n, err := a.read(p)
	return n, "", err
}

// tooShort is the error of a part that the object does not have, as status 416 says.
func (a *answer) tooShort(off int64, n int) error {
	if a.StatusCode != http.StatusRequestedRangeNotSatisfiable {
		return a.mismatch("the server says %s", status(a.StatusCode))
	}
	_, total, _ := strings.Cut(a.Header.Get("Content-Range"), "*/")
	size, err := strconv.ParseInt(total, 10, 64)
	if err != nil || size < 0 || size > off {
		size = off // at most
	}
	return origin.Short(a.key, off, n, size)
}

// A byteRange is what a part is: bytes start ≤ i < end of size; size is -1 if the server
// does not say.
type byteRange struct{ start, end, size int64 }

// contentRange parses the header with the range of this part: "bytes 0-99/1000". If the length
// of the answer is known, both must agree.
func (a *answer) contentRange() (byteRange, error) {
	text := a.Header.Get("Content-Range")
	r, ok := parseContentRange(text)
	switch {
	case !ok:
		return r, a.mismatch("Content-Range %.80q", text)
	case a.ContentLength >= 0 && a.ContentLength != r.end-r.start:
		return r, a.mismatch("%d bytes for Content-Range %.80q", a.ContentLength, text)
	}
	return r, nil
}

func parseContentRange(text string) (r byteRange, ok bool) {
	text, ok = strings.CutPrefix(text, "bytes ")
	span, total, ok2 := strings.Cut(text, "/")
	first, last, ok3 := strings.Cut(span, "-")
	var errs [3]error
	r.start, errs[0] = parseNumber(first)
	r.end, errs[1] = parseNumber(last)
	r.end++
	r.size = -1
	if total != "*" {
		r.size, errs[2] = parseNumber(total)
	}
	ok = ok && ok2 && ok3 && errors.Join(errs[:]...) == nil &&
		r.start < r.end && (r.size < 0 || r.end <= r.size)
	return r, ok
}

func parseNumber(text string) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 62)
	return int64(n), err //nolint:gosec // it has 62 bits
}

// Size implements origin.Store.
func (s *Store) Size(ctx context.Context, k names.Key) (int64, error) {
	a, err := s.ask(ctx, http.MethodHead, k, nil)
	if err == nil {
		defer a.close()
		if a.StatusCode == http.StatusOK && a.ContentLength >= 0 {
			return a.ContentLength, nil
		}
	} else if !errors.Is(err, errMethod) {
		return 0, err
	}
	// It does not know HEAD, or does not say.
	part, err := s.ReadPart(ctx, k, 0, 1)
	return part.Size, err
}

// ReadPart implements origin.PartReader.
func (s *Store) ReadPart(ctx context.Context, k names.Key, off int64, n int) (origin.Part, error) {
	tail := off < 0
	if tail && s.noTail.Load() {
		return s.peekTail(ctx, k, n)
	}
	want := fmt.Sprintf("bytes=%d-%d", off, off+int64(n)-1)
	if tail {
		want = fmt.Sprintf("bytes=-%d", n)
	}
	a, err := s.ask(ctx, http.MethodGet, k, map[string]string{"Range": want})
	if err != nil {
		return origin.Part{}, err
	}
	part, err := a.peek(off, n) // its connection is free then: it may be the only one
	if tail && (errors.Is(err, errNoTail) || errors.Is(err, errIgnored)) {
		s.noTail.Store(true)
		return s.peekTail(ctx, k, n)
	}
	return part, err
}

// errNoTail says that a server does not know the end of an object, or not where that is.
var errNoTail = errors.New("the server does not give the end of an object")

// ErrNoRanges says that a server answers a request for one byte with a whole object.
var ErrNoRanges = errors.New("the web server ignores ranges, so parts of files cannot be read; nginx, Apache and xetfs serve --plain support ranges")

// CheckRanges returns ErrNoRanges if the server ignores ranges. k is an object that exists.
// Some servers that support ranges answer with small files whole: their header
// Accept-Ranges is believed.
func (s *Store) CheckRanges(ctx context.Context, k names.Key) error {
	a, err := s.ask(ctx, http.MethodGet, k, map[string]string{"Range": "bytes=0-0"})
	if err != nil {
		return err
	}
	defer a.forget()
	supported := strings.EqualFold(strings.TrimSpace(a.Header.Get("Accept-Ranges")), "bytes")
	if a.StatusCode == http.StatusOK && a.ContentLength != 1 && !supported {
		return ErrNoRanges
	}
	return nil
}

// peek takes the part out of an answer and closes it.
func (a *answer) peek(off int64, n int) (origin.Part, error) {
	defer a.close()
	switch {
	case a.StatusCode == http.StatusOK:
		return a.peekWhole(off, n)
	case a.StatusCode != http.StatusPartialContent:
		return a.peekNothing(off < 0)
	case off < 0 && strings.HasSuffix(a.Header.Get("Content-Range"), "/*"):
		return origin.Part{}, errNoTail
	}
	return a.peekPart(off, n)
}

// peekPart takes the part that was asked for.
func (a *answer) peekPart(off int64, n int) (origin.Part, error) {
	if strings.HasSuffix(a.Header.Get("Content-Range"), "/0") {
		return origin.Part{}, nil // some spell the range of nothing so, which has no spelling
	}
	r, err := a.contentRange()
	if err != nil {
		return origin.Part{}, err
	}
	if off < 0 {
		off = max(0, r.size-int64(n))
	}
	if r.size < 0 || r.start != off || r.end != min(r.size, off+int64(n)) {
		return origin.Part{}, a.mismatch("Content-Range %.80q", a.Header.Get("Content-Range"))
	}
	part := origin.Part{Bytes: make([]byte, r.end-r.start), Off: r.start, Size: r.size}
	if _, err := a.read(part.Bytes); err != nil {
		return origin.Part{}, err
	}
	a.finish()
	return part, nil
}

// errIgnored says that a whole object came, of which the part is too far behind.
var errIgnored = errors.New("the server ignores ranges")

// peekWhole takes the part out of a whole object.
func (a *answer) peekWhole(off int64, n int) (origin.Part, error) {
	size := a.ContentLength
	if off < 0 {
		off = max(0, size-int64(n))
	}
	end := min(size, off+int64(n))
	if size < 0 || end > maxWhole {
		return origin.Part{}, a.final("%w: it gives whole files instead", errIgnored)
	}
	all := make([]byte, end) // not off, which may be far behind the object
	if _, err := a.read(all); err != nil {
		return origin.Part{}, err
	}
	return origin.Part{Bytes: all[min(off, end):], Off: min(off, end), Size: size}, nil
}

// peekNothing is for an object that has no byte of the part, as status 416 says. A server
// may say so of the end of any file because it does not know what is meant.
func (a *answer) peekNothing(tail bool) (origin.Part, error) {
	_, total, _ := strings.Cut(a.Header.Get("Content-Range"), "*/")
	size, err := parseNumber(total)
	switch {
	case a.StatusCode != http.StatusRequestedRangeNotSatisfiable:
		return origin.Part{}, a.mismatch("the server says %s", status(a.StatusCode))
	case err == nil && (size == 0 || !tail):
		return origin.Part{Off: size, Size: size}, nil
	case tail:
		return origin.Part{}, errNoTail
	}
	return origin.Part{}, a.mismatch("no size with %s", status(a.StatusCode))
}

// peekTail is ReadPart for the end of an object from a server that does not know what that is.
func (s *Store) peekTail(ctx context.Context, k names.Key, n int) (origin.Part, error) {
	size, err := s.Size(ctx, k)
	if err != nil {
		return origin.Part{}, err
	}
	part := origin.Part{Bytes: make([]byte, min(size, int64(n))), Off: max(0, size-int64(n)), Size: size}
	return part, s.ReadAt(ctx, k, part.Bytes, part.Off)
}

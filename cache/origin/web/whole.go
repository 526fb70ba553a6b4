package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// wholeBuffer is how much of an object ReadWhole passes on at once.
const wholeBuffer = 64 << 10

// ReadWhole implements origin.WholeReader. An answer that is cut off is the caller's to
// continue; one that is shorter than was asked for is continued here.
func (s *Store) ReadWhole(ctx context.Context, k names.Key, off int64, take func(b []byte, size int64) error) error {
	if off < 0 {
		return fmt.Errorf("%q: offset %d is negative", k, off)
	}
	for {
		n, size, err := s.readRest(ctx, k, off, take)
		if off += n; err != nil || off >= size {
			return err
		}
		if left := size - off + n; n < leastStep || n < left/64 {
			return tooLittle(k, n, left)
		}
	}
}

// tooLittle is the error of an answer that is too short for the next request to be worth it.
func tooLittle(k names.Key, n, left int64) error {
	err := fmt.Errorf("%q: %w: the answer does not fit: %d bytes instead of %d", k, origin.ErrUnavailable, n, left)
	return &origin.HintError{Err: err, Tries: 2}
}

// readRest is one request for all bytes from off on. It returns how many came, and the size
// of the object.
func (s *Store) readRest(ctx context.Context, k names.Key, off int64, take func(b []byte, size int64) error) (n, size int64, err error) {
	a, err := s.ask(ctx, http.MethodGet, k, map[string]string{"Range": fmt.Sprintf("bytes=%d-", off)})
	if err != nil {
		return 0, 0, err
	}
	defer a.close()
	length := a.ContentLength
	switch {
	case a.StatusCode == http.StatusOK && off == 0 && length >= 0:
		size = length
	case a.StatusCode == http.StatusOK:
		return 0, 0, a.final("%w: it gives whole files instead", errIgnored)
	case a.StatusCode != http.StatusPartialContent:
		part, err := a.peekNothing(false)
		if err != nil {
			return 0, 0, err
		}
		return 0, part.Size, take(nil, part.Size)
	default:
		r, err := a.contentRange()
		if err != nil {
			return 0, 0, err
		}
		if r.start != off || r.size < 0 {
			return 0, 0, a.mismatch("Content-Range %.80q", a.Header.Get("Content-Range"))
		}
		length, size = r.end-r.start, r.size
	}
	if length == 0 {
		return 0, size, take(nil, size)
	}
	n, err = a.passOn(length, func(b []byte) error { return take(b, size) })
	return n, size, err
}

// passOn calls take with length bytes of the body, and returns how many came.
func (a *answer) passOn(length int64, take func(b []byte) error) (n int64, err error) {
	buf := make([]byte, min(length, wholeBuffer))
	for n < length {
		m, err := a.Body.Read(buf[:min(int64(len(buf)), length-n)])
		a.watch.came(m)
		if m > 0 {
			if err := take(buf[:m]); err != nil {
				return n, err
			}
			n += int64(m)
		}
		switch {
		case n == length:
		case errors.Is(err, io.EOF):
			return n, a.broken(errors.New("the answer ended early"))
		case err != nil:
			return n, a.broken(err)
		}
	}
	return n, nil
}

var _ origin.WholeReader = (*Store)(nil)

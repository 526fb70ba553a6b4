package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/xetfs/xetfs/cache/origin"
)

// ErrPastEnd is the error of Get for a range behind the end of a document. The server says 416.
var ErrPastEnd = errors.New("the range is behind the end")

// Get returns a whole object of at most limit bytes and the headers of the answer. A longer
// object is codec.ErrCorrupt. If r.Header has a condition and the object does not fulfill it,
// the error is origin.ErrUnchanged. A header Range selects a part of a document that a server
// generates, which it sends with status 200.
func (c *Client) Get(ctx context.Context, r Request, limit int64) (value []byte, header http.Header, err error) {
	err = c.Retry(ctx, r.Key, func(ctx context.Context) error {
		value, header, err = c.get(ctx, &r, limit)
		return err
	})
	return value, header, err
}

// get is one attempt of Get.
func (c *Client) get(ctx context.Context, r *Request, limit int64) ([]byte, http.Header, error) {
	a, err := c.send(ctx, http.MethodGet, r)
	if err != nil {
		return nil, nil, err
	}
	defer a.end()
	switch {
	case a.StatusCode == http.StatusNotModified && len(r.Header) > 0:
		return nil, a.Header, origin.ErrUnchanged
	case a.StatusCode == http.StatusRequestedRangeNotSatisfiable && r.Header.Get("Range") != "":
		return nil, a.Header, fmt.Errorf("%q: %w", r.Key, ErrPastEnd)
	case a.StatusCode != http.StatusOK:
		return nil, nil, a.mismatch("the server says %s", statusText(a.StatusCode))
	}
	value, err := a.readAll(limit)
	return value, a.Header, err
}

// firstRead bounds the memory that is allocated before any byte of an answer has arrived.
const firstRead = 1 << 20

// readAll reads an answer of at most limit bytes. Memory grows with the bytes that arrive.
func (a *answer) readAll(limit int64) ([]byte, error) {
	if a.ContentLength > limit {
		return nil, origin.Long(a.r.Key, limit)
	}
	most := limit
	if a.ContentLength >= 0 {
		most = a.ContentLength
	}
	b, err := origin.ReadBounded(a, min(a.ContentLength, firstRead)+1, most+1)
	switch {
	case err != nil:
		return nil, a.lost(err)
	case int64(len(b)) > limit:
		return nil, origin.Long(a.r.Key, limit)
	case a.ContentLength >= 0 && int64(len(b)) != a.ContentLength:
		return nil, a.lost(errEndedEarly)
	}
	return b, nil
}

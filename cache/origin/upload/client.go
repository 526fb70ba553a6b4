package upload

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// MinRate is the lowest average rate at which a client may send a body, in bytes per second. A link
// of 1 Mbit/s with eight uploads at once has about twice as much for each.
const MinRate = 8 << 10

// ErrSlow means that a body arrives below MinRate. The client may try again.
var ErrSlow = errors.New("the body arrives too slowly")

// A ReadDeadliner limits the reads of a connection. *http.ResponseController implements it.
type ReadDeadliner interface{ SetReadDeadline(t time.Time) error }

// A ClientBody reads the body of a client, which may be of any length. It bounds the time for which a
// slow client holds its slot. Reads use up a credit of time. Each byte adds 1/MinRate of a second to
// the credit, up to the idle time. A body below MinRate thus ends with ErrSlow, and so does one
// without a byte for the idle time. Time between reads is that of the server and costs nothing.
type ClientBody struct {
	r      io.Reader
	c      ReadDeadliner
	idle   time.Duration
	credit time.Duration // time that reads may still take
	end    time.Time     // of a Drain; zero: no limit
	count  int64         // bytes that were read
}

// NewClientBody returns a ClientBody over r, which is read from the connection of c.
func NewClientBody(r io.Reader, c ReadDeadliner, idle time.Duration) *ClientBody {
	return &ClientBody{r: r, c: c, idle: idle, credit: idle}
}

// Read implements io.Reader. At the end of the body, it removes the deadline: the answer may take
// longer, and net/http would cancel the request.
func (b *ClientBody) Read(p []byte) (int, error) {
	start := time.Now()
	limit := b.credit
	if !b.end.IsZero() {
		limit = min(limit, b.end.Sub(start))
	}
	if limit <= 0 {
		return 0, b.slow()
	}
	_ = b.c.SetReadDeadline(start.Add(limit)) // an unsupported limit is that of the server
	n, err := b.r.Read(p)
	took := time.Since(start)
	b.count += int64(n)
	switch {
	case errors.Is(err, io.EOF):
		_ = b.c.SetReadDeadline(time.Time{})
	case err != nil && took >= limit:
		err = b.slow()
	}
	b.credit = min(b.idle, b.credit-took+time.Duration(n)*time.Second/MinRate)
	return n, err
}

func (b *ClientBody) slow() error {
	return fmt.Errorf("%w: less than %d bytes per second; try again", ErrSlow, MinRate)
}

// Drain discards up to n more bytes of a refused body, for up to d. Some clients write all of a body
// before they read the answer. If the server closes the connection with unread bytes, such a client
// sees a reset connection and no answer. net/http itself discards 256 KiB. length is that of the
// body, or negative if unknown. Drain reads nothing if more than n bytes would follow.
func (b *ClientBody) Drain(length, n int64, d time.Duration) {
	if length-b.count > n {
		return
	}
	b.end = time.Now().Add(d)
	_, _ = io.Copy(io.Discard, io.LimitReader(b, n)) // the answer is that of the refusal
}

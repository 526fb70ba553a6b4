package fetch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xetfs/xetfs/cache/histogram"
)

// Counters count the requests of one or more Clients. The zero value is empty. Counters are safe
// for concurrent use.
type Counters struct {
	requests, bytes, retries, notFound, errors, lost atomic.Int64
	firstByte                                        histogram.Histogram
	isFailing                                        atomic.Bool

	mu    sync.Mutex
	last  string    // reason of the last failed attempt; guarded by mu
	since time.Time // of the last failed attempt; guarded by mu
}

// Stats are the values of Counters at one time.
type Stats struct {
	Requests int64 `json:"requests"`  // sent, with repeated and redirected ones
	Bytes    int64 `json:"bytes"`     // received in bodies
	Retries  int64 `json:"retries"`   // failed attempts that were repeated
	NotFound int64 `json:"not_found"` // answers with status 404
	Errors   int64 `json:"errors"`    // answers with another status of 400 or more
	Lost     int64 `json:"lost"`      // requests without a complete answer

	FirstByte histogram.Counts `json:"first_byte"` // from a request to the headers of its answer

	Failing   bool       `json:"failing"`              // the last attempt failed
	LastError string     `json:"last_error,omitempty"` // reason of the last failed attempt, as in the log
	LastFail  *time.Time `json:"last_fail,omitempty"`  // its time
}

// Load returns the values of now.
func (c *Counters) Load() Stats {
	s := Stats{
		Requests:  c.requests.Load(),
		Bytes:     c.bytes.Load(),
		Retries:   c.retries.Load(),
		NotFound:  c.notFound.Load(),
		Errors:    c.errors.Load(),
		Lost:      c.lost.Load(),
		FirstByte: c.firstByte.Load(),
		Failing:   c.isFailing.Load(),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.LastError = c.last; s.LastError != "" {
		at := c.since
		s.LastFail = &at
	}
	return s
}

// maxReason bounds the stored reason, in bytes.
const maxReason = 300

// failed stores the reason of a failed attempt.
func (c *Counters) failed(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.since = reason[:min(len(reason), maxReason)], time.Now()
	c.isFailing.Store(true)
}

// succeeded ends the state Failing.
func (c *Counters) succeeded() {
	if c.isFailing.Load() {
		c.isFailing.Store(false)
	}
}

// countStatus counts an answer by its status.
func (c *Counters) countStatus(status int) {
	switch {
	case status == http.StatusNotFound:
		c.notFound.Add(1)
	case status >= http.StatusBadRequest:
		c.errors.Add(1)
	}
}

// interrupted counts a request without a complete answer, unless its caller ended it.
func (c *Counters) interrupted(ctx context.Context) {
	cause := context.Cause(ctx)
	if !errors.Is(cause, context.Canceled) && !errors.Is(cause, errHedged) {
		c.lost.Add(1)
	}
}

// A countedTransport counts the requests of a RoundTripper.
type countedTransport struct {
	http.RoundTripper
	c *Counters
}

// RoundTrip implements http.RoundTripper.
func (t *countedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.c.requests.Add(1)
	start := time.Now()
	resp, err := t.RoundTripper.RoundTrip(r)
	if err != nil {
		t.c.interrupted(r.Context())
		return nil, err
	}
	t.c.firstByte.Add(time.Since(start))
	t.c.countStatus(resp.StatusCode)
	resp.Body = &countedBody{resp.Body, r.Context(), t.c}
	return resp, nil
}

// CloseIdleConnections is called by http.Client.
func (t *countedTransport) CloseIdleConnections() { closeIdle(t.RoundTripper) }

// A countedBody counts the bytes of an answer.
type countedBody struct {
	io.ReadCloser
	ctx context.Context
	c   *Counters
}

// Read implements io.Reader.
func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.c.bytes.Add(int64(n))
	if err != nil && !errors.Is(err, io.EOF) {
		b.c.interrupted(b.ctx)
	}
	return n, err
}

package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/xetfs/xetfs/codec/names"
)

// StatsPath is the path of the statistics of a server. It is no key, so no object can have it.
const StatsPath = "/-/stats"

// A Counter counts requests and the bytes of their answers. It is safe for concurrent use.
type Counter struct {
	requests, bytes         atomic.Int64
	dataRequests, dataBytes atomic.Int64
	waiting                 atomic.Int64
}

// Stats are the figures of a Counter, and the document at StatsPath.
type Stats struct {
	Requests     int64 `json:"requests"`      // all, also those that failed
	Bytes        int64 `json:"bytes"`         // of bodies
	DataRequests int64 `json:"data_requests"` // those for xorbs
	DataBytes    int64 `json:"data_bytes"`    // of bodies of xorbs
	Waiting      int64 `json:"waiting"`       // pending requests
}

// Stats returns the present figures.
func (c *Counter) Stats() Stats {
	return Stats{c.requests.Load(), c.bytes.Load(), c.dataRequests.Load(), c.dataBytes.Load(), c.waiting.Load()}
}

// String returns the figures in one line.
func (s Stats) String() string {
	return fmt.Sprintf("%d requests, %d bytes; of them %d requests and %d bytes of xorbs", s.Requests, s.Bytes, s.DataRequests, s.DataBytes)
}

// Handler answers as h does, and counts. It answers requests for StatsPath with the figures and
// does not count them.
func (c *Counter) Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == StatsPath {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "no-store")
			_ = json.NewEncoder(w).Encode(c.Stats()) // the client may have closed the connection
			return
		}
		counted := &countedWriter{ResponseWriter: w, c: c}
		counted.isData = isData(r.URL.Path)
		c.requests.Add(1)
		if counted.isData {
			c.dataRequests.Add(1)
		}
		c.waiting.Add(1)
		defer c.waiting.Add(-1)
		h.ServeHTTP(counted, r)
	})
}

// isData reports whether a path is that of a xorb, or of a part of one.
func isData(p string) bool {
	key := strings.TrimPrefix(p, strings.TrimSuffix(StorePath, "/"))
	return strings.HasPrefix(key, "/"+names.XorbPrefix) || strings.HasPrefix(p, transferPath)
}

// transferPath begins the paths of xorbs in the CAS API.
const transferPath = "/v1/transfer/"

// A countedWriter counts the bytes of one answer.
type countedWriter struct {
	http.ResponseWriter
	c      *Counter
	isData bool
}

// Unwrap is for http.ResponseController.
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements http.ResponseWriter. It counts the bytes first, so that a client never has bytes
// that are not counted.
func (w *countedWriter) Write(p []byte) (int, error) {
	w.count(len(p))
	n, err := w.ResponseWriter.Write(p)
	w.count(n - len(p)) // minus the bytes that were not written
	return n, err
}

// count adds n bytes, which may be negative.
func (w *countedWriter) count(n int) {
	w.c.bytes.Add(int64(n))
	if w.isData {
		w.c.dataBytes.Add(int64(n))
	}
}

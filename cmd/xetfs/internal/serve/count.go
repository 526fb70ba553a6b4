package serve

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/xetfs/xetfs/cache/histogram"
	"github.com/xetfs/xetfs/codec/names"
)

// StatsPath is the path of the statistics of a server. It is no key, so no object can have it.
const StatsPath = "/-/stats"

// A Counter counts requests and the bytes of their answers. It is safe for concurrent use.
type Counter struct {
	routes                  [routes]routeCounter
	dataRequests, dataBytes atomic.Int64
	waiting                 atomic.Int64
}

// A route is an API of a Site.
type route int

const (
	routeHub   route = iota // the Hub API
	routeCAS                // plans of the CAS API
	routeXorbs              // xorbs of the CAS API
	routeStore              // objects of the plain layout
	routes                  // number of routes
)

var routeNames = [routes]string{"hub", "cas", "xorbs", "store"}

// A routeCounter counts the requests of one route.
type routeCounter struct {
	bytes, notFound, errors, lost atomic.Int64
	latency                       histogram.Histogram
	requests                      atomic.Int64
}

// RouteStats are the requests of one route. The kinds of errors are those of fetch.Stats.
type RouteStats struct {
	Requests int64            `json:"requests"`  // all, also those that failed
	Bytes    int64            `json:"bytes"`     // of bodies
	NotFound int64            `json:"not_found"` // answers with status 404
	Errors   int64            `json:"errors"`    // answers with another status of 400 or more
	Lost     int64            `json:"lost"`      // requests without a complete answer
	Latency  histogram.Counts `json:"latency"`   // from a request to the end of its answer
}

// Routes returns the present figures of all routes, by name.
func (c *Counter) Routes() map[string]RouteStats {
	all := make(map[string]RouteStats, routes)
	for i := range c.routes {
		r := &c.routes[i]
		all[routeNames[i]] = RouteStats{r.requests.Load(), r.bytes.Load(), r.notFound.Load(), r.errors.Load(), r.lost.Load(), r.latency.Load()}
	}
	return all
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
	s := Stats{DataRequests: c.dataRequests.Load(), DataBytes: c.dataBytes.Load(), Waiting: c.waiting.Load()}
	for i := range c.routes {
		s.Requests += c.routes[i].requests.Load()
		s.Bytes += c.routes[i].bytes.Load()
	}
	return s
}

// String returns the figures in one line.
func (s Stats) String() string {
	return fmt.Sprintf("%d requests, %d bytes; of them %d requests and %d bytes of xorbs", s.Requests, s.Bytes, s.DataRequests, s.DataBytes)
}

// Handler answers as h does, and counts. It answers requests for StatsPath with the figures and
// does not count them. routeOf returns the route of a path.
func (c *Counter) Handler(h http.Handler, routeOf func(path string) route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == StatsPath {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "no-store")
			_ = json.NewEncoder(w).Encode(c.Stats()) // the client may have closed the connection
			return
		}
		counted := &countedWriter{ResponseWriter: w, c: c, route: &c.routes[routeOf(r.URL.Path)], isData: isData(r.URL.Path)}
		defer counted.begin()()
		h.ServeHTTP(counted, r)
		counted.isComplete = counted.hasEnded(r)
	})
}

// isData reports whether a path is that of a xorb, or of a part of one.
func isData(p string) bool {
	key := strings.TrimPrefix(p, strings.TrimSuffix(StorePath, "/"))
	return strings.HasPrefix(key, "/"+names.XorbPrefix) || strings.HasPrefix(p, transferPath)
}

// transferPath begins the paths of xorbs in the CAS API.
const transferPath = "/v1/transfer/default/"

// A countedWriter counts one answer.
type countedWriter struct {
	http.ResponseWriter
	c      *Counter
	route  *routeCounter
	isData bool

	status     int // 0: not sent yet
	written    int64
	isBroken   bool // a write has failed, or another writer took the connection
	isComplete bool // the handler has returned without a panic
}

// begin counts a request. The function that it returns counts the end of its answer.
func (w *countedWriter) begin() (end func()) {
	start := time.Now()
	w.route.requests.Add(1)
	if w.isData {
		w.c.dataRequests.Add(1)
	}
	w.c.waiting.Add(1)
	return func() {
		w.c.waiting.Add(-1)
		w.route.latency.Add(time.Since(start))
		if !w.isComplete {
			w.route.lost.Add(1)
		}
	}
}

// hasEnded reports whether the answer to r is complete, after its handler has returned.
func (w *countedWriter) hasEnded(r *http.Request) bool {
	switch {
	case w.isBroken:
		return false
	case w.status == 0:
		return r.Context().Err() == nil // net/http sends an empty answer
	case r.Method == http.MethodHead, w.status == http.StatusNotModified:
		return true
	}
	length, err := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64)
	return err != nil || w.written >= length
}

// Unwrap is for http.ResponseController.
func (w *countedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter. It counts the status before a client has it.
func (w *countedWriter) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
		switch {
		case status == http.StatusNotFound:
			w.route.notFound.Add(1)
		case status >= http.StatusBadRequest:
			w.route.errors.Add(1)
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter. It counts the bytes first, so that a client never has bytes
// that are not counted.
func (w *countedWriter) Write(p []byte) (int, error) {
	w.count(len(p))
	w.status = cmp.Or(w.status, http.StatusOK)
	n, err := w.ResponseWriter.Write(p)
	w.written += int64(n)
	w.count(n - len(p)) // minus the bytes that were not written
	w.isBroken = w.isBroken || err != nil && !errors.Is(err, http.ErrBodyNotAllowed)
	return n, err
}

// Hijack implements http.Hijacker. The answer counts as incomplete.
func (w *countedWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.isBroken = true
	return http.NewResponseController(w.ResponseWriter).Hijack()
}

// count adds n bytes, which may be negative.
func (w *countedWriter) count(n int) {
	w.route.bytes.Add(int64(n))
	if w.isData {
		w.c.dataBytes.Add(int64(n))
	}
}

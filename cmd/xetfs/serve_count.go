package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/xetfs/xetfs/codec/names"
)

// statsPath is the address of the statistics of a server. It is no key, so no object can have
// it.
const statsPath = "/-/stats"

// A servedCount counts the bytes that leave the server, with the faults. It is safe for
// concurrent use.
type servedCount struct {
	requests, bytes         atomic.Int64
	dataRequests, dataBytes atomic.Int64
	waiting                 atomic.Int64
}

// A servedStats is the document at statsPath.
type servedStats struct {
	Requests     int64 `json:"requests"`      // all, those that failed too
	Bytes        int64 `json:"bytes"`         // of bodies
	DataRequests int64 `json:"data_requests"` // those for xorbs
	DataBytes    int64 `json:"data_bytes"`    // of bodies of xorbs
	Waiting      int64 `json:"waiting"`       // requests under way now
}

func (c *servedCount) stats() servedStats {
	return servedStats{c.requests.Load(), c.bytes.Load(), c.dataRequests.Load(), c.dataBytes.Load(), c.waiting.Load()}
}

// String is a line of it.
func (s servedStats) String() string {
	return fmt.Sprintf("%d requests, %d bytes; of them %d requests and %d bytes of xorbs", s.Requests, s.Bytes, s.DataRequests, s.DataBytes)
}

// handler answers as h does, and counts. To ask how much that was is never counted, nor
// late, nor wrong.
func (c *servedCount) handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == statsPath {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "no-store")
			_ = json.NewEncoder(w).Encode(c.stats()) // the client may have closed the connection
			return
		}
		counted := &countedAnswer{ResponseWriter: w, c: c}
		counted.data = strings.HasPrefix(r.URL.Path, "/"+names.XorbPrefix)
		c.requests.Add(1)
		if counted.data {
			c.dataRequests.Add(1)
		}
		c.waiting.Add(1)
		defer c.waiting.Add(-1)
		h.ServeHTTP(counted, r)
	})
}

// A countedAnswer is one whose bytes are counted.
type countedAnswer struct {
	http.ResponseWriter
	c    *servedCount
	data bool
}

// Unwrap is for http.ResponseController.
func (a *countedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// Write implements http.ResponseWriter.
func (a *countedAnswer) Write(p []byte) (int, error) {
	n, err := a.ResponseWriter.Write(p)
	a.c.bytes.Add(int64(n))
	if a.data {
		a.c.dataBytes.Add(int64(n))
	}
	return n, err
}

package harness

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// A FaultyProxy passes requests on to a server, except the one at which a fault is due. Its methods
// are safe for concurrent use.
type FaultyProxy struct {
	URL string

	mu    sync.Mutex
	count int               // requests that the fault may hit, since Set; guarded by mu
	at    int               // the request of the fault; guarded by mu
	fault func(pass func()) // guarded by mu
}

// NewFaultyProxy returns a proxy of a server with faults at the requests that hits accepts.
func NewFaultyProxy(t testing.TB, server string, hits func(r *http.Request) bool) *FaultyProxy {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // the signature covers it
	}, ErrorLog: log.New(io.Discard, "", 0)} // a killed client is no news
	p := new(FaultyProxy)
	front := httptest.NewServer(FullDuplex(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fault := p.next(hits(r))
		if fault == nil {
			pass.ServeHTTP(w, r)
			return
		}
		fault(func() { pass.ServeHTTP(httptest.NewRecorder(), r) })
		panic(http.ErrAbortHandler)
	})))
	t.Cleanup(front.Close)
	p.URL = front.URL
	return p
}

// next returns the fault of the next request; nil: none.
func (p *FaultyProxy) next(hit bool) func(pass func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if hit {
		if p.count++; p.count == p.at {
			return p.fault
		}
	}
	return nil
}

// Set makes the n-th request from now on faulty; 0: none. The fault may pass it on. The client loses
// its connection in every case.
func (p *FaultyProxy) Set(n int, fault func(pass func())) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count, p.at, p.fault = 0, n, fault
}

// Reached reports whether the fault has hit a request.
func (p *FaultyProxy) Reached() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count >= p.at
}

// Hits returns the number of requests that the fault may have hit since Set.
func (p *FaultyProxy) Hits() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

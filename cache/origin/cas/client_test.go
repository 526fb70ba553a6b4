package cas_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/cas"
	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
)

// A fakeCAS is a CAS server that counts requests.
type fakeCAS struct {
	*httptest.Server
	plans, batches, transfers, bytes atomic.Int64

	mu   sync.Mutex
	wrap func(http.Handler) http.Handler   // nil: none; guarded by mu
	seen func(r *http.Request, status int) // nil: none; guarded by mu
}

// newHandler returns a handler of the CAS API for a store.
func newHandler(s origin.Store, o casserve.HandlerOptions) http.Handler {
	src := objects.New(s, objects.Options{}).(casserve.InfoSource)
	return casserve.NewHandler(casserve.NewContent(s, src, casserve.StoreOptions{}), o)
}

// serveCAS serves a store over the CAS API until the end of the test.
func serveCAS(t testing.TB, s origin.Store, o casserve.HandlerOptions) *fakeCAS {
	t.Helper()
	return serveHandler(t, newHandler(s, o))
}

func serveHandler(t testing.TB, h http.Handler) *fakeCAS {
	t.Helper()
	f := &fakeCAS{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Has("file_id"):
			f.batches.Add(1)
		case isTransfer(r):
			f.transfers.Add(1)
		default:
			f.plans.Add(1)
		}
		h := h
		f.mu.Lock()
		if f.wrap != nil {
			h = f.wrap(h)
		}
		seen := f.seen
		f.mu.Unlock()
		out := &countingWriter{ResponseWriter: w, n: &f.bytes, status: http.StatusOK}
		h.ServeHTTP(out, r)
		if seen != nil {
			seen(r, out.status)
		}
	}))
	t.Cleanup(f.Close)
	return f
}

// changing serves a store that may change: it reads its shards for each plan.
func changing(s origin.Store, o casserve.HandlerOptions) http.Handler {
	o.Signer, _ = casserve.NewSigner(nil)
	transfers := newHandler(s, o)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isTransfer(r) {
			transfers.ServeHTTP(w, r)
			return
		}
		newHandler(s, o).ServeHTTP(w, r)
	})
}

func isTransfer(r *http.Request) bool { return r.URL.Query().Has("X-Xet-Signed-Range") }

// intercept serves requests by another handler before the one of the store.
func (f *fakeCAS) intercept(wrap func(http.Handler) http.Handler) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wrap = wrap
}

// reset sets the counters to zero, and returns the number of plans, batches and transfers.
func (f *fakeCAS) reset() (plans, batches, transfers int64) {
	f.bytes.Store(0)
	return f.plans.Swap(0), f.batches.Swap(0), f.transfers.Swap(0)
}

// observe calls seen after each answer.
func (f *fakeCAS) observe(seen func(r *http.Request, status int)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = seen
}

type countingWriter struct {
	http.ResponseWriter
	n      *atomic.Int64
	status int
}

func (c *countingWriter) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

func (c *countingWriter) Write(p []byte) (int, error) {
	c.n.Add(int64(len(p)))
	return c.ResponseWriter.Write(p)
}

// newClient returns a Client of a server until the end of the test.
func newClient(t testing.TB, f *fakeCAS, o cas.Options) *cas.Client {
	t.Helper()
	if o.Tokens == nil {
		o.Tokens = cas.StaticToken(f.URL, "")
	}
	c := cas.NewClient(o)
	t.Cleanup(c.Close)
	return c
}

func TestClientIsSource(t *testing.T) {
	for name, o := range map[string]casserve.HandlerOptions{
		"parts":    {},
		"no parts": {ExactRanges: true},
	} {
		t.Run(name, func(t *testing.T) {
			origintest.SourceSuite{
				Open: func(t *testing.T, s origin.Store) origin.Source {
					return newClient(t, serveHandler(t, changing(s, o)), cas.Options{})
				},
				Local: func(origin.Store) bool { return false },
			}.Run(t)
		})
	}
}

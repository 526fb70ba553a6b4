package cas_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/cas"
	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/linktest"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
)

// patient are limits for links that lose many connections.
var patient = fetch.Options{Pause: time.Millisecond, Limits: fetch.Limits{First: time.Minute, Read: time.Minute}}

// N01, N04, N05: connections that are refused, or end after some bytes, cost no error.
func TestN01_N04_N05_LostConnections(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 100})
	f := b.Add(origintest.Random(1, 600_000), 9000, 12_000)
	for name, faults := range map[string]linktest.Faults{
		"reset 16 KiB": {Reset: 16 << 10}, "reset 64 KiB": {Reset: 64 << 10},
		"end 16 KiB": {Cut: 16 << 10}, "end 64 KiB": {Cut: 64 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
			link := linktest.New(t, server.URL, linktest.Options{})
			c := newClient(t, server, cas.Options{Tokens: cas.StaticToken(link.URL, ""), Fetch: patient})
			link.Faults.Store(&faults)
			if err := readFile(t.Context(), c, f, 0, 600_000); err != nil {
				t.Error(err)
			}
			if n := link.Bytes(); n > 2*600_000+200_000 {
				t.Errorf("%d bytes for 600,000", n)
			}
		})
	}
}

// N11: a server that is down is reported, and later reads succeed when it is back.
func TestN11_Down(t *testing.T) {
	b, f := sample(t)
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
	link := linktest.New(t, server.URL, linktest.Options{})
	o := patient
	o.Limits = fetch.Limits{First: 100 * time.Millisecond, Read: 100 * time.Millisecond}
	c := newClient(t, server, cas.Options{Tokens: cas.StaticToken(link.URL, ""), Fetch: o})
	link.Faults.Store(&linktest.Faults{Refuse: true})
	wantErrorText(t, readFile(t.Context(), c, f, 0, 1000), origin.ErrUnavailable, "no answer within 0.1 s")
	link.Faults.Store(nil)
	o.Limits = patient.Limits
	again := newClient(t, server, cas.Options{Tokens: cas.StaticToken(link.URL, ""), Fetch: o})
	if err := readFile(t.Context(), again, f, 0, 1000); err != nil {
		t.Error(err)
	}
}

// O08: a Retry-After is obeyed if the limit of the call allows it.
func TestO08_RetryAfter(t *testing.T) {
	for _, of := range []func(*http.Request) bool{isPlan, isTransfer} {
		for value, ok := range map[string]bool{
			"0": true, "": true, "soon": true, "-5": true, "86400": false,
			time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat): true,
		} {
			b, f := sample(t)
			server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
			var refused atomic.Int64
			busy := status(429, of, "Retry-After", value)
			server.intercept(func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if of(r) && refused.Add(1) == 1 {
						busy(h).ServeHTTP(w, r)
						return
					}
					h.ServeHTTP(w, r)
				})
			})
			c := newClient(t, server, cas.Options{Fetch: quick})
			err := readFile(t.Context(), c, f, 0, 1000)
			if ok && err != nil {
				t.Errorf("Retry-After %q: %v", value, err)
			}
			if !ok {
				wantError(t, err, origin.ErrUnavailable, "429 Too Many Requests")
			}
		}
	}
}

// Tokens never follow a redirect to another host, and transfers do follow one.
func TestRedirects(t *testing.T) {
	b, f := sample(t)
	store := b.Store()
	var elsewhere *httptest.Server
	direct := serveCAS(t, store, casserve.HandlerOptions{})
	elsewhere = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, values := range r.Header {
			if strings.Contains(fmt.Sprint(values), "secret") {
				t.Error("the token follows a redirect")
			}
		}
		if strings.HasPrefix(r.URL.Path, "/v") {
			direct.Config.Handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(elsewhere.Close)
	server := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.RequestURI(), http.StatusFound)
	}))
	c := newClient(t, server, cas.Options{Tokens: cas.StaticToken(server.URL, "secret"), Fetch: quick})
	if err := readFile(t.Context(), c, f, 0, 200_000); err != nil {
		t.Error(err)
	}
}

// Close waits for the end of a request whose reader has given up.
func TestCloseWaitsForRequests(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var ended atomic.Bool
	c := cas.NewClient(cas.Options{
		Tokens: cas.StaticToken("http://127.0.0.1", ""),
		Fetch: fetch.Options{Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
			cancel()
			<-r.Context().Done()
			for range 10_000 {
				runtime.Gosched() // so that the reader gives up, and calls Close, before the end
			}
			ended.Store(true)
			return nil, r.Context().Err()
		})},
	})
	_, err := c.FileInfo(ctx, codec.FileID{File: codec.Hash{1}})
	c.Close()
	if !errors.Is(err, context.Canceled) || !ended.Load() {
		t.Errorf("FileInfo = %v, ended before Close: %v", err, ended.Load())
	}
}

type transportFunc func(r *http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A token is never sent without TLS, except on this machine.
func TestTokenNeedsTLS(t *testing.T) {
	c := cas.NewClient(cas.Options{Tokens: cas.StaticToken("http://example.invalid", "secret")})
	t.Cleanup(c.Close)
	_, err := c.FileInfo(t.Context(), codec.FileID{File: codec.Hash{1}})
	wantErrorText(t, err, iofs.ErrPermission, "must begin with https")
}

// wantErrorText is wantError for an error that shows the form of an address.
func wantErrorText(t *testing.T, err, kind error, text string) {
	t.Helper()
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v, want %v: %s", err, kind, text)
	}
}

// S12: the address of the server must be one of a server.
func TestS12_Addresses(t *testing.T) {
	for address, text := range map[string]string{
		"ftp://host": "its scheme", "https://": "it names no host", "https://me:secret@host": "it has a user name",
		"https://host?secret": "it has a query", "https://host#secret": "it has a query or a fragment", "https://%zz": "it is no address", "": "its scheme",
	} {
		c := cas.NewClient(cas.Options{Tokens: cas.StaticToken(address, "")})
		_, err := c.FileInfo(t.Context(), codec.FileID{File: codec.Hash{1}})
		c.Close()
		wantErrorText(t, err, origin.ErrUnavailable, text)
	}
}

// whole answers transfers with status 200 and the whole xorb.
func whole(b *origintest.Builder) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for _, x := range b.Xorbs {
				if isTransfer(r) && strings.HasSuffix(r.URL.Path, x.Hash().String()) {
					_, _ = w.Write(x.Bytes)
					return
				}
			}
			h.ServeHTTP(w, r)
		})
	}
}

// A server that answers a range with the whole xorb is used for small xorbs, and else refused.
func TestWholeXorbForRange(t *testing.T) {
	for _, tt := range []struct {
		size int
		text string // of the error; "": none
	}{{200_000, ""}, {3_000_000, "it returns whole files instead"}} {
		b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 400})
		f := b.Add(origintest.Random(1, tt.size), 10_000)
		server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
		server.intercept(whole(b))
		c := newClient(t, server, cas.Options{Fetch: quick})
		err := readFile(t.Context(), c, f, int64(tt.size)-20_000, 10_000)
		if tt.text == "" && err != nil {
			t.Error(err)
		}
		if tt.text != "" {
			wantError(t, err, origin.ErrUnavailable, tt.text)
		}
	}
}

// O13: parts in an answer to one range are refused, in any order.
func TestO13_PartsForOneRange(t *testing.T) {
	b, f := sample(t)
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
	server.intercept(func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !isTransfer(r) {
				h.ServeHTTP(w, r)
				return
			}
			var body bytes.Buffer
			parts := multipart.NewWriter(&body)
			for _, span := range []string{"bytes 100-199/1000", "bytes 0-99/1000"} {
				part, err := parts.CreatePart(textproto.MIMEHeader{"Content-Range": {span}})
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = part.Write(make([]byte, 100))
			}
			_ = parts.Close()
			w.Header().Set("Content-Type", "multipart/byteranges; boundary="+parts.Boundary())
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(body.Bytes())
		})
	})
	c := newClient(t, server, cas.Options{Fetch: quick})
	wantError(t, readFile(t.Context(), c, f, 0, 1000), origin.ErrUnavailable, "the answer does not fit: Content-Range")
}

// A reader that is killed does not stop others that wait for the same bytes.
func TestCanceledReader(t *testing.T) {
	b, f := sample(t)
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
	c := newClient(t, server, cas.Options{})
	arrived, proceed := make(chan struct{}, 100), make(chan struct{})
	server.intercept(func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if isTransfer(r) {
				arrived <- struct{}{}
				<-proceed
			}
			h.ServeHTTP(w, r)
		})
	})
	if _, err := c.FileInfo(t.Context(), f.ID()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	read := func(ctx context.Context, i uint32) error {
		_, err := c.Chunks(ctx, b.Xorbs[0].Hash(), codec.ChunkRange{Start: i, End: i + 1}, origin.ReadOptions{})
		return err
	}
	killed, other := make(chan error, 1), make(chan error, 1)
	go func() { killed <- read(ctx, 3) }()
	<-arrived
	go func() { other <- read(t.Context(), 5) }()
	cancel()
	if err := <-killed; !errors.Is(err, context.Canceled) {
		t.Errorf("the killed reader: %v", err)
	}
	close(proceed)
	if err := <-other; err != nil {
		t.Errorf("the other reader: %v", err)
	}
}

// A chunk directly behind a transfer does not wait for it if its own place is known.
func TestChunkBehindTransferDoesNotWait(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 40})
	b.Add(origintest.Random(1, 40_000), 1000)
	x := b.Xorbs[0]
	head, tail := b.File(x.Term(0, 39)), b.File(x.Term(39, 40))
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
	c := newClient(t, server, cas.Options{})
	for _, f := range []*origintest.File{head, tail} {
		if _, err := c.FileInfo(t.Context(), f.ID()); err != nil {
			t.Fatal(err)
		}
	}
	arrived, proceed := make(chan struct{}, 1), make(chan struct{})
	var transfers atomic.Int64
	server.intercept(func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if isTransfer(r) && transfers.Add(1) == 1 {
				arrived <- struct{}{}
				<-proceed
			}
			h.ServeHTTP(w, r)
		})
	})
	read := func(ctx context.Context, start, end uint32) error {
		_, err := c.Chunks(ctx, x.Hash(), codec.ChunkRange{Start: start, End: end}, origin.ReadOptions{})
		return err
	}
	slow := make(chan error, 1)
	go func() { slow <- read(t.Context(), 1, 39) }()
	<-arrived
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := read(ctx, 39, 40); err != nil {
		t.Errorf("the chunk behind: %v", err)
	}
	close(proceed)
	if err := <-slow; err != nil {
		t.Errorf("the slow transfer: %v", err)
	}
}

package cas_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	iofs "io/fs"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/cas"
	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A clock is set by tests. Its time changes with advance only, however slow the machine is.
type clock struct {
	base  time.Time
	ahead atomic.Int64
}

func newClock() *clock { return &clock{base: time.Now()} }

func (c *clock) now() time.Time          { return c.base.Add(time.Duration(c.ahead.Load())) }
func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

// sample returns a store with one file of many chunks in several xorbs.
func sample(t testing.TB) (*origintest.Builder, *origintest.File) {
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 40})
	return b, b.Add(origintest.Text(1, 200_000), 1000, 700, 1300, 900)
}

// readFile reads n bytes of a file from off on through Narrow and Chunks, and compares them.
func readFile(ctx context.Context, src origin.Source, f *origintest.File, off, n int64) error {
	fi, err := src.FileInfo(ctx, f.ID())
	if err != nil {
		return err
	}
	content := f.Bytes()
	start := int64(0)
	for i, term := range fi.Terms {
		end := start + int64(term.Size)
		from, to := max(off, start), min(off+n, end)
		if from < to {
			p := codec.Piece{Term: i, Off: from, Skip: from - start, Size: to - from}
			if err := readPiece(ctx, src, f, term, p, content[from:to]); err != nil {
				return err
			}
		}
		start = end
	}
	return nil
}

func readPiece(ctx context.Context, src origin.Source, f *origintest.File, term codec.Term, p codec.Piece, want []byte) error {
	r, skip, err := src.Narrow(ctx, f.ID(), term, p)
	if err != nil {
		return err
	}
	run, err := src.Chunks(ctx, term.Xorb, r, origin.ReadOptions{})
	if err != nil {
		return err
	}
	var got []byte
	for i := r.Start; i < r.End; i++ {
		b := make([]byte, run.Size(i))
		if _, err := run.Unpack(i, b); err != nil {
			return err
		}
		got = append(got, b...)
	}
	if int64(len(got)) < skip+p.Size || string(got[skip:skip+p.Size]) != string(want) {
		return fmt.Errorf("other bytes at %d", p.Off)
	}
	return nil
}

// A generation marks the addresses of a server, so that a test can expire all of them.
type generation struct {
	http.Handler
	now     atomic.Int64
	refused atomic.Int64
	status  int // of the answer for an old address
}

// newGeneration returns a CAS server whose addresses are valid until expire is called.
func newGeneration(t testing.TB, s origin.Store, o casserve.HandlerOptions) (*generation, *fakeCAS) {
	g := &generation{status: http.StatusForbidden}
	o.Base = func(r *http.Request) string { return fmt.Sprintf("http://%s/g%d", r.Host, g.now.Load()) }
	h := newHandler(s, o)
	g.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var of int64
		if n, _ := fmt.Sscanf(r.URL.Path, "/g%d/", &of); n == 1 {
			if of != g.now.Load() {
				g.refused.Add(1)
				http.Error(w, "expired", g.status)
				return
			}
			http.StripPrefix(fmt.Sprintf("/g%d", of), h).ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(w, r)
	})
	return g, serveHandler(t, g)
}

func (g *generation) expire() { g.now.Add(1) }

// A hundred readers share one renewal of each plan when its addresses have expired.
func TestRenewsOncePerPlanAndExpiry(t *testing.T) {
	for name, o := range map[string]casserve.HandlerOptions{"parts": {}, "no parts": {ExactRanges: true}} {
		t.Run(name, func(t *testing.T) {
			b, f := sample(t)
			g, server := newGeneration(t, b.Store(), o)
			c := newClient(t, server, cas.Options{})
			if err := readFile(t.Context(), c, f, 0, 200_000); err != nil {
				t.Fatal(err)
			}
			for round := range 5 {
				g.expire()
				server.reset()
				var readers sync.WaitGroup
				for range 100 {
					readers.Go(func() {
						for _, x := range b.Xorbs {
							r := codec.ChunkRange{Start: 1, End: uint32(len(x.Chunks))}
							if _, err := c.Chunks(t.Context(), x.Hash(), r, origin.ReadOptions{}); err != nil {
								t.Error(err)
							}
						}
					})
				}
				readers.Wait()
				if plans, _, _ := server.reset(); plans > 1 {
					t.Errorf("round %d: %d requests for the plan, want 1", round, plans)
				}
			}
		})
	}
}

// An address that a server calls a bad request is renewed, too.
func TestRenewsBadRequest(t *testing.T) {
	for name, o := range map[string]casserve.HandlerOptions{"parts": {}, "no parts": {ExactRanges: true}} {
		t.Run(name, func(t *testing.T) {
			b, f := sample(t)
			g, server := newGeneration(t, b.Store(), o)
			g.status = http.StatusBadRequest
			c := newClient(t, server, cas.Options{})
			for range 3 {
				server.reset()
				if err := readFile(t.Context(), c, f, 0, 200_000); err != nil {
					t.Fatal(err)
				}
				if plans, _, _ := server.reset(); plans != 1 {
					t.Errorf("%d requests for the plan, want 1", plans)
				}
				g.expire()
			}
		})
	}
}

// An address that is refused again after its renewal is an error without the address.
func TestSecondRefusalIsError(t *testing.T) {
	b, f := sample(t)
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
	c := newClient(t, server, cas.Options{})
	server.intercept(func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if isTransfer(r) {
				http.Error(w, "no", http.StatusForbidden)
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	err := readFile(t.Context(), c, f, 0, 1000)
	wantError(t, err, iofs.ErrPermission, "the transfer server says 401 or 403 to a new address")
	if plans, _, transfers := server.reset(); plans != 2 || transfers > 4 {
		t.Errorf("%d plans and %d transfers, want 2 and at most 4", plans, transfers)
	}
}

// A missing file of a batch ends no later batches.
func TestMissingFileOfBatch(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 2})
	ids := []codec.FileID{{File: codec.Hash{1}}}
	for i := range uint64(40) {
		ids = append(ids, b.Add(origintest.Random(i, 2000), 1000).ID())
	}
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
	c := newClient(t, server, cas.Options{Fetch: quick})
	describe := func(ids []codec.FileID, missing int) {
		c.FileInfos(t.Context(), ids, func(i int, _ *shard.FileInfo, err error) {
			if isMissing := errors.Is(err, origin.ErrNotFound); isMissing != (i == missing) || !isMissing && err != nil {
				t.Errorf("file %d: %v", i, err)
			}
		})
	}
	describe(ids[:21], 0)
	if _, batches, _ := server.reset(); batches != 1 {
		t.Errorf("%d batches with a missing file, want 1", batches)
	}
	describe(ids[21:], -1)
	if plans, batches, _ := server.reset(); plans != 0 || batches != 1 {
		t.Errorf("%d plans and %d batches afterwards, want 0 and 1", plans, batches)
	}
}

// wantError checks kind and text of an error: one line, without addresses.
func wantError(t *testing.T, err, kind error, text string) {
	t.Helper()
	switch {
	case !errors.Is(err, kind) || !strings.Contains(err.Error(), text):
		t.Errorf("error %v, want %v: %s", err, kind, text)
	case strings.ContainsAny(err.Error(), "\n?&") || strings.Contains(err.Error(), "http://") || strings.Contains(err.Error(), "127.0.0.1"):
		t.Errorf("error %q has several lines or an address", err)
	}
}

// Addresses are renewed 30 s before they expire, so that no request is refused.
func TestRenewsBeforeExpiry(t *testing.T) {
	b, f := sample(t)
	g, server := newGeneration(t, b.Store(), casserve.HandlerOptions{Life: time.Hour})
	clock := newClock()
	c := newClient(t, server, cas.Options{Now: clock.now})
	for _, tt := range []struct {
		after time.Duration
		plans int64
	}{{0, 1}, {59*time.Minute + 25*time.Second, 0}, {10 * time.Second, 1}, {time.Minute, 0}} {
		clock.advance(tt.after)
		server.reset()
		for _, x := range b.Xorbs {
			if _, err := c.FileInfo(t.Context(), f.ID()); err != nil {
				t.Fatal(err)
			}
			c.Reject(x.Hash())
			if _, err := c.Chunks(t.Context(), x.Hash(), codec.ChunkRange{End: 5}, origin.ReadOptions{}); err != nil {
				t.Error(err)
			}
		}
		if plans, _, _ := server.reset(); plans != tt.plans {
			t.Errorf("after %v: %d plans, want %d", tt.after, plans, tt.plans)
		}
	}
	if n := g.refused.Load(); n > 0 {
		t.Errorf("%d requests were refused", n)
	}
}

// An address is used until its end while the server of plans is unavailable, and longer if its end is unknown.
func TestValidAddressWithoutServerOfPlans(t *testing.T) {
	for name, tt := range map[string]struct {
		isUnknown bool
		ahead     time.Duration
		ok        bool
	}{
		"before the expiry": {false, 59*time.Minute + 32*time.Second, true},
		"after the expiry":  {false, time.Hour, false},
		"unknown expiry":    {true, 24 * time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			b, f := sample(t)
			_, server := newGeneration(t, b.Store(), casserve.HandlerOptions{})
			if tt.isUnknown {
				server.intercept(func(h http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						w.Header()["Date"] = nil
						h.ServeHTTP(w, r)
					})
				})
			}
			clock := newClock()
			c := newClient(t, server, cas.Options{Now: clock.now, Fetch: fetch.Options{Attempts: 1}})
			if _, err := c.FileInfo(t.Context(), f.ID()); err != nil {
				t.Fatal(err)
			}
			read := func() error {
				defer c.Reject(b.Xorbs[0].Hash())
				_, err := c.Chunks(t.Context(), b.Xorbs[0].Hash(), codec.ChunkRange{End: 5}, origin.ReadOptions{})
				return err
			}
			if err := read(); err != nil {
				t.Fatal(err)
			}
			server.intercept(status(503, isPlan))
			clock.advance(tt.ahead)
			if err := read(); (err == nil) != tt.ok {
				t.Errorf("after %v: %v", tt.ahead, err)
			}
		})
	}
}

// A renewed plan with other ranges, terms or a skip is an error.
func TestRenewedPlanMustBeEqual(t *testing.T) {
	b, f := sample(t)
	length := fmt.Sprint(`"unpacked_length":`, f.Info.Terms[0].Size)
	longer := fmt.Sprint(`"unpacked_length":`, f.Info.Terms[0].Size+1)
	for name, change := range map[string]func(http.Handler) http.Handler{
		"ranges": func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !isTransfer(r) {
					r.Header.Set("Range", "bytes=0-99")
				}
				h.ServeHTTP(w, r)
			})
		},
		"terms": edit(isPlan, strings.NewReplacer(length, longer).Replace),
		"skip":  edit(isPlan, strings.NewReplacer(`first_range":0`, `first_range":1`).Replace),
	} {
		g, server := newGeneration(t, b.Store(), casserve.HandlerOptions{})
		c := newClient(t, server, cas.Options{})
		if err := readFile(t.Context(), c, f, 0, 1000); err != nil {
			t.Fatal(err)
		}
		g.expire()
		server.intercept(change)
		t.Run(name, func(t *testing.T) {
			_, err := c.Chunks(t.Context(), b.Xorbs[1].Hash(), codec.ChunkRange{End: 40}, origin.ReadOptions{})
			wantError(t, err, codec.ErrCorrupt, "the renewed plan differs from the one before")
		})
	}
}

// isPlanOf reports whether a request for plans names a file.
func isPlanOf(r *http.Request, f *origintest.File) bool {
	return isPlan(r) && strings.Contains(r.URL.String(), f.ID().File.String())
}

// After the end of addresses of a batch, its other files can be read although one no longer exists.
func TestGoneFileOfBatch(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 2})
	for i := range uint64(3) {
		b.Add(origintest.Random(i, 2000), 1000)
	}
	gone, others := b.Files[0], b.Files[1:]
	isGone := func(r *http.Request) bool { return isPlanOf(r, gone) }
	isBatch := func(r *http.Request) bool { return isGone(r) && r.URL.Query().Has("file_id") }
	for name, wrap := range map[string]func(http.Handler) http.Handler{
		"403": status(403, isGone), "404": status(404, isGone), "no batches": status(405, isBatch),
		"not in the answer": func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if isBatch(r) {
					r.URL.RawQuery = "file_id=" + others[0].ID().File.String()
				}
				h.ServeHTTP(w, r)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
			c := newClient(t, server, cas.Options{Now: clock.now})
			ids := []codec.FileID{gone.ID(), others[0].ID(), others[1].ID()}
			c.FileInfos(t.Context(), ids, func(_ int, _ *shard.FileInfo, err error) {
				if err != nil {
					t.Error(err)
				}
			})
			if plans, batches, _ := server.reset(); plans != 0 || batches != 1 {
				t.Fatalf("%d plans and %d batches, want one batch", plans, batches)
			}
			server.intercept(wrap)
			clock.advance(2 * time.Hour)
			for _, f := range others {
				if err := readFile(t.Context(), c, f, 0, 2000); err != nil {
					t.Error(err)
				}
			}
			if plans, _, _ := server.reset(); plans != 2 {
				t.Errorf("%d plans, want one of each file", plans)
			}
			if err := readFile(t.Context(), c, gone, 0, 2000); (err != nil) != (name == "403" || name == "404") {
				t.Errorf("the file that no longer exists: %v", err)
			}
		})
	}
}

// Chunks that a file shares with one that no longer exists can be read after the end of the addresses.
func TestGoneFileSharesChunks(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 40})
	f := b.Add(origintest.Random(1, 40_000), 1000)
	gone := b.File(b.Xorbs[0].Term(10, 20))
	for _, code := range []int{403, 404} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			clock := newClock()
			server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
			c := newClient(t, server, cas.Options{Now: clock.now})
			for _, f := range []*origintest.File{f, gone} {
				if err := readFile(t.Context(), c, f, 0, f.Info.Size()); err != nil {
					t.Fatal(err)
				}
			}
			server.intercept(status(code, func(r *http.Request) bool { return isPlanOf(r, gone) }))
			clock.advance(2 * time.Hour)
			if err := readFile(t.Context(), c, f, 12_100, 500); err != nil {
				t.Error(err)
			}
		})
	}
}

// After a remount, a chunk is found by another file if the one that the index names first is gone.
func TestGoneFileOfIndex(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 40})
	f := b.Add(origintest.Random(1, 40_000), 1000)
	x := b.Xorbs[0]
	for name, gone := range map[string]*origintest.File{"part": b.File(x.Term(10, 20)), "equal term": b.File(x.All(), x.Term(0, 1))} {
		for _, code := range []int{403, 404} {
			t.Run(fmt.Sprint(name, code), func(t *testing.T) {
				server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
				backend := new(origintest.Backend)
				mount := func() *cas.Client {
					c := newClient(t, server, cas.Options{Backend: backend})
					for _, id := range []codec.FileID{f.ID(), gone.ID()} {
						if _, err := c.FileInfo(t.Context(), id); err != nil {
							t.Fatal(err)
						}
					}
					return c
				}
				mount()
				server.reset()
				c := mount()
				if plans, _, _ := server.reset(); plans != 0 {
					t.Fatalf("%d plans after the remount", plans)
				}
				server.intercept(status(code, func(r *http.Request) bool { return isPlanOf(r, gone) }))
				if _, _, err := c.Narrow(t.Context(), f.ID(), f.Info.Terms[0], codec.Piece{Size: 40_000}); err != nil {
					t.Fatal(err)
				}
				run, err := c.Chunks(t.Context(), x.Hash(), codec.ChunkRange{Start: 12, End: 13}, origin.ReadOptions{})
				if err != nil {
					t.Fatal(err)
				}
				got := make([]byte, run.Size(12))
				if _, err := run.Unpack(12, got); err != nil || !bytes.Equal(got, x.Chunks[12]) {
					t.Errorf("other bytes, or %v", err)
				}
			})
		}
	}
}

// Tokens are renewed at their end and after a 401, once for all readers, and are sent to the
// server of the API only.
func TestTokens(t *testing.T) {
	b, f := sample(t)
	var current, issued atomic.Int64
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{Authorize: func(_ context.Context, token string) (string, error) {
		if token != fmt.Sprint("secret", current.Load()) {
			return "", casserve.ErrToken
		}
		return "", nil
	}})
	server.intercept(func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if isTransfer(r) && r.Header.Get("Authorization") != "" {
				t.Error("a transfer has the token")
			}
			h.ServeHTTP(w, r)
		})
	})
	clock := newClock()
	c := newClient(t, server, cas.Options{Now: clock.now, Tokens: cas.TokenFunc(func(context.Context) (cas.Token, error) {
		issued.Add(1)
		return cas.Token{URL: server.URL, Value: fmt.Sprint("secret", current.Load()), Lifetime: time.Hour}, nil
	})})
	all := func(what string, want int64) {
		t.Helper()
		issued.Store(0)
		var readers sync.WaitGroup
		for range 100 {
			readers.Go(func() {
				c.Forget(f.ID())
				if err := readFile(t.Context(), c, f, rand.Int64N(199_000), 1000); err != nil {
					t.Error(err)
				}
			})
		}
		readers.Wait()
		if n := issued.Load(); n != want {
			t.Errorf("%s: %d tokens, want %d", what, n, want)
		}
	}
	all("first", 1)
	all("later", 0)
	clock.advance(time.Hour)
	all("after the end", 1)
	current.Add(1)
	all("after a 401", 1)
}

// A file is not gone if its plan is forbidden while no new token can be requested. Its chunks are read with
// the next token.
func TestForbiddenIsNotGone(t *testing.T) {
	b, f := sample(t)
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{Life: time.Minute})
	var isDown atomic.Bool
	server.intercept(status(403, func(r *http.Request) bool { return isDown.Load() && !isTransfer(r) }))
	clock := newClock()
	c := newClient(t, server, cas.Options{Now: clock.now, Tokens: cas.TokenFunc(func(context.Context) (cas.Token, error) {
		if isDown.Load() {
			return cas.Token{}, fmt.Errorf("%w: the Hub is down", origin.ErrUnavailable)
		}
		return cas.Token{URL: server.URL, Value: "secret", Lifetime: time.Hour}, nil
	})})
	if _, err := c.FileInfo(t.Context(), f.ID()); err != nil {
		t.Fatal(err)
	}
	read := func() error {
		_, err := c.Chunks(t.Context(), b.Xorbs[0].Hash(), codec.ChunkRange{Start: 3, End: 9}, origin.ReadOptions{})
		return err
	}
	clock.advance(2 * time.Minute) // the addresses have expired
	isDown.Store(true)
	err := read()
	if wantError(t, err, origin.ErrUnavailable, "the Hub is down"); errors.Is(err, origin.ErrNotFound) {
		t.Errorf("%v, want ErrUnavailable alone", err)
	}
	isDown.Store(false)
	clock.advance(time.Minute)
	if err := read(); err != nil {
		t.Errorf("after the Hub has healed: %v", err)
	}
}

// A token that may not read a file is replaced once, if it is older than 2 s.
func TestForbiddenRenewsOldToken(t *testing.T) {
	b, f := sample(t)
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{Authorize: func(_ context.Context, token string) (string, error) {
		if token == "secret1" {
			return "", iofs.ErrPermission
		}
		return "", nil
	}})
	var issued atomic.Int64
	clock := newClock()
	c := newClient(t, server, cas.Options{Now: clock.now, Tokens: cas.TokenFunc(func(context.Context) (cas.Token, error) {
		return cas.Token{URL: server.URL, Value: fmt.Sprint("secret", issued.Add(1)), Lifetime: time.Hour}, nil
	})})
	_, err := c.FileInfo(t.Context(), f.ID())
	wantError(t, err, iofs.ErrPermission, "403 Forbidden; the token may not read the repository")
	clock.advance(3 * time.Second)
	if _, err := c.FileInfo(t.Context(), f.ID()); err != nil || issued.Load() != 2 {
		t.Errorf("%v after %d tokens", err, issued.Load())
	}
}

// A file that stays forbidden costs a token per 10 s, not one per read.
func TestForbiddenFileCostsFewTokens(t *testing.T) {
	b, f := sample(t)
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{Authorize: func(context.Context, string) (string, error) { return "", iofs.ErrPermission }})
	issued := 0
	clock := newClock()
	c := newClient(t, server, cas.Options{Now: clock.now, Tokens: cas.TokenFunc(func(context.Context) (cas.Token, error) {
		issued++
		return cas.Token{URL: server.URL, Value: "secret", Lifetime: time.Hour}, nil
	})})
	for range 20 {
		_, err := c.FileInfo(t.Context(), f.ID())
		wantError(t, err, iofs.ErrPermission, "403 Forbidden")
		clock.advance(3 * time.Second)
	}
	if issued != 6 { // at 0, 3, 15, 27, 39 and 51 s
		t.Errorf("%d tokens within 60 s, want 6", issued)
	}
}

// A transfer that begins again uses other memory for the run, and reports no fewer chunks than before.
func TestTransferBeginsAgain(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 400})
	f := b.Add(origintest.Random(1, 2_000_000), 10_000)
	g, server := newGeneration(t, b.Store(), casserve.HandlerOptions{})
	c := newClient(t, server, cas.Options{Fetch: quick})
	if _, err := c.FileInfo(t.Context(), f.ID()); err != nil {
		t.Fatal(err)
	}
	xb := b.Xorbs[0]
	var transfers atomic.Int64
	server.intercept(func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if isTransfer(r) && transfers.Add(1) == 1 {
				g.expire()
				size := xb.Info.PackedEnd[199]
				w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-%d/*", size-1))
				w.Header().Set("Content-Length", fmt.Sprint(size))
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write(xb.Bytes[:1_000_000])
				panic(http.ErrAbortHandler)
			}
			h.ServeHTTP(w, r)
		})
	})
	var memory [][]byte
	last := 0
	run, err := c.Chunks(t.Context(), xb.Hash(), codec.ChunkRange{End: 200}, origin.ReadOptions{
		Buffer: func(n int) []byte {
			memory = append(memory, make([]byte, n))
			return memory[len(memory)-1]
		},
		OnPartial: func(run *xorb.Run) {
			if run.Chunks.Len() <= last {
				t.Errorf("%d chunks after %d", run.Chunks.Len(), last)
			}
			last = run.Chunks.Len()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(memory) != 2 || last == 0 || &run.Packed[0] != &memory[1][0] {
		t.Errorf("memory was requested %d times, want 2; up to %d chunks were reported", len(memory), last)
	}
}

// A forbidden file does not hide a new one, which the next token may read.
func TestForbiddenFileHidesNoNewFile(t *testing.T) {
	b, forbidden := sample(t)
	added := b.Add(origintest.Random(2, 2000), 1000)
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
	server.intercept(status(403, func(r *http.Request) bool {
		return isPlanOf(r, forbidden) || isPlanOf(r, added) && r.Header.Get("Authorization") != "Bearer new"
	}))
	clock, value := newClock(), "old"
	c := newClient(t, server, cas.Options{Now: clock.now, Tokens: cas.TokenFunc(func(context.Context) (cas.Token, error) {
		return cas.Token{URL: server.URL, Value: value, Lifetime: time.Hour}, nil
	})})
	for range 2 { // the second one has replaced the token
		_, err := c.FileInfo(t.Context(), forbidden.ID())
		wantError(t, err, iofs.ErrPermission, "403 Forbidden")
		clock.advance(3 * time.Second)
	}
	value = "new"
	if _, err := c.FileInfo(t.Context(), added.ID()); err != nil {
		t.Error(err)
	}
}

// A forbidden file does not end the use of a token that can read others, also if no new one is issued.
func TestForbiddenFileKeepsToken(t *testing.T) {
	b, f := sample(t)
	forbidden := b.Add(origintest.Random(2, 2000), 1000)
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
	server.intercept(status(403, func(r *http.Request) bool { return isPlanOf(r, forbidden) }))
	clock := newClock()
	issued := 0
	c := newClient(t, server, cas.Options{Now: clock.now, Tokens: cas.TokenFunc(func(context.Context) (cas.Token, error) {
		if issued++; issued > 1 {
			return cas.Token{}, fmt.Errorf("%w: the Hub is down", origin.ErrUnavailable)
		}
		return cas.Token{URL: server.URL, Value: "secret", Lifetime: time.Hour}, nil
	})})
	for range 2 {
		c.Forget(f.ID())
		if err := readFile(t.Context(), c, f, 0, 1000); err != nil {
			t.Error(err)
		}
		clock.advance(3 * time.Second)
		_, err := c.FileInfo(t.Context(), forbidden.ID())
		wantError(t, err, iofs.ErrPermission, "403 Forbidden")
		wantError(t, err, origin.ErrUnavailable, "the Hub is down")
	}
}

// A forbidden file costs one request for a token per 10 s if there is no new one. Reads of other files with
// the current one do not change that.
func TestForbiddenFileWithoutNewToken(t *testing.T) {
	tests := []struct {
		name string
		err  error // of the source of tokens
	}{
		{"refused", fmt.Errorf("gated: %w", iofs.ErrPermission)},
		{"unavailable", fmt.Errorf("%w: the Hub is down", origin.ErrUnavailable)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, f := sample(t)
			forbidden := b.Add(origintest.Random(2, 2000), 1000)
			server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
			server.intercept(status(403, func(r *http.Request) bool { return isPlanOf(r, forbidden) }))
			clock := newClock()
			calls := 0
			c := newClient(t, server, cas.Options{Now: clock.now, Tokens: cas.TokenFunc(func(context.Context) (cas.Token, error) {
				if calls++; calls > 1 {
					return cas.Token{}, tt.err
				}
				return cas.Token{URL: server.URL, Value: "secret", Lifetime: time.Hour}, nil
			})})
			for i := range 50 {
				c.Forget(f.ID())
				if _, err := c.FileInfo(t.Context(), f.ID()); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					clock.advance(3 * time.Second)
				}
				_, err := c.FileInfo(t.Context(), forbidden.ID())
				wantError(t, err, tt.err, "403 Forbidden")
			}
			if calls != 2 {
				t.Errorf("%d requests for a token, want one and a renewal", calls)
			}
			clock.advance(10 * time.Second)
			_, err := c.FileInfo(t.Context(), forbidden.ID())
			if wantError(t, err, tt.err, "403 Forbidden"); calls != 3 {
				t.Errorf("%d requests for a token after the pause, want 3", calls)
			}
		})
	}
}

// A token is used until its end if the source of tokens is down. Reads do not wait for the source before.
func TestTokenIsUsedUntilItsEnd(t *testing.T) {
	b, f := sample(t)
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
	clock := newClock()
	var issued atomic.Int64
	renewal, isDown := make(chan struct{}, 10), make(chan struct{})
	c := newClient(t, server, cas.Options{Now: clock.now, Tokens: cas.TokenFunc(func(context.Context) (cas.Token, error) {
		if issued.Add(1) > 1 {
			renewal <- struct{}{}
			<-isDown
			return cas.Token{}, fmt.Errorf("%w: the Hub is down", origin.ErrUnavailable)
		}
		return cas.Token{URL: server.URL, Value: "secret", Lifetime: time.Hour}, nil
	})})
	read := func() error {
		c.Forget(f.ID())
		return readFile(t.Context(), c, f, 0, 1000)
	}
	for _, d := range []time.Duration{0, 59*time.Minute + 29*time.Second, time.Second, 5 * time.Second} {
		clock.advance(d)
		if err := read(); err != nil {
			t.Error(err)
		}
	}
	<-renewal
	if n := issued.Load(); n != 2 {
		t.Errorf("%d requests for a token, want one and a renewal", n)
	}
	close(isDown)
	clock.advance(24 * time.Second)
	if err := read(); err != nil {
		t.Error(err)
	}
	clock.advance(time.Second)
	wantError(t, read(), origin.ErrUnavailable, "the Hub is down")
}

// A refused token pauses the requests, at first for 1 s and at most for 64 s.
func TestRefusedTokenPauses(t *testing.T) {
	b, f := sample(t)
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{Authorize: func(context.Context, string) (string, error) { return "", casserve.ErrToken }})
	clock := newClock()
	c := newClient(t, server, cas.Options{Tokens: cas.StaticToken(server.URL, "secret"), Now: clock.now})
	for i, pause := range []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, 64 * time.Second, 64 * time.Second} {
		if pause > 0 {
			clock.advance(pause - time.Second/2)
			_, err := c.FileInfo(t.Context(), f.ID())
			wantError(t, err, iofs.ErrPermission, "401 Unauthorized; check the token")
			if plans, _, _ := server.reset(); plans != 0 {
				t.Errorf("%d requests in pause %d", plans, i)
			}
			clock.advance(time.Second)
		}
		if _, err := c.FileInfo(t.Context(), f.ID()); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("error %v", err)
		}
		if plans, _, _ := server.reset(); plans == 0 {
			t.Errorf("no request after pause %d", i)
		}
	}
}

// A refusal of the token source is returned for 10 s without another call. A temporary error is not
// remembered.
func TestTokenSourceRefuses(t *testing.T) {
	b, f := sample(t)
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
	tests := []struct {
		name   string
		err    error
		calls  int64 // for 100 files
		exists bool  // a token, which has ended
	}{
		{"no permission", fmt.Errorf("gated: %w", iofs.ErrPermission), 1, false},
		{"no repository", fmt.Errorf("deleted: %w", origin.ErrNotFound), 1, false},
		{"no permission for a new token", fmt.Errorf("gated: %w", iofs.ErrPermission), 1, true},
		{"not available", origin.ErrUnavailable, 100, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var calls atomic.Int64
			var err error
			clock := newClock()
			c := newClient(t, server, cas.Options{Now: clock.now, Tokens: cas.TokenFunc(func(context.Context) (cas.Token, error) {
				calls.Add(1)
				return cas.Token{URL: server.URL, Lifetime: time.Hour}, err
			})})
			open := func(want error) {
				t.Helper()
				c.Forget(f.ID())
				if _, err := c.FileInfo(t.Context(), f.ID()); !errors.Is(err, want) {
					t.Fatalf("FileInfo = %v, want %v", err, want)
				}
			}
			if tt.exists {
				open(nil)
				clock.advance(time.Hour)
			}
			err = tt.err
			calls.Store(0)
			for range 100 {
				open(tt.err)
			}
			clock.advance(10*time.Second - 1)
			if n := calls.Load(); n != tt.calls {
				t.Errorf("%d calls, want %d", n, tt.calls)
			}
			calls.Store(0)
			if tt.calls == 1 {
				open(tt.err)
				if n := calls.Load(); n != 0 {
					t.Errorf("%d calls before the end of the pause", n)
				}
			}
			err = nil
			clock.advance(1)
			open(nil)
			if n := calls.Load(); n != 1 {
				t.Errorf("%d calls after the pause, want 1", n)
			}
		})
	}
}

// RetryToken ends the memory of an absent repository, and not that of a lack of permission.
func TestRetryToken(t *testing.T) {
	b, f := sample(t)
	forbidden := b.Add(origintest.Random(2, 2000), 1000)
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
	tests := []struct {
		name    string
		err     error
		retries bool
	}{
		{"no permission", fmt.Errorf("gated: %w", iofs.ErrPermission), false},
		{"no repository", fmt.Errorf("deleted: %w", origin.ErrNotFound), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err, value := tt.err, "old"
			clock := newClock()
			c := newClient(t, server, cas.Options{Now: clock.now, Tokens: cas.TokenFunc(func(context.Context) (cas.Token, error) {
				return cas.Token{URL: server.URL, Value: value, Lifetime: time.Hour}, err
			})})
			open := func(id codec.FileID, isRefused bool) {
				t.Helper()
				c.Forget(id)
				switch _, err := c.FileInfo(t.Context(), id); {
				case isRefused && !errors.Is(err, tt.err), !isRefused && err != nil:
					t.Errorf("FileInfo = %v, refused %t", err, isRefused)
				}
			}
			open(f.ID(), true)
			err = nil
			open(f.ID(), true)
			c.RetryToken()
			open(f.ID(), !tt.retries)
			if !tt.retries {
				return
			}
			// The token is that of a former repository with the same name.
			server.intercept(status(403, func(r *http.Request) bool {
				return r.Header.Get("Authorization") == "Bearer old" && isPlanOf(r, forbidden)
			}))
			clock.advance(3 * time.Second)
			err = tt.err
			open(forbidden.ID(), true)
			err, value = nil, "new"
			open(forbidden.ID(), true)
			c.RetryToken()
			open(forbidden.ID(), false)
		})
	}
}

// A server may refuse all tokens for one file, and accept them for others. It gets a bounded number of
// requests for that file.
func TestTokenRefusedForOneFile(t *testing.T) {
	b, refused := sample(t)
	other := b.Add(origintest.Text(2, 1000), 1000)
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
	c := newClient(t, server, cas.Options{Tokens: cas.StaticToken(server.URL, "secret")})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var requests atomic.Int64
	server.intercept(func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, refused.ID().File.String()) {
				h.ServeHTTP(w, r)
				return
			}
			if requests.Add(1) == 100 {
				cancel()
			}
			c.Forget(other.ID())
			if _, err := c.FileInfo(ctx, other.ID()); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			w.WriteHeader(http.StatusUnauthorized)
		})
	})
	_, err := c.FileInfo(ctx, refused.ID())
	wantError(t, err, iofs.ErrPermission, "401 Unauthorized; check the token")
	if n := requests.Load(); n > 8 {
		t.Errorf("%d requests", n)
	}
}

// Wrong clocks do not matter, because lifetimes are measured since receipt.
func TestClocksMayBeWrong(t *testing.T) {
	for _, wrong := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		b, f := sample(t)
		server := serveCAS(t, b.Store(), casserve.HandlerOptions{Life: 5 * time.Minute})
		clock := newClock()
		clock.advance(wrong)
		c := newClient(t, server, cas.Options{Now: clock.now})
		for range 20 {
			if err := readFile(t.Context(), c, f, rand.Int64N(199_000), 1000); err != nil {
				t.Error(err)
			}
		}
		server.reset()
		for _, x := range b.Xorbs {
			if _, err := c.Chunks(t.Context(), x.Hash(), codec.ChunkRange{Start: 3, End: 9}, origin.ReadOptions{}); err != nil {
				t.Error(err)
			}
		}
		if plans, _, _ := server.reset(); plans > 0 {
			t.Errorf("a clock %v ahead: %d renewals", wrong, plans)
		}
	}
}

// A transfer whose address expires in the middle begins again in other memory. A reader may still use
// the chunks that arrived before, and the server may send other bytes now.
func TestExpiredTransferKeepsArrivedChunks(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{Schemes: []xorb.Scheme{xorb.None}})
	f := b.Add(origintest.Random(1, 16<<16), 1<<16)
	g, server := newGeneration(t, b.Store(), casserve.HandlerOptions{})
	server.intercept(func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if isTransfer(r) {
				w = &expiringWriter{ResponseWriter: w, g: g, isFirst: g.now.Load() == 0}
			}
			h.ServeHTTP(w, r)
		})
	})
	c := newClient(t, server, cas.Options{})
	fi, err := c.FileInfo(t.Context(), f.ID())
	if err != nil {
		t.Fatal(err)
	}
	var partial *xorb.Run
	var want []byte
	run, err := c.Chunks(t.Context(), fi.Terms[0].Xorb, fi.Terms[0].Chunks, origin.ReadOptions{OnPartial: func(run *xorb.Run) {
		if partial == nil {
			partial, want = run, bytes.Clone(run.Packed)
		}
	}})
	if err != nil || partial == nil || g.now.Load() != 1 {
		t.Fatalf("%v, after %d expired addresses", err, g.now.Load())
	}
	if !bytes.Equal(partial.Packed, want) || bytes.Equal(run.Packed[:len(want)], want) {
		t.Error("the new transfer has changed chunks of a reader")
	}
}

// An expiringWriter ends the first answer in the middle, and expires its address. It changes a byte of
// the others.
type expiringWriter struct {
	http.ResponseWriter
	g       *generation
	isFirst bool
	n       int
}

func (w *expiringWriter) Write(p []byte) (int, error) {
	const place = 100
	p = bytes.Clone(p)
	if at := place - w.n; !w.isFirst && 0 <= at && at < len(p) {
		p[at] ^= 1
	}
	n, err := w.ResponseWriter.Write(p)
	if w.n += n; w.isFirst && w.n >= 8<<16 {
		http.NewResponseController(w.ResponseWriter).Flush()
		w.g.expire()
		panic(http.ErrAbortHandler)
	}
	return n, err
}

var lives = flag.Duration("lives", 4*time.Second, "time for which TestShortLives reads")

// Addresses that end after 2 s and tokens that end after 5 s lead to no error. Each plan is requested
// once for the life of its addresses, and so is a token.
func TestShortLives(t *testing.T) {
	duration := *lives
	if testing.Short() {
		duration = 0
	}
	b, f := sample(t)
	var tokens atomic.Int64
	signer, err := casserve.NewSigner(nil)
	if err != nil {
		t.Fatal(err)
	}
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{Life: 2 * time.Second, Signer: signer, Authorize: func(_ context.Context, token string) (string, error) {
		return signer.Verify(token)
	}})
	c := newClient(t, server, cas.Options{
		Fetch: fetch.Options{Limits: fetch.Limits{First: time.Minute, Read: time.Minute}},
		Tokens: cas.TokenFunc(func(context.Context) (cas.Token, error) {
			tokens.Add(1)
			return cas.Token{URL: server.URL, Value: signer.Token("", time.Now().Add(5*time.Second)), Lifetime: 5 * time.Second}, nil
		}),
	})
	start := time.Now()
	var readers sync.WaitGroup
	for range 100 {
		readers.Go(func() {
			for again := true; again; again = time.Since(start) < duration {
				c.Reject(b.Xorbs[0].Hash())
				if err := readFile(t.Context(), c, f, rand.Int64N(199_000), 1000); err != nil {
					t.Error(err)
				}
			}
		})
	}
	readers.Wait()
	took := time.Since(start)
	if most := int64(took/(4*time.Second)) + 2; tokens.Load() > most {
		t.Errorf("%d tokens in %v, want at most %d", tokens.Load(), took, most)
	}
	plans, _, transfers := server.reset()
	t.Logf("%v: %d tokens, %d plans, %d transfers", took, tokens.Load(), plans, transfers)
	if most := int64(took/time.Second) + 2; plans > most {
		t.Errorf("%d plans in %v, want at most %d", plans, took, most)
	}
}

// Connect requests the token before the first file does. After a temporary error a file requests one itself.
func TestConnect(t *testing.T) {
	b, f := sample(t)
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
	for name, first := range map[string]error{"a token": nil, "no token": origin.ErrUnavailable} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int64
			answered := make(chan struct{})
			c := newClient(t, server, cas.Options{Tokens: cas.TokenFunc(func(context.Context) (cas.Token, error) {
				if requests.Add(1) == 1 {
					defer close(answered)
					return cas.Token{URL: server.URL}, first
				}
				return cas.Token{URL: server.URL}, nil
			})})
			c.Connect()
			<-answered
			want := int64(1)
			if first != nil {
				want = 2
			}
			err := readFile(t.Context(), c, f, 0, 5000)
			for errors.Is(err, origin.ErrUnavailable) && requests.Load() < want { // it has joined Connect
				err = readFile(t.Context(), c, f, 0, 5000)
			}
			if err != nil || requests.Load() != want {
				t.Errorf("%d tokens, want %d; error %v", requests.Load(), want, err)
			}
		})
	}
}

package cas_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
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
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/shard"
)

// quick are limits for servers that always fail.
var quick = fetch.Options{Attempts: 2, Pause: time.Millisecond, Limits: fetch.Limits{First: 10 * time.Second, Read: 10 * time.Second}}

// status answers plans, or transfers, with a status.
func status(code int, of func(*http.Request) bool, header ...string) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !of(r) {
				h.ServeHTTP(w, r)
				return
			}
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			http.Error(w, "a text of the server with a secret", code)
		})
	}
}

func isPlan(r *http.Request) bool { return !isTransfer(r) }

// edit changes the body of each answer to some requests.
func edit(of func(*http.Request) bool, change func(string) string) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !of(r) {
				h.ServeHTTP(w, r)
				return
			}
			record := httptest.NewRecorder()
			h.ServeHTTP(record, r)
			body := change(record.Body.String())
			for name, values := range record.Header() {
				w.Header()[name] = values
			}
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			w.WriteHeader(record.Code)
			_, _ = io.WriteString(w, body)
		})
	}
}

// Each bad answer has one sentence, and a kind that decides about the errno.
func TestBadAnswers(t *testing.T) {
	for _, tt := range []struct {
		name string
		wrap func(http.Handler) http.Handler
		kind error
		text string
	}{
		{"401", status(401, isPlan), iofs.ErrPermission, "the server says 401 Unauthorized; check the token"},
		{"403", status(403, isPlan), iofs.ErrPermission, "the server says 403 Forbidden; the token may not read the repository"},
		{"404", status(404, isPlan), origin.ErrNotFound, "no such object"},
		{"416", status(416, isPlan), origin.ErrUnavailable, "the server says 416"},
		{"429", status(429, isPlan, "Retry-After", "0"), origin.ErrUnavailable, "the server says 429 Too Many Requests"},
		{"500", status(500, isPlan), origin.ErrUnavailable, "the server says 500 Internal Server Error"},
		{"502", status(502, isPlan), origin.ErrUnavailable, "the server says 502 Bad Gateway"},
		{"503", status(503, isPlan), origin.ErrUnavailable, "the server says 503 Service Unavailable"},
		{"400", status(400, isPlan), origin.ErrUnavailable, "the server says 400 Bad Request"},
		{"HTML", edit(isPlan, func(string) string { return "<!DOCTYPE html><title>log in</title>" }), codec.ErrCorrupt, "plan at byte 0: want '{'"},
		{"half a plan", edit(isPlan, func(s string) string { return s[:len(s)/2] }), codec.ErrCorrupt, "plan at byte"},
		{"no address", edit(isPlan, func(s string) string { return strings.ReplaceAll(s, `"url":"http`, `"url":"ftp`) }), codec.ErrCorrupt, `its scheme is "ftp"`},
		{"address with a name", edit(isPlan, func(s string) string { return strings.ReplaceAll(s, "http://", "http://me:secret@") }), codec.ErrCorrupt, "it has a user name"},
		{"address with a fragment", edit(isPlan, func(s string) string { return strings.ReplaceAll(s, `Expires=`, `x#secret&Expires=`) }), codec.ErrCorrupt, "it has a fragment"},

		{"transfer 401", status(401, isTransfer), iofs.ErrPermission, "401 or 403 to a new address"},
		{"transfer 403", status(403, isTransfer), iofs.ErrPermission, "401 or 403 to a new address"},
		{"transfer 400", status(400, isTransfer), origin.ErrUnavailable, "400 Bad Request"},
		{"transfer 404", status(404, isTransfer), origin.ErrNotFound, "no such object"},
		{"transfer 416", status(416, isTransfer, "Content-Range", "bytes */5"), codec.ErrCorrupt, "it ends here"},
		{"transfer 429", status(429, isTransfer, "Retry-After", "0"), origin.ErrUnavailable, "429 Too Many Requests"},
		{"transfer 500", status(500, isTransfer), origin.ErrUnavailable, "500 Internal Server Error"},
		{"transfer 200", edit200, codec.ErrCorrupt, "packed size 0 is out of range"},
		{"transfer of other bytes", edit(isTransfer, func(s string) string { return strings.Repeat("x", len(s)) }), codec.ErrCorrupt, "version 120 is not known"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, f := sample(t)
			server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
			server.intercept(tt.wrap)
			c := newClient(t, server, cas.Options{Fetch: quick})
			wantError(t, readFile(t.Context(), c, f, 100_000, 1000), tt.kind, tt.text)
			server.intercept(nil)
			c.Forget(f.ID())
			if tt.kind == iofs.ErrPermission && strings.Contains(tt.text, "401") {
				return // the pause after a refused token has its own test
			}
			if err := readFile(t.Context(), c, f, 100_000, 1000); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
}

// edit200 answers transfers with status 200 and 2 MiB.
func edit200(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isTransfer(r) {
			_, _ = w.Write(make([]byte, 2<<20))
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Terms that say more or fewer bytes than their chunks have never lead to other bytes.
func TestLyingTerms(t *testing.T) {
	b, f := sample(t)
	size := f.Info.Terms[0].Size
	for _, lie := range []uint32{size - 1, size + 1, size - 1000, size + 1000} {
		server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
		server.intercept(edit(isPlan, func(s string) string {
			return strings.Replace(s, fmt.Sprint(`"unpacked_length":`, size), fmt.Sprint(`"unpacked_length":`, lie), 1)
		}))
		c := newClient(t, server, cas.Options{})
		term := f.Info.Terms[0]
		term.Size = lie
		_, _, err := c.Narrow(t.Context(), f.ID(), term, codec.Piece{Skip: int64(lie) - 10, Size: 10, Off: int64(lie) - 10})
		if err != nil {
			wantError(t, err, codec.ErrCorrupt, "")
		}
	}
}

// A term of an earlier plan, which an open file may still have, drops neither the plan nor what was learned.
func TestTermOfEarlierPlan(t *testing.T) {
	b, f := sample(t)
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
	lie, term := true, f.Info.Terms[0]
	end := fmt.Sprintf(`"end":%d`, term.Chunks.End)
	term.Chunks.End--
	server.intercept(edit(isPlan, func(s string) string {
		if lie {
			s = strings.Replace(s, end, fmt.Sprintf(`"end":%d`, term.Chunks.End), 1)
		}
		return s
	}))
	c := newClient(t, server, cas.Options{})
	if fi, err := c.FileInfo(t.Context(), f.ID()); err != nil || fi.Terms[0] != term {
		t.Fatalf("%+v, %v", fi, err)
	}
	c.Forget(f.ID())
	lie = false
	if err := readFile(t.Context(), c, f, 0, f.Info.Size()); err != nil {
		t.Fatal(err)
	}
	plans := server.plans.Load()
	_, _, err := c.Narrow(t.Context(), f.ID(), term, codec.Piece{Skip: int64(term.Size) - 10, Size: 10, Off: int64(term.Size) - 10})
	wantError(t, err, codec.ErrCorrupt, "")
	if _, err := c.FileInfo(t.Context(), f.ID()); err != nil || server.plans.Load() != plans {
		t.Errorf("%v; %d more requests for plans", err, server.plans.Load()-plans)
	}
}

// A server of xorbs under wrong names is found out by the hash of the chunks, which the cache
// compares. Chunks of other lengths are refused here.
func TestForeignXorbs(t *testing.T) {
	b, f := sample(t)
	other := origintest.NewBuilder(t, origintest.Form{XorbChunks: 40})
	other.Add(origintest.Text(9, 200_000), 900, 1100)
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
	server.intercept(edit(isTransfer, func(s string) string { return string(other.Xorbs[0].Bytes[:len(s)]) }))
	c := newClient(t, server, cas.Options{Fetch: quick})
	if err := readFile(t.Context(), c, f, 0, 1000); err == nil {
		t.Error("foreign chunks are read without an error")
	}
}

// A server that ignores the range of a plan returns the start of the file, which is no plan of the
// range.
func TestPlansIgnoreRanges(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 100})
	f := b.Add(origintest.Random(1, 6_000_000), 60_000)
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
	server.intercept(func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if isPlan(r) {
				r.Header.Del("Range")
			}
			h.ServeHTTP(w, r)
		})
	})
	c := newClient(t, server, cas.Options{Fetch: quick})
	for _, off := range []int64{0, 100_000, 3_000_000} {
		err := readFile(t.Context(), c, f, off, 1000)
		if err != nil { // other bytes are an error of another kind
			wantError(t, err, codec.ErrCorrupt, "are in other chunks than by the plan of the whole file")
		}
	}
}

// Version 1 is used after a 404 or 501 of version 2, and remembered for ten minutes.
func TestFallsBackToVersion1(t *testing.T) {
	for _, code := range []int{404, 405, 501} {
		b, f := sample(t)
		server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
		isV2 := func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/v2/") }
		server.intercept(status(code, isV2))
		clock := newClock()
		c := newClient(t, server, cas.Options{Now: clock.now})
		for i, want := range []int64{2, 1, 2, 1} {
			if i == 2 {
				clock.advance(11 * time.Minute)
			}
			c.Forget(f.ID())
			server.reset()
			if err := readFile(t.Context(), c, f, 0, 200_000); err != nil {
				t.Fatal(err)
			}
			if plans, _, _ := server.reset(); plans != want {
				t.Errorf("status %d, file %d: %d requests for a plan, want %d", code, i, plans, want)
			}
		}
	}
}

// Version 1 is also used if version 2 has worked before. A 404 then means a missing file for ten minutes.
func TestServerLosesVersion2(t *testing.T) {
	for code, pause := range map[int]time.Duration{404: 11 * time.Minute, 405: 0, 501: 0} {
		b, f := sample(t)
		server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
		clock := newClock()
		c := newClient(t, server, cas.Options{Now: clock.now})
		if err := readFile(t.Context(), c, f, 0, 1000); err != nil {
			t.Fatal(err)
		}
		server.reset()
		_, err := c.FileInfo(t.Context(), codec.FileID{File: codec.Hash{1}})
		if plans, _, _ := server.reset(); !errors.Is(err, origin.ErrNotFound) || plans != 1 {
			t.Errorf("a missing file costs %d requests, want 1: %v", plans, err)
		}
		server.intercept(status(code, func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/v2/") }))
		clock.advance(pause)
		c.Forget(f.ID())
		if err := readFile(t.Context(), c, f, 0, 1000); err != nil {
			t.Errorf("status %d: %v", code, err)
		}
	}
}

// A plan of a large file is requested in blocks.
func TestBlocks(t *testing.T) {
	b, f := sample(t)
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
	for _, block := range []int64{7_000, 20_000, 33_333, 100_000, 200_000, 1 << 20} {
		c := newClient(t, server, cas.Options{Block: block})
		server.reset()
		fi, err := c.FileInfo(t.Context(), f.ID())
		if err != nil {
			t.Fatal(err)
		}
		if plans, _, _ := server.reset(); plans > 200_000/block+8 {
			t.Errorf("block %d: %d requests", block, plans)
		}
		if fi.Size() != 200_000 || chunksOf(fi.Terms) != chunksOf(f.Info.Terms) {
			t.Errorf("block %d: %d bytes, chunks %s, want %s", block, fi.Size(), chunksOf(fi.Terms), chunksOf(f.Info.Terms))
		}
		if err := readFile(t.Context(), c, f, 0, 200_000); err != nil {
			t.Errorf("block %d: %v", block, err)
		}
	}
}

// Nothing waits for a block behind the end of a file, or behind a block that fails.
func TestHangingBlocks(t *testing.T) {
	const block, size = 50_000, 200_000 // the end is in block 4, and blocks 3 to 6 are requested at once
	for name, tt := range map[string]struct{ hangs, fails int }{"behind the end": {5, -1}, "behind an error": {6, 3}} {
		t.Run(name, func(t *testing.T) {
			b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 40})
			f := b.Add(origintest.Text(1, size+1000), 1000, 700, 1300, 900)
			server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
			server.intercept(func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					var off int
					switch _, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &off); {
					case isPlan(r) && off >= tt.hangs*block:
						<-r.Context().Done()
					case isPlan(r) && off == tt.fails*block:
						w.WriteHeader(http.StatusBadRequest)
					default:
						h.ServeHTTP(w, r)
					}
				})
			})
			c := newClient(t, server, cas.Options{Block: block})
			if fi, err := c.FileInfo(t.Context(), f.ID()); tt.fails < 0 && (err != nil || fi.Size() != size+1000) {
				t.Errorf("FileInfo = %v", err)
			} else if tt.fails >= 0 && err == nil {
				t.Error("no error of a block that fails")
			}
		})
	}
}

// All blocks of a file of known size are requested at once, and none behind its end. A wrong size
// leads to no error here.
func TestBlocksOfKnownSize(t *testing.T) {
	const block, blocks = 50_000, 4
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 40})
	f := b.Add(origintest.Text(1, blocks*block), 1000, 700, 1300, 900)
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
	var waiting atomic.Int64
	proceed := make(chan struct{})
	server.intercept(func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if waiting.Add(1) == blocks {
				close(proceed)
			}
			select {
			case <-proceed:
				h.ServeHTTP(w, r)
			case <-r.Context().Done(): // it waited alone
			}
		})
	})
	c := newClient(t, server, cas.Options{Block: block, Fetch: quick})
	fi, err := c.FileInfo(origin.WithSize(t.Context(), blocks*block), f.ID())
	if err != nil || chunksOf(fi.Terms) != chunksOf(f.Info.Terms) {
		t.Fatalf("FileInfo = %v", err)
	}
	if plans, _, _ := server.reset(); plans != blocks {
		t.Errorf("%d requests for %d blocks", plans, blocks)
	}
	for size, want := range map[int64]int64{0: block, 2 * block: 2 * block, 1 << 40: blocks * block, -1: block} {
		c.Forget(f.ID())
		fi, err := c.FileInfo(origin.WithSize(t.Context(), size), f.ID())
		if err != nil || fi.Size() < want || fi.Size() > want+1300 {
			t.Errorf("size %d: FileInfo = %v, want %d bytes", size, err, want)
		}
	}
}

// chunksOf returns the names of all chunks of a file.
func chunksOf(terms []codec.Term) string {
	var all strings.Builder
	for _, t := range terms {
		for i := t.Chunks.Start; i < t.Chunks.End; i++ {
			fmt.Fprint(&all, t.Xorb.Short()[:4], ":", i, " ")
		}
	}
	return all.String()
}

// After a remount a proven file is described, and its chunks are found, without a request. Chunks
// that are not in the disk cache cost two requests.
func TestRemountCostsNoRequest(t *testing.T) {
	b, f := sample(t)
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
	backend := new(origintest.Backend)
	first := cas.NewClient(cas.Options{Tokens: cas.StaticToken(server.URL, ""), Backend: backend})
	if err := readFile(t.Context(), first, f, 0, 200_000); err != nil {
		t.Fatal(err)
	}
	for _, term := range f.Terms {
		proven := origin.ChunkHashes{Xorb: term.X.Hash(), Start: uint32(term.Start)}
		for _, chunk := range term.X.Chunks[term.Start:term.End] {
			proven.Leaves = append(proven.Leaves, merkle.Leaf{Hash: merkle.Chunk(chunk), Size: uint64(len(chunk))})
		}
		first.Prove([]origin.ChunkHashes{proven})
	}
	first.Close()
	server.reset()
	c := newClient(t, server, cas.Options{Backend: backend})
	fi, err := c.FileInfo(t.Context(), f.ID())
	if err != nil || !slices.Equal(fi.Terms, f.Info.Terms) {
		t.Fatalf("FileInfo = %v, %v", fi, err)
	}
	off := int64(0)
	for i, term := range fi.Terms {
		for skip := int64(0); skip < int64(term.Size); skip += 997 {
			p := codec.Piece{Term: i, Off: off + skip, Skip: skip, Size: 1}
			if r, _, err := c.Narrow(t.Context(), f.ID(), term, p); err != nil || r.Len() != 1 {
				t.Errorf("Narrow = %v, %v", r, err)
			}
		}
		off += int64(term.Size)
	}
	if plans, batches, transfers := server.reset(); plans+batches+transfers > 0 {
		t.Errorf("%d plans, %d batches, %d transfers, want none", plans, batches, transfers)
	}
	if err := readFile(t.Context(), c, f, 50_000, 10); err != nil {
		t.Error(err)
	}
	if plans, _, transfers := server.reset(); plans != 1 || transfers != 1 {
		t.Errorf("%d plans and %d transfers, want 1 and 1", plans, transfers)
	}
}

// Chunks are found after all memory was needed for other files, by the index in the disk cache.
func TestFindsChunksAfterEviction(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 3})
	var files []*origintest.File
	for i := range uint64(100) {
		files = append(files, b.Add(origintest.Random(i, 3000), 1000))
	}
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
	c := newClient(t, server, cas.Options{Backend: new(origintest.Backend), Bytes: 8000})
	for _, f := range files {
		if _, err := c.FileInfo(t.Context(), f.ID()); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range b.Xorbs {
		if _, err := c.Chunks(t.Context(), x.Hash(), codec.ChunkRange{Start: 1, End: 2}, origin.ReadOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// Plans of many files share requests, if the server supports it.
func TestBatches(t *testing.T) {
	for _, supported := range []bool{true, false} {
		b := origintest.NewBuilder(t, origintest.Form{})
		for i := range uint64(5) {
			var chunks [][]byte
			for j := range uint64(50) {
				chunks = append(chunks, origintest.Random(50*i+j, 900+int(j)))
			}
			x := b.Xorb(chunks...)
			for j := range 50 {
				b.File(x.Term(j, j+1))
			}
		}
		server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
		if !supported {
			server.intercept(status(404, func(r *http.Request) bool { return r.URL.Query().Has("file_id") }))
		}
		c := newClient(t, server, cas.Options{})
		var ids []codec.FileID
		for _, f := range b.Files {
			ids = append(ids, f.ID())
		}
		ids = append(ids, codec.FileID{File: codec.Hash{1}}, ids[0])
		var mu sync.Mutex
		yields := map[int]int{}
		c.FileInfos(t.Context(), ids, func(i int, fi *shard.FileInfo, err error) {
			mu.Lock()
			defer mu.Unlock()
			yields[i]++
			if isAbsent := i == 250; isAbsent != (err != nil) || !isAbsent && !slices.Equal(fi.Terms, b.Files[i%251].Info.Terms) {
				t.Errorf("file %d: %v, %v", i, fi, err)
			}
		})
		plans, batches, _ := server.reset()
		if len(yields) != len(ids) {
			t.Errorf("%d results for %d files", len(yields), len(ids))
		}
		if supported && (batches != 3 || plans > 2*51) || !supported && (batches != 1 || plans > 2*251) {
			t.Errorf("supported %v: %d batches and %d plans", supported, batches, plans)
		}
		for _, f := range b.Files {
			if err := readFile(t.Context(), c, f, 0, f.Info.Size()); err != nil {
				t.Fatal(err)
			}
		}
		if plans, batches, transfers := server.reset(); supported && (plans+batches > 5 || transfers > 60) {
			t.Errorf("%d plans, %d batches and %d transfers for the data", plans, batches, transfers)
		}
	}
}

// After a panic in a batch, the other files of the batch are yielded all the same, once.
func TestPanicInBatch(t *testing.T) {
	b, _ := sample(t)
	var ids []codec.FileID
	for i := range uint64(5) {
		ids = append(ids, b.Add(origintest.Text(10+i, 1000), 1000).ID())
	}
	c := newClient(t, serveCAS(t, b.Store(), casserve.HandlerOptions{}), cas.Options{})
	yields, first := make([]int, len(ids)), true
	var mu sync.Mutex
	c.FileInfos(t.Context(), ids, func(i int, _ *shard.FileInfo, err error) {
		mu.Lock()
		defer mu.Unlock()
		if yields[i]++; err != nil {
			t.Errorf("file %d: %v", i, err)
		}
		if first {
			first = false
			panic("in yield")
		}
	})
	if want := []int{1, 1, 1, 1, 1}; !slices.Equal(yields, want) {
		t.Errorf("results %v, want %v", yields, want)
	}
}

// A server that refuses parts of signed ranges gets one such request in ten minutes, and no address
// is renewed for it.
func TestPartsAreTriedOnce(t *testing.T) {
	for name, wrap := range map[string]func(http.Handler) http.Handler{
		"its own text": nil,
		"403":          refuseParts(403),
		"400":          refuseParts(400),
		"416":          refuseParts(416),
	} {
		t.Run(name, func(t *testing.T) {
			b, f := sample(t)
			server := serveCAS(t, b.Store(), casserve.HandlerOptions{ExactRanges: true})
			server.intercept(wrap)
			clock := newClock()
			c := newClient(t, server, cas.Options{Fetch: quick, Now: clock.now})
			refused := 0
			var mu sync.Mutex
			server.observe(func(r *http.Request, code int) {
				mu.Lock()
				defer mu.Unlock()
				if isTransfer(r) && code >= 400 {
					refused++
				}
			})
			for want := 1; want <= 2; want++ {
				for range 50 {
					if err := readFile(t.Context(), c, f, rand.Int64N(199_000), 10); err != nil {
						t.Fatal(err)
					}
				}
				mu.Lock()
				if refused != want {
					t.Errorf("%d refused transfers, want %d", refused, want)
				}
				mu.Unlock()
				clock.advance(11 * time.Minute)
				for _, term := range f.Info.Terms {
					c.Reject(term.Xorb) // so that its bytes are requested again
				}
			}
		})
	}
}

// A server that has served parts may refuse them later. Reads then use whole signed ranges.
func TestPartsAreServedNoMore(t *testing.T) {
	part := func(w http.ResponseWriter, r *http.Request, contentRange string, n int) {
		w.Header().Set("Content-Range", contentRange)
		w.WriteHeader(http.StatusPartialContent)
		w.Write(make([]byte, n))
	}
	answers := map[string]http.HandlerFunc{
		"a page": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<!DOCTYPE html><html></html>")
		},
		"206 without Content-Range": func(w http.ResponseWriter, r *http.Request) { part(w, r, "", 100) },
		"206 of other bytes": func(w http.ResponseWriter, r *http.Request) {
			part(w, r, "bytes 0-9/1000", 10)
		},
	}
	for _, code := range []int{400, 401, 403, 405, 416, 501} {
		answers[strconv.Itoa(code)] = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", code) }
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			b, f := sample(t)
			server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
			c := newClient(t, server, cas.Options{Fetch: quick})
			read := func() {
				for range 20 {
					if err := readFile(t.Context(), c, f, rand.Int64N(199_000), 10); err != nil {
						t.Error(err)
					}
				}
			}
			read()
			server.intercept(answerParts(answer))
			for _, term := range f.Info.Terms {
				c.Reject(term.Xorb) // so that its bytes are requested again
			}
			read()
		})
	}
}

// A server may answer a part with status 200 and the whole signed range.
func TestWholeRangesInsteadOfParts(t *testing.T) {
	const size = 5 << 20
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 100})
	f := b.Add(origintest.Random(1, size), 60_000, 50_000)
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
	var parts atomic.Int64
	server.intercept(func(h http.Handler) http.Handler {
		return answerParts(func(w http.ResponseWriter, r *http.Request) {
			parts.Add(1)
			r.Header.Set("Range", r.URL.Query().Get("X-Xet-Signed-Range"))
			whole := httptest.NewRecorder()
			h.ServeHTTP(whole, r)
			w.Write(whole.Body.Bytes())
		})(h)
	})
	c := newClient(t, server, cas.Options{Fetch: quick})
	for range 30 {
		if err := readFile(t.Context(), c, f, rand.Int64N(size-10), 10); err != nil {
			t.Fatal(err)
		}
	}
	if n := parts.Load(); n > 4 {
		t.Errorf("%d requests for parts", n)
	}
}

// refuseParts refuses parts of signed ranges with a status.
func refuseParts(code int) func(http.Handler) http.Handler {
	return answerParts(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", code) })
}

// answerParts answers requests for parts of signed ranges.
func answerParts(answer http.HandlerFunc) func(http.Handler) http.Handler {
	return func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			signed := r.URL.Query().Get("X-Xet-Signed-Range")
			if isTransfer(r) && r.Header.Get("Range") != signed && !strings.Contains(signed, ",") {
				answer(w, r)
				return
			}
			h.ServeHTTP(w, r)
		})
	}
}

// Random and sequential readers of one client read right bytes, whatever the server supports.
func TestManyReaders(t *testing.T) {
	for name, o := range map[string]casserve.HandlerOptions{"parts": {}, "no parts": {ExactRanges: true}} {
		t.Run(name, func(t *testing.T) {
			b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 200})
			f := b.Add(bytes.Join([][]byte{origintest.Text(1, 600_000), origintest.Random(2, 600_000), origintest.Floats(3, 600_000)}, nil), 9000, 14_000, 8192)
			small := b.Add(origintest.Random(3, 20_000), 10_000)
			x := b.Xorbs[0] // its terms share one signed range
			parts := b.File(x.Term(60, 100), x.Term(0, 60), x.Term(100, 180), x.Term(30, 90))
			server := serveCAS(t, b.Store(), o)
			c := newClient(t, server, cas.Options{Bytes: 1 << 20})
			var readers sync.WaitGroup
			for i := range 20 {
				readers.Go(func() {
					size := f.Info.Size()
					for j := range int64(30) {
						off, n := rand.Int64N(size-4096), int64(4096)
						if i%2 == 0 {
							off, n = j*size/30, size/30
						}
						if err := readFile(t.Context(), c, f, off, n); err != nil {
							t.Error(err)
						}
						if err := readFile(t.Context(), c, parts, rand.Int64N(parts.Info.Size()-4096), 4096); err != nil {
							t.Error(err)
						}
					}
					if err := readFile(t.Context(), c, small, 0, 20_000); err != nil {
						t.Error(err)
					}
				})
			}
			readers.Wait()
		})
	}
}

// A xorb that is in no plan any more does not exist. The next plans of its files are right.
func TestXorbOfFormerPlanIsNotFound(t *testing.T) {
	former, f := sample(t)
	now := origintest.NewBuilder(t, origintest.Form{XorbChunks: 30})
	now.Add(f.Bytes(), 1000, 700, 1300, 900)
	server := serveCAS(t, former.Store(), casserve.HandlerOptions{})
	c := newClient(t, server, cas.Options{Fetch: quick})
	if _, err := c.FileInfo(t.Context(), f.ID()); err != nil {
		t.Fatal(err)
	}
	next := newHandler(now.Store(), casserve.HandlerOptions{})
	server.intercept(func(http.Handler) http.Handler { return next })
	_, err := c.Chunks(t.Context(), former.Xorbs[0].Hash(), codec.ChunkRange{Start: 3, End: 9}, origin.ReadOptions{})
	if wantError(t, err, origin.ErrNotFound, "the new plan of file"); errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("%v is an ErrCorrupt", err)
	}
}

package cas_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/cas"
	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
)

// Pieces of a window that was requested need no plan of their own, and no byte comes twice.
func TestPiecesOfWindow(t *testing.T) {
	const size, window, piece = 16 << 20, 4 << 20, 1 << 20
	for name, o := range map[string]casserve.HandlerOptions{"parts": {}, "whole ranges": {ExactRanges: true}} {
		t.Run(name, func(t *testing.T) {
			b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 1000})
			f := b.Add(origintest.Random(1, size), 64<<10)
			server := serveCAS(t, b.Store(), o)
			c := newClient(t, server, cas.Options{})
			if _, err := c.FileInfo(t.Context(), f.ID()); err != nil {
				t.Fatal(err)
			}
			term := f.Info.Terms[0]
			if _, _, err := c.Narrow(t.Context(), f.ID(), term, codec.Piece{Size: window}); err != nil {
				t.Fatal(err)
			}
			for off := int64(0); off < size; off += piece {
				p := codec.Piece{Skip: off, Off: off, Size: piece}
				if err := readPiece(t.Context(), c, f, term, p, f.Bytes()[off:off+piece]); err != nil {
					t.Fatal(err)
				}
			}
			plans, _, transfers := server.reset()
			if plans > 1+size/window || transfers > size/window+1 {
				t.Errorf("%d plans and %d transfers of %d windows", plans, transfers, size/window)
			}
		})
	}
}

// The first read of a large file needs one transfer, also if its first chunk has the longest packed
// form. The next reads in a row need no plans of their own.
func TestStartOfFile(t *testing.T) {
	const size = 16 << 20
	const windows = size / origin.ReadaheadStep
	for _, tt := range []struct {
		name                       string
		o                          casserve.HandlerOptions
		startPlans, startTransfers int64 // at most, of the first read
		plans, transfers           int64 // at most; plans of all reads, transfers of all but the first
	}{
		{"parts", casserve.HandlerOptions{}, 1, 1, windows, windows + 3},
		{"whole ranges", casserve.HandlerOptions{ExactRanges: true}, 2, 2, windows + 3, windows + 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 1000})
			f := b.Add(origintest.Random(1, size), codec.MaxChunkSize)
			server := serveCAS(t, b.Store(), tt.o)
			c := newClient(t, server, cas.Options{})
			if _, err := c.FileInfo(t.Context(), f.ID()); err != nil {
				t.Fatal(err)
			}
			server.reset()
			read := func(off, n int64) {
				t.Helper()
				p := codec.Piece{Skip: off, Off: off, Size: n}
				if err := readPiece(t.Context(), c, f, f.Info.Terms[0], p, f.Bytes()[off:off+n]); err != nil {
					t.Fatal(err)
				}
			}
			read(0, 16<<10)
			plans, _, transfers := server.reset()
			if plans > tt.startPlans || transfers > tt.startTransfers {
				t.Errorf("%d plans and %d transfers for the start of the file", plans, transfers)
			}
			read(16<<10, 112<<10)
			for off := int64(128 << 10); off < size; {
				n := min(384<<10, size-off)
				read(off, n)
				off += n
			}
			if more, _, transfers := server.reset(); plans+more > tt.plans || transfers > tt.transfers {
				t.Errorf("%d plans and %d transfers of %d windows", plans+more, transfers, windows)
			}
		})
	}
}

// A transfer that fails is tried again by Chunks alone, also if the lengths of chunks are not known.
func TestTransfersOfWindowFail(t *testing.T) {
	for _, code := range []int{http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusRequestedRangeNotSatisfiable} {
		for _, size := range []int64{16 << 10, 384 << 10} {
			b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 1000})
			f := b.Add(origintest.Random(1, 16<<20), codec.MaxChunkSize)
			server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
			server.intercept(status(code, isTransfer))
			c := newClient(t, server, cas.Options{Fetch: quick})
			if _, err := c.FileInfo(t.Context(), f.ID()); err != nil {
				t.Fatal(err)
			}
			for _, off := range []int64{0, 1 << 20} {
				server.reset()
				p := codec.Piece{Skip: off, Off: off, Size: size}
				if err := readPiece(t.Context(), c, f, f.Info.Terms[0], p, f.Bytes()[off:off+size]); err == nil {
					t.Errorf("%d: no error", code)
				}
				if plans, _, transfers := server.reset(); plans > 8 || transfers > 6 {
					t.Errorf("%d: %d plans and %d transfers for %d bytes at %d", code, plans, transfers, size, off)
				}
			}
		}
	}
}

// Windows end with the plan of their file: the terms of the next plan may begin inside of them.
func TestWindowsOfOtherTerms(t *testing.T) {
	content := origintest.Random(1, 8<<20)
	one, two := origintest.NewBuilder(t, origintest.Form{XorbChunks: 1000}), origintest.NewBuilder(t, origintest.Form{XorbChunks: 25})
	f, g := one.Add(content, 64<<10), two.Add(content, 64<<10)
	server := serveCAS(t, one.Store(), casserve.HandlerOptions{})
	c := newClient(t, server, cas.Options{Fetch: quick})
	if err := readFile(t.Context(), c, f, 0, 16<<10); err != nil {
		t.Fatal(err)
	}
	repacked := newHandler(two.Store(), casserve.HandlerOptions{})
	server.intercept(func(http.Handler) http.Handler { return repacked })
	c.Forget(f.ID())
	for _, off := range []int64{400 << 10, 1700 << 10, 3 << 20} {
		if err := readFile(t.Context(), c, g, off, 700<<10); err != nil {
			t.Error(err)
		}
	}
}

// A read succeeds without the plan of its window: the whole term is read.
func TestNoPlanOfWindow(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 1000})
	f := b.Add(origintest.Random(1, 16<<20), codec.MaxChunkSize)
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
	c := newClient(t, server, cas.Options{Fetch: quick})
	if _, err := c.FileInfo(t.Context(), f.ID()); err != nil {
		t.Fatal(err)
	}
	server.intercept(status(http.StatusServiceUnavailable, isPlan))
	for _, p := range []codec.Piece{{Size: 16 << 10}, {Skip: 400 << 10, Off: 400 << 10, Size: 384 << 10}} {
		if err := readPiece(t.Context(), c, f, f.Info.Terms[0], p, f.Bytes()[p.Off:p.Off+p.Size]); err != nil {
			t.Error(err)
		}
	}
}

// Narrow returns chunks, also if the plans of two windows contradict each other.
func TestWindowsContradict(t *testing.T) {
	const half = 300 << 10
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 1000})
	f := b.Add(origintest.Random(1, 16<<20), 64<<10)
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
	isSecond := func(r *http.Request) bool { return r.Header.Get("Range") == "bytes=4194304-8388607" }
	server.intercept(edit(isSecond, strings.NewReplacer(`"start":64`, `"start":1`, `"end":128`, `"end":65`).Replace))
	c := newClient(t, server, cas.Options{Fetch: quick})
	if _, err := c.FileInfo(t.Context(), f.ID()); err != nil {
		t.Fatal(err)
	}
	for _, p := range []codec.Piece{{Size: 4 << 20}, {Skip: 4<<20 - half, Off: 4<<20 - half, Size: 2 * half}} {
		if r, _, err := c.Narrow(t.Context(), f.ID(), f.Info.Terms[0], p); err == nil && r.Len() < 1 {
			t.Errorf("chunks %v", r)
		}
	}
}

// Transfers of windows wait for their part of the memory.
func TestSegmentBytes(t *testing.T) {
	const files, size = 6, origin.ReadaheadStep
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: size >> 16})
	var all []*origintest.File
	for i := range files {
		all = append(all, b.Add(origintest.Random(uint64(i), size), 64<<10))
	}
	server := serveCAS(t, b.Store(), casserve.HandlerOptions{})
	c := newClient(t, server, cas.Options{SegmentBytes: size * 5 / 2})
	for _, f := range all {
		if err := readFile(t.Context(), c, f, 0, 4096); err != nil { // requests the plan of the window
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	held, most := 0, 0
	hold := func(by int) {
		mu.Lock()
		defer mu.Unlock()
		held += by
		most = max(most, held)
	}
	answer, done := make(chan struct{}), make(chan struct{})
	server.intercept(func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var start, end int64
			if _, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &start, &end); isTransfer(r) && end-start > size/2 {
				hold(1)
				<-answer
				hold(-1)
			}
			h.ServeHTTP(w, r)
		})
	})
	var readers sync.WaitGroup
	for _, f := range all {
		readers.Go(func() {
			if err := readFile(t.Context(), c, f, size/2, 384<<10); err != nil {
				t.Error(err)
			}
		})
	}
	go func() {
		for {
			select {
			case answer <- struct{}{}:
			case <-done:
				return
			}
		}
	}()
	readers.Wait()
	close(done)
	if most == 0 || most > 2 {
		t.Errorf("%d transfers of 4 MiB at once, want at most two", most)
	}
}

// A whole file is read in parts no larger than the memory for segments, also if the server serves no
// parts of signed ranges. Its random reads of known lengths transfer only their chunks then.
func TestSegmentsOfLargeRange(t *testing.T) {
	const chunks, batch, most = 800, 32, 2 << 20
	for name, o := range map[string]casserve.HandlerOptions{"parts": {}, "whole ranges": {ExactRanges: true}} {
		t.Run(name, func(t *testing.T) {
			b := origintest.NewBuilder(t, origintest.Form{XorbChunks: chunks})
			f := b.Add(origintest.Random(1, chunks<<14), 16<<10, 8<<10, 24<<10)
			server := serveCAS(t, b.Store(), o)
			c := newClient(t, server, cas.Options{SegmentBytes: 1})
			fi, err := c.FileInfo(t.Context(), f.ID())
			if err != nil {
				t.Fatal(err)
			}
			var bytes atomic.Int64
			server.observe(func(r *http.Request, code int) {
				var start, end int64
				if _, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &start, &end); !isTransfer(r) || code >= 400 {
					return
				}
				if bytes.Add(end - start + 1); end-start >= most {
					t.Errorf("a transfer of %d bytes", end-start+1)
				}
			})
			term := fi.Terms[0]
			read := func(start, n uint32) {
				r := codec.ChunkRange{Start: start, End: min(term.Chunks.End, start+n)}
				run, err := c.Chunks(t.Context(), term.Xorb, r, origin.ReadOptions{})
				if err != nil || run.Chunks != r {
					t.Errorf("chunks %v: %v", r, err)
				}
			}
			var all sync.WaitGroup
			for start := uint32(0); start < term.Chunks.End; start += batch {
				all.Go(func() { read(start, batch) })
			}
			all.Wait()
			size := int64(term.Size)
			if n := bytes.Swap(0); n > 3*size {
				t.Errorf("%d bytes were transferred for a file of %d", n, size)
			}
			for i := range uint32(50) {
				read(i*7, 2)
			}
			if n := bytes.Load(); n > size/2 { // some of them are from transfers that no call awaits any more
				t.Errorf("%d bytes were transferred for 50 reads", n)
			}
		})
	}
}

package reconstruct

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin/faulty"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/web"
	"github.com/xetfs/xetfs/cache/origin/wrap"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// remoteFiles are files on a remote web server, in a bubble.
type remoteFiles struct {
	*testing.T
	web   *origintest.Web
	cache *cache.Cache
	r     *Reader
	files []remoteFile
}

type remoteFile struct {
	id   codec.FileID
	want []byte
}

// delay is one round trip to the server.
const delay = 25 * time.Millisecond

// withRemoteFiles makes files of incompressible 64 KiB chunks in xorbs of 256, puts them on a web
// server, and calls do.
func withRemoteFiles(t *testing.T, o faulty.Options, co cache.Options, chunks []int, do func(t remoteFiles)) {
	t.Helper()
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 256, Schemes: []xorb.Scheme{xorb.None}})
	var files []remoteFile
	for i, n := range chunks {
		content := origintest.Random(uint64(i), n*64<<10)
		f := b.Add(content, 64<<10)
		files = append(files, remoteFile{f.ID(), content})
	}
	serveRemoteFiles(t, o, co, b, files, do)
}

// withSmallRemoteFiles is withRemoteFiles for n files of one chunk each in one xorb.
func withSmallRemoteFiles(t *testing.T, o faulty.Options, co cache.Options, n int, do func(t remoteFiles)) {
	t.Helper()
	b := origintest.NewBuilder(t, origintest.Form{Schemes: []xorb.Scheme{xorb.None}})
	var contents [][]byte
	for i := range n {
		contents = append(contents, origintest.Random(uint64(i), 64<<10))
	}
	x := b.Xorb(contents...)
	var files []remoteFile
	for i, content := range contents {
		files = append(files, remoteFile{b.File(x.Term(i, i+1)).ID(), content})
	}
	serveRemoteFiles(t, o, co, b, files, do)
}

// serveRemoteFiles calls do with the files of a Builder on a web server.
func serveRemoteFiles(t *testing.T, o faulty.Options, co cache.Options, b *origintest.Builder, files []remoteFile, do func(t remoteFiles)) {
	t.Helper()
	store := origintest.Memory()
	s := b.Put(store)
	block := int64(48) // of the first file; a block is a header, terms, their hashes and the SHA-256
	for i, f := range b.Files {
		files[i].id.Shard, files[i].id.Block = s, block
		block += 48 * int64(2+2*len(f.Info.Terms))
	}
	synctest.Test(t, func(t *testing.T) {
		w := origintest.NewWeb(store)
		ws, err := web.Open("http://remote.example", web.Options{Options: fetch.Options{Transport: origintest.Transport(faulty.Handler(w, o))}})
		if err != nil {
			t.Fatal(err)
		}
		src := wrap.Limit(objects.New(ws, objects.Options{}), 48)
		c, err := cache.New(src, co)
		if err != nil {
			t.Fatal(err)
		}
		do(remoteFiles{t, w, c, New(c, Options{}), files})
		if err := errors.Join(c.Close(), ws.Close()); err != nil {
			t.Error(err)
		}
	})
}

// open opens a file for one reader.
func (t remoteFiles) open(i int) *Handle {
	t.Helper()
	f, err := t.r.Open(t.Context(), t.files[i].id)
	if err != nil {
		t.Fatal(err)
	}
	return f.Handle()
}

// read reads and compares, and returns how long it took.
func (t remoteFiles) read(h *Handle, i int, off int64, n int) time.Duration {
	t.Helper()
	start := time.Now()
	if err := tryRead(t.Context(), h, t.files[i].want, off, n); err != nil {
		t.Errorf("%d bytes at %d: %v", n, off, err)
	}
	return time.Since(start)
}

// xorbBytes returns how many bytes of xorbs a server has sent, of chunks and of footers.
func xorbBytes(requests []origintest.Request) (chunks, footers int64) {
	for _, r := range requests {
		switch {
		case !strings.HasSuffix(r.Path, ".xorb"):
		case strings.HasPrefix(r.Range, "bytes=-"):
			footers += r.Bytes
		default:
			chunks += r.Bytes
		}
	}
	return chunks, footers
}

// The first byte is three round trips away: where the file is described, where its chunks
// lie, the chunks. From then on a read anywhere in that xorb is one.
func TestFarRoundTrips(t *testing.T) {
	withRemoteFiles(t, faulty.Options{Delay: delay}, cache.Options{}, []int{256, 4}, func(t remoteFiles) {
		start := time.Now()
		h := t.open(0)
		if took := time.Since(start); took != delay {
			t.Errorf("opening took %v, want %v", took, delay)
		}
		t.read(h, 0, 0, 4096)
		if took := time.Since(start); took != 3*delay {
			t.Errorf("the first byte took %v, want %v", took, 3*delay)
		}
		t.web.Requests()
		dice := rand.New(rand.NewPCG(1, 1))
		const reads = 50
		for range reads {
			off := dice.Int64N(256<<16 - 4096)
			if took := t.read(h, 0, off, 4096); took > delay {
				t.Errorf("a random read took %v, want %v", took, delay)
			}
		}
		if chunks, _ := xorbBytes(t.web.Requests()); chunks > 2*reads*(64<<10+8) {
			t.Errorf("%d random reads of 4 KiB fetched %d bytes", reads, chunks)
		}
		h.Close()
		start = time.Now()
		h = t.open(1) // of the same shard
		defer h.Close()
		if took := time.Since(start); took != 0 {
			t.Errorf("opening another file took %v", took)
		}
	})
}

// A scan is as quick as the link, and fetches every byte once.
func TestFarScan(t *testing.T) {
	const rate = 100_000_000
	withRemoteFiles(t, faulty.Options{Delay: delay, Bandwidth: rate}, cache.Options{}, []int{640}, func(t remoteFiles) {
		h := t.open(0)
		defer h.Close()
		size := int64(len(t.files[0].want))
		start := time.Now()
		var started time.Time
		var worst time.Duration
		const ramp = 4 << 20
		for off := int64(0); off < size; off += 128 << 10 {
			if off == ramp {
				started = time.Now()
			}
			if took := t.read(h, 0, off, 128<<10); off >= ramp {
				worst = max(worst, took)
			}
		}
		took := time.Since(started)
		got := float64(size-ramp) / took.Seconds()
		ramped := started.Sub(start)
		t.Logf("%.1f MB/s of %d, worst stall %v; the first 4 MiB took %v", got/1e6, rate/1_000_000, worst, ramped)
		// Three round trips, the link's time, and what the window needs to open.
		if most := 14*delay + ramp*time.Second/rate; ramped > most {
			t.Errorf("the first 4 MiB took %v, want %v at most", ramped, most)
		}
		if got < 0.95*rate {
			t.Errorf("%.1f MB/s of a link of %d", got/1e6, rate/1_000_000)
		}
		if worst > 100*time.Millisecond {
			t.Errorf("a read waited %v", worst)
		}
		chunks, _ := xorbBytes(t.web.Requests())
		if want := size + 640*8; chunks != want { // with their headers
			t.Errorf("%d bytes of chunks were fetched, %d are stored", chunks, want)
		}
	})
}

// Concurrent requests compensate for slow responses.
func TestFarScanOfSlowConnections(t *testing.T) {
	const each = 12_000_000
	withRemoteFiles(t, faulty.Options{Delay: delay, Each: each}, cache.Options{}, []int{640}, func(t remoteFiles) {
		h := t.open(0)
		defer h.Close()
		start := time.Now()
		for off := int64(0); off < int64(len(t.files[0].want)); off += 128 << 10 {
			t.read(h, 0, off, 128<<10)
		}
		got := float64(len(t.files[0].want)) / time.Since(start).Seconds()
		t.Logf("%.1f MB/s, %.1f times one connection", got/1e6, got/each)
		if got < 3.5*each { // 4.1, in 1 of 150 runs 3.9
			t.Errorf("%.1f MB/s with connections of %d each", got/1e6, each/1_000_000)
		}
	})
}

// Handles that read a little and stay open hold nothing up.
func TestFarIdleHandles(t *testing.T) {
	scan := func(idle int) (took time.Duration) {
		co := cache.Options{AheadBytes: 32 << 20}
		withRemoteFiles(t, faulty.Options{Delay: delay, Bandwidth: 100_000_000}, co, []int{400, 400}, func(t remoteFiles) {
			for i := range idle {
				h := t.open(0)
				defer h.Close()
				for j := range int64(3) { // a stream has begun
					t.read(h, 0, int64(i)<<18+j*4096, 4096)
				}
			}
			time.Sleep(time.Second)
			h := t.open(1)
			defer h.Close()
			start := time.Now()
			for off := int64(0); off < 400<<16; off += 128 << 10 {
				t.read(h, 1, off, 128<<10)
			}
			took = time.Since(start)
		})
		return took
	}
	alone, beside := scan(0), scan(64)
	t.Logf("a scan alone takes %v, beside 64 idle handles %v", alone, beside)
	if beside > alone+alone/20 {
		t.Errorf("a scan alone takes %v, beside 64 idle handles %v", alone, beside)
	}
}

// Concurrent readers of the same bytes share one response.
func TestFarShared(t *testing.T) {
	withRemoteFiles(t, faulty.Options{Delay: delay}, cache.Options{}, []int{64}, func(t remoteFiles) {
		var readers sync.WaitGroup
		for range 100 {
			readers.Go(func() {
				h := t.open(0)
				defer h.Close()
				if took := t.read(h, 0, 5<<16, 64<<10); took > 2*delay {
					t.Errorf("a reader waited %v", took)
				}
			})
		}
		readers.Wait()
		if chunks, _ := xorbBytes(t.web.Requests()); chunks != 64<<10+8 {
			t.Errorf("%d bytes were fetched for one chunk", chunks)
		}
	})
}

// The first chunks of a long fetch are available to waiting readers at once.
func TestFarPieces(t *testing.T) {
	const rate = 1_000_000
	withRemoteFiles(t, faulty.Options{Delay: delay, Bandwidth: rate}, cache.Options{}, []int{64}, func(t remoteFiles) {
		f, err := t.r.Open(t.Context(), t.files[0].id)
		if err != nil {
			t.Fatal(err)
		}
		h := f.Handle()
		defer h.Close()
		t.read(h, 0, 0, 4096)
		a := t.cache.NewReadahead()
		defer a.Close()
		term := allTerms(t, f)[0]
		a.Prefetch(term.Xorb, codec.ChunkRange{Start: 10, End: 60}, 0) // 3.3 MB: 3.3 s
		if took := t.read(h, 0, 10<<16, 64<<10); took > time.Second {
			t.Errorf("the first chunk of a fetch of 50 took %v", took)
		}
	})
}

// Bits that flip on the way never reach a reader; nearly always the next try is right.
func TestFarFlips(t *testing.T) {
	withRemoteFiles(t, faulty.Options{Delay: time.Millisecond, Corrupt: 0.2, Seed: 3}, cache.Options{MemoryBytes: 1 << 20}, []int{64}, func(t remoteFiles) {
		dice := rand.New(rand.NewPCG(1, 1))
		failed, wrong := 0, 0
		var h *Handle
		for try := 0; h == nil && try < 10; try++ {
			if f, err := t.r.Open(t.Context(), t.files[0].id); err == nil {
				h = f.Handle()
			}
		}
		defer h.Close()
		for range 300 {
			err := tryRead(t.Context(), h, t.files[0].want, dice.Int64N(63<<16), 64<<10)
			switch {
			case errors.Is(err, errOtherBytes), errors.Is(err, errCount):
				wrong++
			case err != nil:
				failed++
				if !errors.Is(err, codec.ErrCorrupt) {
					t.Errorf("ReadAt = %v", err)
				}
			}
		}
		t.Logf("%d of 300 reads failed", failed)
		if wrong > 0 || failed > 30 { // 0.2² of them, and a few more
			t.Errorf("%d reads gave wrong bytes, %d failed", wrong, failed)
		}
	})
}

// All faults at once, but for bits: every byte is right, and no read fails.
func TestFarFaults(t *testing.T) {
	withRemoteFiles(t, faulty.Options{Delay: delay, Fail: 0.05, Truncate: 0.05, Seed: 5}, cache.Options{}, []int{600}, func(t remoteFiles) {
		h := t.open(0)
		defer h.Close()
		for off := int64(0); off < int64(len(t.files[0].want)); off += 256 << 10 {
			t.read(h, 0, off, 256<<10)
		}
		chunks, _ := xorbBytes(t.web.Requests())
		if most := int64(len(t.files[0].want)) * 6 / 5; chunks > most {
			t.Errorf("%d bytes were fetched, %d at most", chunks, most)
		}
	})
}

// A hanging store is an error within the deadline. Later readers are served when it has
// recovered.
func TestFarHangs(t *testing.T) {
	var hanging atomic.Bool
	withRemoteFiles(t, faulty.Options{}, cache.Options{}, []int{64}, func(t remoteFiles) {
		t.web.Wrap = func(h http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if hanging.Load() {
					<-r.Context().Done()
					return
				}
				h.ServeHTTP(w, r)
			})
		}
		h := t.open(0)
		defer h.Close()
		t.read(h, 0, 0, 4096)
		hanging.Store(true)
		var readers sync.WaitGroup
		for i := range 1000 {
			readers.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				start := time.Now()
				_, err := h.ReadAt(ctx, make([]byte, 4096), int64(1+i%63)<<16)
				if took := time.Since(start); err == nil || took > time.Minute {
					t.Errorf("ReadAt = %v after %v", err, took)
				}
			})
		}
		readers.Go(func() { // a reader that leaves returns at once
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			start := time.Now()
			if _, err := h.ReadAt(ctx, make([]byte, 4096), 9<<16); !errors.Is(err, context.Canceled) || time.Since(start) != time.Second {
				t.Errorf("ReadAt = %v after %v", err, time.Since(start))
			}
		})
		readers.Wait()
		hanging.Store(false)
		if took := t.read(h, 0, 20<<16, 4096); took > time.Second {
			t.Errorf("after it has healed a read took %v", took)
		}
	})
}

// Whole reads ahead too, and each byte once.
func TestFarWhole(t *testing.T) {
	withRemoteFiles(t, faulty.Options{Delay: delay, Bandwidth: 100_000_000}, cache.Options{}, []int{600}, func(t remoteFiles) {
		f, err := t.r.Open(t.Context(), t.files[0].id)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		n, err := copyAll(f.VerifyReader(t.Context(), nil), t.files[0].want)
		if err != nil || n != len(t.files[0].want) {
			t.Errorf("%d bytes, %v", n, err)
		}
		took := time.Since(start)
		if got := float64(n) / took.Seconds(); got < 75e6 {
			t.Errorf("%.1f MB/s", got/1e6)
		}
		if chunks, _ := xorbBytes(t.web.Requests()); chunks != int64(n)+600*8 {
			t.Errorf("%d bytes were fetched for %d", chunks, n)
		}
	})
}

// Readers return the bytes ahead that they share at their end, also after an error of a writer.
func TestFarWholeShares(t *testing.T) {
	withRemoteFiles(t, faulty.Options{Delay: delay}, cache.Options{}, []int{640, 640}, func(t remoteFiles) {
		var readers sync.WaitGroup
		for i, file := range t.files {
			readers.Go(func() {
				f, err := t.r.Open(t.Context(), file.id)
				if err != nil {
					t.Error(err)
					return
				}
				var got bytes.Buffer
				w := &failingWriter{w: &got, failsAfter: []int64{math.MaxInt64, 10 << 20}[i]}
				n, err := io.Copy(w, f.VerifyReader(t.Context(), nil))
				if n != int64(got.Len()) || !bytes.HasPrefix(file.want, got.Bytes()) || (err == nil) != (got.Len() == len(file.want)) || (i == 0) != (err == nil) {
					t.Errorf("file %d: %d bytes, %d arrived, %v", i, n, got.Len(), err)
				}
			})
		}
		readers.Wait()
		if !t.r.ahead.TryAcquire(32 << 20) {
			t.Error("some bytes were not returned")
		}
	})
}

// A failingWriter fails once it has passed on a number of bytes.
type failingWriter struct {
	w          io.Writer
	failsAfter int64
}

func (f *failingWriter) Write(p []byte) (int, error) {
	if f.failsAfter -= int64(len(p)); f.failsAfter < 0 {
		return 0, io.ErrClosedPipe
	}
	return f.w.Write(p)
}

func copyAll(r io.Reader, want []byte) (n int, err error) {
	buf := make([]byte, 100_000)
	for {
		m, err := r.Read(buf)
		if string(buf[:m]) != string(want[n:n+m]) {
			return n, errOtherBytes
		}
		n += m
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return n, err
		}
	}
}

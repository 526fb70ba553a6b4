package integration

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/faulty"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/s3"
	"github.com/xetfs/xetfs/cache/origin/web"
	"github.com/xetfs/xetfs/cache/origin/wrap"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/integration/internal/harness"
	"github.com/xetfs/xetfs/reconstruct"
)

// A virtual is files on a web server or in a bucket, in a bubble of testing/synctest. It has all
// layers below the file system, and its time does not depend on the machine.
type virtual struct {
	t     *testing.T
	web   *origintest.Web // the server of both kinds
	store origin.Store
	r     *reconstruct.Reader
	files []virtualFile
	shard int64        // bytes
	bytes atomic.Int64 // of all answers

	plans, transfers atomic.Int64 // requests of a virtual Hub
	stored           int64        // bytes of its xorbs
}

type virtualFile struct {
	id   codec.FileID
	want []byte
}

// virtualStores are the kinds of stores over HTTP.
var virtualStores = []string{"web", "S3"}

// newVirtual returns files of incompressible chunks of 64 KiB, and their server.
func newVirtual(t *testing.T, chunks []int) *virtual {
	t.Helper()
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 256, Schemes: []xorb.Scheme{xorb.None}})
	v := &virtual{t: t}
	for i, n := range chunks {
		content := origintest.Random(uint64(i), n*64<<10)
		v.files = append(v.files, virtualFile{b.Add(content, 64<<10).ID(), content})
	}
	memory := origintest.Memory()
	hash, block := b.Put(memory), int64(48)
	for i, f := range b.Files {
		v.files[i].id.Shard, v.files[i].id.Block = hash, block
		block += 48 * int64(2+2*len(f.Info.Terms)) // a header, terms, their hashes and the SHA-256
	}
	v.shard = int64(len(b.Shard()))
	v.web = origintest.NewWeb(memory)
	return v
}

// inVirtual calls do with the files of newVirtual. through changes the answers.
func inVirtual(t *testing.T, kind string, chunks []int, through func(http.Handler) http.Handler, do func(v *virtual)) {
	t.Helper()
	v := newVirtual(t, chunks)
	synctest.Test(t, func(t *testing.T) {
		v.t = t
		handler := v.handler(kind, v.count(through(v.web)))
		v.with(kind, "http://remote.example", fetch.Options{
			Transport: origintest.Transport(handler), Limits: fetch.Limits{First: 30 * time.Second, Read: time.Minute},
		}, do)
	})
}

// handler returns the server of a kind of store over that of the objects.
func (v *virtual) handler(kind string, objects http.Handler) http.Handler {
	if kind == "S3" {
		return http.StripPrefix("/bucket/store", objects)
	}
	return objects
}

// with calls do with all layers over the store at an address.
func (v *virtual) with(kind, address string, o fetch.Options, do func(v *virtual)) {
	closeStore := v.open(kind, address, o)
	c, err := cache.New(wrap.Limit(objects.New(v.store, objects.Options{}), 48), cache.Options{})
	if err != nil {
		v.t.Fatal(err)
	}
	v.r = reconstruct.New(c, reconstruct.Options{})
	do(v)
	if err := errors.Join(c.Close(), closeStore()); err != nil {
		v.t.Error(err)
	}
}

// count counts the bytes of all answers.
func (v *virtual) count(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(byteCounter{w, &v.bytes}, r) })
}

// A byteCounter counts the bytes of an answer.
type byteCounter struct {
	http.ResponseWriter
	bytes *atomic.Int64
}

// Write implements io.Writer.
func (c byteCounter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}

// Unwrap is for http.ResponseController.
func (c byteCounter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// open opens the store at an address.
func (v *virtual) open(kind, address string, o fetch.Options) (closeStore func() error) {
	if kind == "web" {
		s, err := web.Open(address, web.Options{Options: o})
		if err != nil {
			v.t.Fatal(err)
		}
		v.store = s
		return s.Close
	}
	env := map[string]string{"AWS_ACCESS_KEY_ID": "KEY", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_ENDPOINT_URL_S3": address}
	s, err := s3.Open("s3://bucket/store", s3.Options{Getenv: func(name string) string { return env[name] }, Transport: o.Transport, Limits: o.Limits})
	if err != nil {
		v.t.Fatal(err)
	}
	v.store = s
	return s.Close
}

// handle opens a file for one reader.
func (v *virtual) handle(i int) (*reconstruct.Handle, error) {
	f, err := v.r.Open(v.t.Context(), v.files[i].id)
	if err != nil {
		return nil, err
	}
	return f.Handle(), nil
}

// read reads and compares n bytes of file i, and returns the duration.
func (v *virtual) read(h *reconstruct.Handle, i int, off int64, n int) (time.Duration, error) {
	start, p := time.Now(), make([]byte, n)
	got, err := h.ReadAt(v.t.Context(), p, off)
	if err == nil || errors.Is(err, io.EOF) {
		err = nil
		if want := v.files[i].want[off:min(off+int64(n), int64(len(v.files[i].want)))]; !bytes.Equal(p[:got], want) {
			v.t.Errorf("%d wrong bytes at %d (I1)", n, off)
		}
	}
	return time.Since(start), err
}

// mustRead is read of bytes without a fault.
func (v *virtual) mustRead(h *reconstruct.Handle, i int, off int64, n int) time.Duration {
	took, err := v.read(h, i, off, n)
	if err != nil {
		v.t.Errorf("%d bytes at %d: %v", n, off, err)
	}
	return took
}

// A virtualLink is a link of P9.
type virtualLink struct {
	name   string
	o      faulty.Options
	chunks int // of the file
}

var virtualLinks = []virtualLink{
	{"1 Gbit/s", faulty.Options{Bandwidth: 125_000_000}, 640},
	{"100 MB/s", faulty.Options{Bandwidth: 100_000_000}, 640},
	{"50 Mbit/s", faulty.Options{Bandwidth: 6_250_000}, 160},
	{"50 MB/s per connection", faulty.Options{Each: 50_000_000}, 1600},
}

// P9 without the time of the machine. It measures the first byte, the share of each link, the
// longest read, the fetched bytes, random reads and eight readers at once.
func TestP9_Links(t *testing.T) {
	t.Parallel() // it uses one core
	for _, l := range virtualLinks {
		for _, kind := range virtualStores {
			t.Run(l.name+", "+kind, func(t *testing.T) {
				l := l
				l.o.Delay = harness.RemoteDelay
				if *fullSize {
					l.chunks *= 4
				}
				through := func(h http.Handler) http.Handler { return faulty.Handler(h, l.o) }
				inVirtual(t, kind, []int{l.chunks}, through, func(v *virtual) { v.scan(l) })
				if *fullSize || l.name == "100 MB/s" {
					inVirtual(t, kind, []int{l.chunks}, through, func(v *virtual) { v.scattered() })
					inVirtual(t, kind, slices.Repeat([]int{l.chunks}, 8), through, func(v *virtual) { v.readers() })
				}
			})
		}
	}
}

// scan reads a file in a row, 1 MiB at a time, the first 4 KiB apart. It compares the figures with
// the targets of a link.
func (v *virtual) scan(l virtualLink) {
	const ramp, step = 4 << 20, 1 << 20
	start := time.Now()
	h, err := v.handle(0)
	if err != nil {
		v.t.Fatal(err)
	}
	defer h.Close()
	v.mustRead(h, 0, 0, 4096)
	first := time.Since(start)
	size := int64(len(v.files[0].want))
	ramped, before, longest := start, int64(0), time.Duration(0)
	for off := int64(4096); off < size; {
		if off == ramp {
			ramped, before = time.Now(), v.bytes.Load()
		}
		n := step - int(off%step)
		if took := v.mustRead(h, 0, off, n); off >= ramp {
			longest = max(longest, took)
		}
		off += int64(n)
	}
	rate := float64(v.bytes.Load()-before) / time.Since(ramped).Seconds()
	sent, requests := v.sent()
	shard := time.Duration(0)
	if l.o.Bandwidth > 0 {
		shard = stepTime(l, int(v.shard))
	}
	v.t.Logf("first byte %s; %.1f MB/s; longest read %v; %d bytes in %d requests for %d",
		harness.Rounds(first-shard, harness.RemoteDelay), rate/1e6, longest, sent, requests, size)
	if most := 3*harness.RemoteDelay + shard + chunkTime(l); first > most {
		v.t.Errorf("the first byte took %v, want %v", first, most)
	}
	if float64(sent) > 1.1*float64(size) {
		v.t.Errorf("%d bytes were fetched for %d", sent, size)
	}
	if rate < 0.95*float64(l.o.Bandwidth) {
		v.t.Errorf("%.1f MB/s of a link of %.1f", rate/1e6, float64(l.o.Bandwidth)/1e6)
	}
	if rate < leastShares()*float64(l.o.Each) {
		v.t.Errorf("%.1f times the rate of one connection", rate/float64(l.o.Each))
	}
	if l.o.Bandwidth == 100_000_000 && longest > 150*time.Millisecond {
		v.t.Errorf("the longest read took %v", longest)
	}
}

// leastShares is the least rate of a scan, as a multiple of the rate of one connection. Fewer
// connections serve the end of a file.
func leastShares() float64 {
	if *fullSize {
		return 6
	}
	return 5
}

// chunkTime is the time of the first chunk on the link.
func chunkTime(l virtualLink) time.Duration { return stepTime(l, 128<<10) }

// stepTime is the time of n bytes on the link.
func stepTime(l virtualLink, n int) time.Duration {
	rate := max(l.o.Bandwidth, l.o.Each)
	return time.Duration(float64(n) / float64(rate) * float64(time.Second))
}

// sent returns the bytes of xorbs that the server has sent, and all requests.
func (v *virtual) sent() (n int64, requests int) {
	all := v.web.Requests()
	for _, r := range all {
		if strings.HasSuffix(r.Path, ".xorb") {
			n += r.Bytes
		}
	}
	return n, len(all)
}

// scattered reads 4 KiB at random places.
func (v *virtual) scattered() {
	h, err := v.handle(0)
	if err != nil {
		v.t.Fatal(err)
	}
	defer h.Close()
	size := int64(len(v.files[0].want))
	for off := int64(0); off < size; off += 256 << 16 {
		v.mustRead(h, 0, off, 4096) // so that the places of the chunks are known
	}
	dice := rand.New(rand.NewPCG(1, 1))
	took := make([]time.Duration, 60)
	for i := range took {
		took[i] = v.mustRead(h, 0, dice.Int64N(size-4096), 4096)
	}
	p50 := harness.Middle(took)
	v.t.Logf("4 KiB at random: p50 %s", harness.Rounds(p50, harness.RemoteDelay))
	if p50 > harness.RemoteDelay*13/10 {
		v.t.Errorf("4 KiB at random: p50 is %v", p50)
	}
}

// readers reads all files in a row at once.
func (v *virtual) readers() {
	took := make([]time.Duration, len(v.files))
	start := time.Now()
	var running sync.WaitGroup
	for i := range v.files {
		running.Go(func() {
			h, err := v.handle(i)
			if err != nil {
				v.t.Error(err)
				return
			}
			defer h.Close()
			for off := 0; off < len(v.files[i].want); off += 1 << 20 {
				v.mustRead(h, i, int64(off), 1<<20)
			}
			took[i] = time.Since(start)
		})
	}
	running.Wait()
	first, last := slices.Min(took), slices.Max(took)
	v.t.Logf("8 readers: the first ended after %v, the last after %v", first, last)
	if last > first*12/10 {
		v.t.Errorf("8 readers: the first ended after %v, the last after %v", first, last)
	}
}

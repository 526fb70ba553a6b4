package reconstruct

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/cas"
	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
	"github.com/xetfs/xetfs/cache/origin/faulty"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec/xorb"
)

// N07: over a very slow link reads are right and in time, and those beside a scan are not
// starved.
func TestN07_SlowLink(t *testing.T) {
	withRemoteFiles(t, faulty.Options{Delay: delay, Bandwidth: 125_000}, cache.Options{}, []int{200, 10}, func(t remoteFiles) {
		h := t.open(0)
		defer h.Close()
		other := t.open(1)
		defer other.Close()
		t.read(other, 1, 0, 4096)
		var worst, beside time.Duration
		start := time.Now()
		for i := range int64(60) {
			worst = max(worst, t.read(h, 0, i<<17, 128<<10))
			if i%10 == 9 {
				beside = max(beside, t.read(other, 1, i/10<<16+1<<16, 4096))
			}
		}
		rate := 60 * 128 << 10 / time.Since(start).Seconds()
		t.Logf("%.0f kB/s of 125, worst read %v, beside %v", rate/1000, worst, beside)
		if worst > 20*time.Second || beside > 20*time.Second {
			t.Errorf("a read took %v, one of another file %v", worst, beside)
		}
	})
}

// A slowLink passes the bytes of all answers in turns, at one rate.
type slowLink struct {
	turn chan struct{} // has the turn while it is free
	rate float64       // bytes per second
	size int           // bytes of a turn
}

func newSlowLink() *slowLink {
	l := &slowLink{turn: make(chan struct{}, 1), rate: 1e9, size: 1 << 20}
	l.turn <- struct{}{}
	return l
}

// handler returns h behind the link.
func (l *slowLink) handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(&slowWriter{w, r.Context(), l}, r)
	})
}

type slowWriter struct {
	http.ResponseWriter
	ctx context.Context
	l   *slowLink
}

func (w *slowWriter) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		select {
		case <-w.l.turn:
		case <-w.ctx.Done():
			return n, w.ctx.Err()
		}
		some := p[n:min(len(p), n+w.l.size)]
		time.Sleep(time.Duration(float64(len(some)) / w.l.rate * float64(time.Second)))
		w.l.turn <- struct{}{}
		var m int
		m, err = w.ResponseWriter.Write(some)
		n += m
	}
	return n, err
}

// mountSlowCAS opens a Reader over a CAS server behind a slow link. segments is cas.Options.SegmentBytes.
func mountSlowCAS(t *testing.T, s origin.Store, l *slowLink, segments int64, o Options) (r *Reader, done func()) {
	content := casserve.NewContent(s, objects.New(s, objects.Options{}).(casserve.InfoSource), casserve.StoreOptions{})
	src := cas.NewClient(cas.Options{
		Tokens: cas.StaticToken("http://cas.example", ""), SegmentBytes: segments,
		Fetch: fetch.Options{
			Transport: origintest.Transport(l.handler(casserve.NewHandler(content, casserve.HandlerOptions{}))),
			Limits:    fetch.Limits{First: 30 * time.Second, Read: time.Minute},
		},
	})
	c, err := cache.New(src, cache.Options{MemoryBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	r = New(c, o)
	return r, func() {
		r.Close()
		c.Close()
		src.Close()
		time.Sleep(2 * time.Minute) // of fake time, for the last turns of the handlers
	}
}

// N07: a proof over a very slow link lasts as long as bytes arrive, also those of other proofs.
func TestN07_SlowProofs(t *testing.T) {
	for _, tt := range []struct {
		name          string
		files, chunks int // of 64 KiB
		rate          float64
		size          int
		o             Options
		isShort       bool // the read fails soon
	}{
		{"8 small files, 2 Mbit/s", 8, 60, 250_000, 16 << 10, Options{}, false},
		{"a small file, 0.52 Mbit/s", 1, 64, 65_000, 16 << 10, Options{}, false},
		{"a strict file, 1 Mbit/s", 1, 640, 125_000, 16 << 10, Options{Strict: true}, false},
		{"a small file, a byte per minute", 1, 60, 1. / 60, 1, Options{}, true},
		{"a strict file, a byte per minute", 1, 640, 1. / 60, 1, Options{Strict: true}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := origintest.NewBuilder(t, origintest.Form{NoSHA256: true, Schemes: []xorb.Scheme{xorb.None}})
				p := pattern(tt.files*tt.chunks, 64<<10)
				var files []*origintest.File
				for i := range tt.files {
					files = append(files, b.File(b.Xorb(p[i*tt.chunks:][:tt.chunks]...).All()))
				}
				l := newSlowLink()
				r, done := mountSlowCAS(t, b.Store(), l, 16<<20, tt.o)
				defer done()
				var opened []*File
				for _, f := range files {
					file, err := r.Open(t.Context(), f.ID())
					if err != nil {
						t.Fatal(err)
					}
					opened = append(opened, file)
				}
				l.rate, l.size = tt.rate, tt.size
				var readers sync.WaitGroup
				for i, f := range files {
					readers.Go(func() {
						start := time.Now()
						err := tryRead(t.Context(), opened[i], f.Bytes(), 0, 4096)
						took := time.Since(start)
						switch {
						case tt.isShort && (!errors.Is(err, origin.ErrUnavailable) || took > 5*time.Minute):
							t.Errorf("the read ended after %v with %v", took, err)
						case !tt.isShort && err != nil:
							t.Errorf("file %d after %v: %v", i, took, err)
						}
					})
				}
				readers.Wait()
			})
		})
	}
}

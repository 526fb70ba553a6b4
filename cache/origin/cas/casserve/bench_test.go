package casserve_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/web"
	"github.com/xetfs/xetfs/codec/codectest"
	"golang.org/x/sys/unix"
)

// BenchmarkTransfer reads a xorb of 32 MiB with 64 clients: through a presigned URL, and as an
// object of a plain web server.
func BenchmarkTransfer(b *testing.B) {
	build := origintest.NewBuilder(b, origintest.Form{XorbChunks: 512})
	file := build.Add(codectest.Bytes(1, 32<<20), 64<<10)
	store, err := dir.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	origintest.Close(b, store)
	build.Put(store)
	x := build.Xorbs[0]
	for _, bb := range []struct {
		name string
		open func(s origin.Store) (http.Handler, string)
	}{
		{"presigned", func(s origin.Store) (http.Handler, string) {
			h := casserve.NewHandler(contentOf(s, casserve.StoreOptions{}), casserve.HandlerOptions{})
			p := site{b, h}.plan("/v2/reconstructions/" + file.Info.File.String())
			return h, p.Xorbs[x.Hash().String()][0].URL[len("http://example.com"):]
		}},
		{"plain", func(s origin.Store) (http.Handler, string) {
			return web.NewHandler(s, web.HandlerOptions{}), "/" + string(x.Key())
		}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			h, path := bb.open(store)
			server := httptest.NewServer(h)
			defer server.Close()
			n := int64(x.Info.PackedEnd[x.Info.Len()-1])
			b.SetBytes(n)
			b.ReportAllocs()
			b.SetParallelism(32)
			start := cpuTime(b)
			b.RunParallel(func(pb *testing.PB) {
				buf := make([]byte, 256<<10)
				for pb.Next() {
					if err := get(server.Client(), server.URL+path, n, buf); err != nil {
						b.Error(err)
					}
				}
			})
			b.ReportMetric(float64(cpuTime(b)-start)/float64(n*int64(b.N))*1e3, "cpu-ms/GB")
		})
	}
}

// cpuTime returns the CPU time of the process in nanoseconds.
func cpuTime(b *testing.B) int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// get reads the first n bytes of an object.
func get(c *http.Client, url string, n int64, buf []byte) error {
	r, err := http.NewRequest("GET", url, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Range", rangeText(0, n-1))
	answer, err := c.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	got, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, answer.Body, buf)
	if err == nil && got != n {
		err = fmt.Errorf("%d bytes, want %d", got, n)
	}
	return err
}

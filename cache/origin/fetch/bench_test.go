package fetch_test

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/origintest"
)

// BenchmarkReadAt is one read of 64 KiB, with the work of a server in the same process.
func BenchmarkReadAt(b *testing.B) {
	content := bytes.Repeat([]byte("x"), 1<<20)
	c := newClient(b, "http://far.example", fetch.Options{Transport: origintest.Transport(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
		}))})
	p := make([]byte, 64<<10)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		if err := c.ReadAt(b.Context(), fetch.Request{Key: "k", URL: "http://far.example/k"}, p, 1000, ignore); err != nil {
			b.Fatal(err)
		}
	}
}

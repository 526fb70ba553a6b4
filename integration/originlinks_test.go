package integration

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/cache/origin/linktest"
)

// linkFaults are lines of the reliability catalogue that a link makes, below HTTP. The same faults
// meet a web store and a bucket.
var linkFaults = []struct {
	line, name string
	faults     linktest.Faults
}{
	{"N04", "reset after 4 KiB", linktest.Faults{Reset: 4 << 10}},
	{"N04", "reset after 8 KiB", linktest.Faults{Reset: 8 << 10}},
	{"N04", "reset after 64 KiB", linktest.Faults{Reset: 64 << 10}},
	{"N05", "end after 4 KiB", linktest.Faults{Cut: 4 << 10}},
	{"N05", "end after 64 KiB", linktest.Faults{Cut: 64 << 10}},
}

// TestOriginLinks meets every fault with a web store and a bucket, from the first request on. Reads
// continue at the byte reached.
func TestOriginLinks(t *testing.T) {
	t.Parallel()
	const chunks = 12
	for _, tt := range linkFaults {
		for _, kind := range virtualStores {
			t.Run(tt.line+" "+tt.name+", "+kind, func(t *testing.T) {
				t.Parallel() // it mostly waits
				overLink(t, kind, []int{chunks}, linktest.Options{}, func(v *virtual, link *linktest.Link) {
					link.Faults.Store(&tt.faults)
					h, err := v.handle(0)
					if err != nil {
						t.Fatal(err)
					}
					defer h.Close()
					v.mustRead(h, 0, 0, chunks<<16)
					if n := link.Bytes(); n > 2*chunks<<16 {
						t.Errorf("%d bytes passed in %d requests, for %d", n, link.Requests(), chunks<<16)
					}
				})
			})
		}
	}
}

// overLink is inVirtual with a real link and real time.
func overLink(t *testing.T, kind string, chunks []int, o linktest.Options, do func(v *virtual, link *linktest.Link)) {
	t.Helper()
	v := newVirtual(t, chunks)
	server := httptest.NewServer(v.handler(kind, v.web))
	defer server.Close()
	link := linktest.New(t, server.URL, o)
	v.with(kind, link.URL, fetch.Options{Limits: fetch.Limits{First: 30 * time.Second, Read: time.Minute}}, func(v *virtual) { do(v, link) })
}

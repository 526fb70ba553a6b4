package s3_test

import (
	"bytes"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/s3"
)

// TestSink puts an object that exists. Size and checksum prove it, without a byte of it.
func TestSink(t *testing.T) {
	var gets, read atomic.Int64
	transport := roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err == nil && r.Method == http.MethodGet {
			gets.Add(1)
			read.Add(resp.ContentLength)
		}
		return resp, err
	})
	s := open(t, origintest.ServeS3(t), s3.Options{Transport: transport})
	b := origintest.NewBuilder(t, origintest.Form{})
	b.Add(origintest.Text(1, 100_000), 1000)
	for i := range 2 {
		gets.Store(0)
		for _, x := range b.Xorbs {
			if err := origin.Sink(s).PutXorb(t.Context(), x.Info, bytes.Clone(x.Bytes[:x.Info.PackedEnd[len(x.Info.PackedEnd)-1]])); err != nil {
				t.Fatal(err)
			}
		}
		if i == 1 && gets.Load() != 0 {
			t.Errorf("%d reads of %d bytes compare existing xorbs, want 0", gets.Load(), read.Load())
		}
	}
}

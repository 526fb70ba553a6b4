package web_test

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/web"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
)

// A slowLister is a store whose listings fail after a minute.
type slowLister struct {
	origin.Store
	scans atomic.Int32
}

func (s *slowLister) List(context.Context, string, names.Key) iter.Seq2[origin.Item, error] {
	return func(yield func(origin.Item, error) bool) {
		s.scans.Add(1)
		time.Sleep(time.Minute)
		yield(origin.Item{}, origin.ErrUnavailable)
	}
}

// A scan that fails is shared by all clients that wait for it. A client that leaves does not wait,
// and does not end the scan.
func TestSharedScanOfListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowLister{}
		h := web.NewHandler(s, web.HandlerOptions{})
		request := func(patience, want time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			start := time.Now()
			answer := httptest.NewRecorder()
			h.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/"+string(listing.Key), nil))
			if took := time.Since(start); took != want {
				t.Errorf("a client that waits for %v had status %d after %v, want %v", patience, answer.Code, took, want)
			}
		}
		if request(time.Second, time.Second); t.Failed() {
			return
		}
		var clients sync.WaitGroup
		for range 10 {
			clients.Go(func() { request(time.Second, time.Second) })
			clients.Go(func() { request(time.Hour, 59*time.Second) })
		}
		clients.Wait()
		if n := s.scans.Load(); n != 1 {
			t.Errorf("%d scans, want 1", n)
		}
		request(time.Hour, time.Minute)
		if n := s.scans.Load(); n != 2 {
			t.Errorf("%d scans, want 2: an error is not cached", n)
		}
	})
}

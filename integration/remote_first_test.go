package integration

import (
	"testing"
	"time"
)

// The first byte of an open file costs two requests: for the end of its xorb, and for its chunks.
// A third one may replace a late answer.
func TestRemoteFirstByte(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"web", "S3"} {
		t.Run(store, func(t *testing.T) {
			m := newOutageMount(t, store)
			f := m.open("large")
			before, start := m.link.Requests(), time.Now()
			if err := m.read(f, 0, 4096); err != nil {
				t.Fatal(err)
			}
			n := m.link.Requests() - before
			t.Logf("%d requests, %v", n, time.Since(start))
			if n > 3 {
				t.Errorf("%d requests, want 2", n)
			}
		})
	}
}

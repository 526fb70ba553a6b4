package cas

import (
	"fmt"
	"net/url"
	"testing"
	"time"
	"unsafe"

	"github.com/xetfs/xetfs/cache/origin/fetch"
)

// setBack returns a time of a wall clock that was set back by some seconds. The monotonic clock is unchanged.
func setBack(t *testing.T, at time.Time, seconds uint64) time.Time {
	t.Helper()
	const secondBit = 30 // of the first field of a time.Time with a monotonic clock
	back := at
	*(*uint64)(unsafe.Pointer(&back)) -= seconds << secondBit
	if back.Sub(at) != 0 || at.Unix()-back.Unix() != int64(seconds) {
		t.Fatalf("%v is not %v, set back by %d s", back, at, seconds)
	}
	return back
}

// A wall clock that is set back does not prolong what a Client remembers of a server.
func TestClockIsSetBack(t *testing.T) {
	begin := time.Now()
	after := setBack(t, begin.Add(2*time.Minute), 3600)
	var lacks deadline
	lacks.set(begin.Add(time.Minute))
	if lacks.isAfter(after) {
		t.Error("a deadline is later than a time a minute after it")
	}
	h := &host{now: func() time.Time { return after }}
	h.verdict.Store(&verdict{isOther: true, until: begin.Add(time.Minute)})
	if h.hasMoved() {
		t.Error("a host has moved a minute after the end of that")
	}
	h.verdict.Store(&verdict{until: begin.Add(time.Minute)})
	if d := h.stays(); d > 0 {
		t.Errorf("a host stays for %v a minute after the end of that", d)
	}
}

// The host that was idle longest is replaced.
func TestReplacesIdleHost(t *testing.T) {
	var hs hosts
	hs.init(fetch.Options{}, time.Now)
	defer hs.close()
	get := func(i int) *host {
		h, err := hs.get(roleTransfer, &url.URL{Scheme: "https", Host: fmt.Sprint("edge", i)})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	busy, idle := get(0), get(1)
	for i := range 10 * maxHosts {
		if get(2 + i); get(0) != busy {
			t.Fatalf("a host in use is replaced by host %d", 2+i)
		}
	}
	if get(1) == idle || hs.all.Len() != maxHosts {
		t.Errorf("%d hosts, want %d without the one that was idle", hs.all.Len(), maxHosts)
	}
}

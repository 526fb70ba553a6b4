package cas

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin/fetch"
)

// A deadline has the monotonic clock, so a wall clock that is set back does not prolong it.
func TestDeadlineIsMonotonic(t *testing.T) {
	var lacks deadline
	lacks.set(time.Now().Add(time.Minute))
	if at := lacks.at.Load().String(); !strings.Contains(at, " m=") {
		t.Errorf("%s has no monotonic clock", at)
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

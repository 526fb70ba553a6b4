package reconstruct

import (
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin/faulty"
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

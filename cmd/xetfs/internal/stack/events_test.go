package stack

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/disk"
)

// A disk that goes bad does not fill the log, and nothing that happened is kept quiet.
func TestCacheEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		events := newCacheEvents(slog.New(slog.NewTextHandler(&log, nil)))
		drop := disk.Event{Name: disk.EventDropped, What: "page 07", Err: errors.New("checksum differs")}
		for range 1000 {
			events.add(drop)
			synctest.Wait()
		}
		events.add(disk.Event{Name: disk.EventSuspended, Err: errors.New("input/output error")})
		synctest.Wait()
		if n := strings.Count(log.String(), "event=cache_entry_dropped entry=\"page 07\" err=\"checksum differs\""); n != droppedEvents {
			t.Errorf("%d lines of %d events:\n%s", n, 1000, log.String())
		}
		if !strings.Contains(log.String(), "event=cache_suspended err=\"input/output error\" suppressed=980\n") {
			t.Errorf("the last line does not say how many are missing:\n%s", log.String())
		}
		log.Reset()
		time.Sleep(2 * droppedPeriod)
		events.add(drop)
		events.add(disk.Event{Name: disk.EventResumed})
		events.close()
		events.add(drop) // from a store that ends late
		if got := log.String(); strings.Count(got, "level=WARN") != 1 || strings.Count(got, "level=INFO") != 1 {
			t.Errorf("two minutes later:\n%s", got)
		}
	})
}

package fs

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestWalkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w statPredictors
		// walk lists files in messages of 100, as find or du does. It returns the number of
		// files with attributes.
		walk := func(thread uint32, files int, looksUp bool) (reported int) {
			for range files / 100 {
				if !w.wantsAttrs(thread) {
					continue
				}
				reported += 100
				w.attrsSent(thread, 100)
			}
			if looksUp {
				w.lookedUp(thread)
			}
			return reported
		}
		tests := []struct {
			name     string
			thread   uint32
			files    int
			looksUp  bool
			min, max int
		}{
			{"a new walker gets attributes", 1, 1000, false, 1000, 1000},
			{"it does not look", 1, 1_000_000, false, maxIgnoredNew - 2000, maxIgnoredNew},
			{"it still does not", 1, 1000, true, 0, 0},
			{"now it did", 1, 100_000, true, 100_000, 100_000},
			{"another one looks", 2, 10_000, true, 10_000, 10_000},
			{"and lists much", 2, 500_000, false, 500_000, 500_000},
			{"and more", 2, 5_000_000, false, maxIgnoredKnown - 600_000, maxIgnoredKnown},
			{"one without a number", 0, 1_000_000, false, 1_000_000, 1_000_000},
		}
		for _, tt := range tests {
			if reported := walk(tt.thread, tt.files, tt.looksUp); reported < tt.min || reported > tt.max {
				t.Errorf("%s: told of %d files, want %d to %d", tt.name, reported, tt.min, tt.max)
			}
		}
		time.Sleep(2 * predictorAge)
		if !w.wantsAttrs(2) {
			t.Error("the number of a thread that is gone counts for the next")
		}
		for thread := range uint32(5 * maxPredictors) {
			w.wantsAttrs(thread)
		}
		if len(w.list) > maxPredictors {
			t.Errorf("%d walkers are remembered", len(w.list))
		}
	})
}

// Package histogram counts durations in fixed classes.
//
// In order of use: Histogram.Add, Histogram.Load; Bounds.
package histogram

import (
	"sync/atomic"
	"time"
)

// Bounds are the upper bounds of the classes, inclusive. The last class has no bound.
var Bounds = [...]time.Duration{
	10 * time.Microsecond, 30 * time.Microsecond, 100 * time.Microsecond, 300 * time.Microsecond,
	time.Millisecond, 3 * time.Millisecond, 10 * time.Millisecond, 30 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond,
	time.Second, 3 * time.Second, 10 * time.Second, 30 * time.Second, 100 * time.Second,
}

// A Histogram counts durations. The zero value is empty. It is safe for concurrent use, and
// allocates nothing.
type Histogram struct {
	classes [len(Bounds) + 1]atomic.Int64
	nanos   atomic.Int64
}

// Add counts one duration.
func (h *Histogram) Add(d time.Duration) {
	class := 0
	for class < len(Bounds) && d > Bounds[class] {
		class++
	}
	h.classes[class].Add(1)
	h.nanos.Add(int64(d))
}

// Counts are the values of a Histogram at one time.
type Counts struct {
	Count   int64   `json:"count"`
	Seconds float64 `json:"seconds"` // sum of all durations
	Classes []int64 `json:"classes"` // durations in each class, and above all bounds
}

// Load returns the counts of now.
func (h *Histogram) Load() Counts {
	c := Counts{Classes: make([]int64, len(h.classes)), Seconds: time.Duration(h.nanos.Load()).Seconds()}
	for i := range h.classes {
		c.Classes[i] = h.classes[i].Load()
		c.Count += c.Classes[i]
	}
	return c
}

package histogram

import (
	"slices"
	"testing"
	"time"
)

func TestAdd(t *testing.T) {
	var h Histogram
	for _, d := range []time.Duration{0, 10 * time.Microsecond, 10*time.Microsecond + 1, time.Second, time.Hour} {
		h.Add(d)
	}
	c := h.Load()
	want := make([]int64, len(Bounds)+1)
	want[0], want[1], want[10], want[len(Bounds)] = 2, 1, 1, 1
	if c.Count != 5 || !slices.Equal(c.Classes, want) {
		t.Errorf("counts = %+v, want classes %v", c, want)
	}
	if c.Seconds < 3601 || c.Seconds > 3601.1 {
		t.Errorf("sum = %v s", c.Seconds)
	}
}

func TestAddAllocatesNothing(t *testing.T) {
	var h Histogram
	if n := testing.AllocsPerRun(100, func() { h.Add(time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

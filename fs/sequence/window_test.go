package sequence

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A window doubles when the reader has opened half of it.
func TestWindowGrows(t *testing.T) {
	w := newWindow(maxWindow, 0)
	var grown []string
	for i := range 2000 {
		if i > 0 && !w.open(fmt.Sprint(i-1)) {
			t.Fatalf("file %d is not in the window", i-1)
		}
		if n := w.grow(); n > 0 {
			grown = append(grown, fmt.Sprintf("%d:%d", i, n))
			for range n {
				w.add(fmt.Sprint(w.next))
			}
		}
	}
	want := "0:4 2:6 6:12 14:24 30:48 62:96 126:192 254:128 382:128"
	if got := strings.Join(grown[:9], " "); got != want {
		t.Errorf("the window grows by %s, want %s", got, want)
	}
	if w.open("5") || w.open("4000") {
		t.Error("the window has files twice, or others")
	}
}

// Files that the reader skips stay for the length of a window.
func TestWindowSkips(t *testing.T) {
	w := newWindow(maxWindow, 0)
	for i := 0; i < 1000; i += 2 {
		if n := w.grow(); n > 0 {
			for range n {
				w.add(fmt.Sprint(w.next))
			}
		}
		if !w.open(fmt.Sprint(i)) {
			t.Fatalf("file %d is not in the window", i)
		}
	}
	if !w.open("997") {
		t.Error("a skipped file is not in the window")
	}
	if w.open("1") {
		t.Error("a file that was skipped long ago is in the window")
	}
}

// Runs of ascending keys are compared. Comparisons get rarer while they fail.
func TestCandidates(t *testing.T) {
	tests := []struct {
		name, open, want string
	}{
		{"ascending", "a b c d", "abc bcd"},
		{"with gaps", "a e q", "aeq"},
		{"descending", "d c b a", ""},
		{"two readers", "a m b n c o d p", "amn mno bcd nop"},
		{"too many readers", "z y x w v z z", ""},
		{"the same", "a a a a", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var c candidates[string]
			var got []string
			for _, name := range strings.Fields(tt.open) {
				if run := c.open(name, name, startRun); run != nil {
					got = append(got, strings.Join(run, ""))
					c.checked(false, 0)
				}
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("compared are %q, want %q", s, tt.want)
			}
		})
	}
	var c candidates[int]
	var compared []int
	for i := range 100 {
		if c.open(i, fmt.Sprint(i), startRun) != nil {
			compared = append(compared, i)
			c.checked(false, 8)
		}
	}
	if want := []int{2, 5, 10, 19, 28}; !slices.Equal(compared[:5], want) {
		t.Errorf("runs %v are compared, want %v", compared[:5], want)
	}
	c.checked(true, 8)
	if len(c.runs) != 0 || c.skip != 0 {
		t.Errorf("after a success %+v is left", c)
	}
}

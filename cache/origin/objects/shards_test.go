package objects

import "testing"

func TestDropAny(t *testing.T) {
	m := map[int]bool{}
	for i := range 10 {
		m[i] = true
		if dropAny(m, 4); len(m) != min(i+1, 4) {
			t.Errorf("after %d: %d entries", i+1, len(m))
		}
	}
}

package stack

import (
	"testing"
)

// TestDivide checks that no part of a budget is zero, which would mean a default, and that the
// parts add up to the whole.
func TestDivide(t *testing.T) {
	for _, bytes := range []int64{0, 1, 2, 7, 16 << 20, 512<<20 + 3, 1 << 40} {
		b := DivideMemory(bytes)
		if b.unpacked <= 0 || b.ahead <= 0 || b.Infos <= 0 || b.Terms <= 0 {
			t.Errorf("divide(%d) = %+v: a part is zero", bytes, b)
		}
		if sum := b.unpacked + b.ahead + b.Infos + b.Terms; sum != max(4, bytes) {
			t.Errorf("divide(%d) = %+v: the sum is %d", bytes, b, sum)
		}
	}
}

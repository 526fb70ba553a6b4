package stack

import (
	"testing"
)

// TestStreamAhead checks the bytes of readahead in small, middle and large memories.
func TestStreamAhead(t *testing.T) {
	for bytes, want := range map[int64]int64{16 << 20: 6 << 20, 128 << 20: streamAhead, 192 << 20: streamAhead, 512 << 20: 128 << 20} {
		if b := DivideMemory(bytes); b.ahead != want {
			t.Errorf("divide(%d) reads %d bytes ahead, want %d", bytes, b.ahead, want)
		}
	}
}

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

// Only a remote source with much memory and proofs has large reads, besides a local one.
func TestMaxRead(t *testing.T) {
	large, small, least := DivideMemory(DefaultMemory), DivideMemory(64<<20), DivideMemory(leastMemory)
	for _, tt := range []struct {
		local, proves bool
		budget        Budget
		want          int
	}{
		{true, true, small, 1 << 20},
		{false, true, large, 1 << 20},
		{false, true, small, 512 << 10},
		{false, false, large, 512 << 10},
		{true, true, least, 1 << 20},
		{false, true, least, 256 << 10},
	} {
		if got := maxRead(tt.local, tt.proves, tt.budget); got != tt.want {
			t.Errorf("local %v, proves %v, readahead %d: %d bytes, want %d", tt.local, tt.proves, tt.budget.ahead, got, tt.want)
		}
	}
}

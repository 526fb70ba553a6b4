package reconstruct

import (
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// A coverage is complete with the read that touches the last block, and says so once.
func TestCoverage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(1, 3*maxBlocks*minBlock).Draw(t, "size")
		c := newCoverage(size, minBlock, maxBlocks)
		if len(c.seen) > maxBlocks/64 {
			t.Fatalf("%d bytes take %d words", size, len(c.seen))
		}
		missing := map[int64]bool{}
		for i := range (size + c.block - 1) / c.block {
			missing[i] = true
		}
		for range 20 {
			off := rapid.Int64Range(0, size).Draw(t, "off")
			n := rapid.Int64Range(0, size-off).Draw(t, "n")
			before := len(missing)
			for i := off / c.block; n > 0 && i <= (off+n-1)/c.block; i++ {
				delete(missing, i)
			}
			if got, want := c.note(off, n), before > 0 && len(missing) == 0; got != want {
				t.Fatalf("read of %d at %d: complete = %t, want %t", n, off, got, want)
			}
		}
	})
}

func TestCoverage_Concurrent(t *testing.T) {
	c := newCoverage(1000*minBlock, minBlock, maxBlocks)
	var complete atomic.Int32
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range int64(1000) {
				if c.note(i*minBlock+5, 10) {
					complete.Add(1)
				}
			}
		})
	}
	group.Wait()
	if complete.Load() != 1 {
		t.Errorf("complete %d times", complete.Load())
	}
}

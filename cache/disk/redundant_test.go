package disk

import (
	"slices"
	"testing"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/codec"
)

// terms are those of a file that is made of some chunks of the nth xorb.
func terms(n int, r codec.ChunkRange) []codec.Term {
	return []codec.Term{{Xorb: hashOf(n), Chunks: r}}
}

// markRedundant says that a file has chunks of the nth xorb, too.
func (b *fixture) markRedundant(n int, r codec.ChunkRange) {
	b.t.Helper()
	b.MarkRedundant(terms(n, r))
	b.flush()
}

// there returns how many chunks of the nth xorb are kept, without using them.
func (b *fixture) there(n int, r codec.ChunkRange) int {
	left := r.Len()
	for _, gap := range b.Missing(hashOf(n), r) {
		left -= gap.Len()
	}
	return left
}

// TestD19_RedundantGoFirst fills a cache that has some redundant chunks. Exactly these are
// evicted, used or not, from either queue.
func TestD19_RedundantGoFirst(t *testing.T) {
	const n = 30 // chunks of a xorb: about half a segment
	for _, tt := range []struct {
		name  string
		spare []int // of the xorbs 0 to 9
		use   bool  // they are read before
		near  bool  // others have chunks in the same segments
	}{
		{"new", []int{5, 6, 7, 8}, false, false},
		{"used", []int{2, 3, 4, 5}, true, false},
		{"among others", []int{2, 3, 4, 5}, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := open(t, newSimDisk(), func(o *Options) { o.MaxBytes = 360 << 10 })
			for x := range 10 {
				b.put(x, 0, n)
				if tt.near {
					b.put(50+x, 0, 4)
				} else {
					b.writerSeals()
				}
			}
			if tt.use {
				for _, x := range tt.spare {
					b.want(x, 0, n, n)
					b.want(x, 0, n, n)
				}
			}
			for _, x := range tt.spare {
				b.markRedundant(x, chunks(0, n))
			}
			before := b.Stats().Chunks
			fits := 0
			for b.Stats().EvictedBytes == 0 {
				b.put(100+fits, 0, n)
				fits++
			}
			for more := range 2 {
				b.put(200+more, 0, n)
			}
			gone := 0
			for x := range 10 {
				there := b.there(x, chunks(0, n))
				switch {
				case slices.Contains(tt.spare, x):
					gone += n - there
				case there < n:
					t.Errorf("%d of %d chunks of xorb %d are left", there, n, x)
				}
				if there := b.there(50+x, chunks(0, 4)); tt.near && there < 4 {
					t.Errorf("%d of 4 chunks beside xorb %d are left", there, x)
				}
			}
			if gone < 2*n || b.Stats().Chunks >= before+(fits+2)*n {
				t.Errorf("only %d spare chunks have gone", gone)
			}
			for x := range fits {
				b.want(100+x, 0, n, n)
			}
			if s := b.Stats(); s.PeakBytes > 360<<10 || s.State != "ok" || s.Dropped > 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestRedundantIsReadAgain reads some of the redundant chunks: these stay. The others leave no
// trace: after their return they count as new.
func TestRedundantIsReadAgain(t *testing.T) {
	const n = 30
	b := open(t, newSimDisk(), func(o *Options) { o.MaxBytes = 256 << 10 })
	for x := range 4 {
		b.put(x, 0, n)
		b.writerSeals()
		b.markRedundant(x, chunks(0, n))
	}
	b.want(1, 10, 14, 4)
	b.want(1, 10, 14, 4)
	for x := 10; b.there(3, chunks(0, n)) > 0; x++ {
		b.put(x, 0, n)
		b.want(x, 0, n, n) // or it would be the one to go
		b.want(x, 0, n, n)
	}
	for x := range 4 {
		want := 0
		if x == 1 {
			want = 4
		}
		if there := b.there(x, chunks(0, n)); there != want {
			t.Errorf("%d chunks of xorb %d are left, want %d", there, x, want)
		}
	}
	b.want(1, 10, 14, 4)
	if b.writer.Load().policy.QueueFor(index.XorbKey(hashOf(0)), []codec.ChunkRange{chunks(3, 4)}) != index.Probation {
		t.Error("there is a trace of a spare chunk that has gone")
	}
	b.put(0, 0, n)
	x := b.Store.disk.Load().index
	for _, p := range x.Find(index.XorbKey(hashOf(0)), chunks(0, n), nil) {
		if p.Segment.Queue != index.Probation {
			t.Error("a chunk that comes back goes where those go that were missed")
		}
	}
}

// TestRedundantOfWhatIsNotThere marks chunks that are absent, and chunks of a store that cannot
// be written.
func TestRedundantOfWhatIsNotThere(t *testing.T) {
	d := newSimDisk()
	b := open(t, d)
	b.put(1, 10, 20)
	b.put(1, 25, 30)
	b.markRedundant(1, chunks(0, 8192))
	b.markRedundant(2, chunks(0, 10))
	for c := uint32(0); c < 35; c++ {
		spans := b.Store.disk.Load().index.Find(index.XorbKey(hashOf(1)), chunks(c, c+1), nil)
		if stored := c >= 10 && c < 20 || c >= 25 && c < 30; len(spans) > 0 != stored {
			t.Fatalf("chunk %d: %v", c, spans)
		} else if stored && !spans[0].IsRedundant() {
			t.Errorf("chunk %d is not redundant", c)
		}
	}
	open(t, d, func(o *Options) { o.Share = true }).MarkRedundant(terms(1, chunks(0, 30)))
	b.want(1, 10, 20, 10)
	b = b.again()
	b.want(1, 25, 30, 5)
}

package seen

import (
	"sync"

	"github.com/xetfs/xetfs/codec"
)

// Drops records the chunks that were dropped last. A chunk that was requested before it was
// dropped must not be stored later. A nil *Drops has none. It is safe for concurrent use.
type Drops struct {
	mu   sync.Mutex
	n    int64            // drops so far; guarded by mu
	last [maxDrops]dropOf // number n is at n modulo the length; guarded by mu
}

// maxDrops is the number of recorded drops. Older ones count as drops of all chunks.
const maxDrops = 1024

type dropOf struct {
	xorb   codec.Hash
	chunks codec.ChunkRange
}

// Count returns the number of drops so far.
func (d *Drops) Count() int64 {
	if d == nil {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.n
}

// Add records that chunks r of xorb x were dropped.
func (d *Drops) Add(x codec.Hash, r codec.ChunkRange) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last[d.n%maxDrops] = dropOf{x, r}
	d.n++
}

// Since reports whether any of chunks r of xorb x was dropped after the first n drops.
func (d *Drops) Since(n int64, x codec.Hash, r codec.ChunkRange) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.n-n > maxDrops {
		return true
	}
	for ; n < d.n; n++ {
		if l := d.last[n%maxDrops]; l.xorb == x && l.chunks.Start < r.End && r.Start < l.chunks.End {
			return true
		}
	}
	return false
}

package disk

import "github.com/xetfs/xetfs/cache/disk/internal/index"

// slack is room that always stays free. Chunks can be copied out of a segment before the
// deletion of the segment, and the journal can record it.
func (wr *writer) slack() int64 { return wr.s.o.testing.segment + 32<<10 }

// maxChunks bounds the memory of the index if chunks are much smaller than usual.
func (wr *writer) maxChunks() int { return int(max(wr.s.o.MaxBytes/(16<<10), 1<<16)) }

// fits reports whether there is room for n more bytes and more chunks.
func (wr *writer) fits(n int64, chunks int) (bool, error) {
	stored, _ := wr.d.index.Len()
	if wr.s.stats.used.Load()+index.OnDisk(n)+wr.slack() > wr.s.o.MaxBytes || stored+chunks > wr.maxChunks() {
		return false, nil
	}
	if wr.minFree <= 0 {
		return true, nil
	}
	free, _, err := wr.d.Space()
	return free-index.OnDisk(n)-wr.s.stats.reserved.Load() >= wr.minFree, err
}

// neverFits reports that n more bytes have no room even after the eviction of everything. For
// n = 0, another program took the room, and everything may be evicted.
func (wr *writer) neverFits(n int64) (bool, error) {
	fixed := wr.fixed()
	if fixed+index.OnDisk(n)+wr.slack() > wr.s.o.MaxBytes {
		return true, nil
	}
	if wr.minFree <= 0 || n == 0 {
		return false, nil
	}
	free, _, err := wr.d.Space()
	free += wr.s.stats.used.Load() - fixed
	return free-index.OnDisk(n)-wr.s.stats.reserved.Load() < wr.minFree, err
}

// fixed returns the bytes that eviction cannot free now.
func (wr *writer) fixed() int64 {
	n := wr.s.stats.used.Load() - wr.policy.Held[index.Probation] - wr.policy.Held[index.Protected]
	for _, o := range wr.orphans {
		n -= o.size
	}
	for _, w := range wr.d.index.Files() {
		if w.Open.Load() > 0 {
			n += index.OnDisk(w.Size)
		}
	}
	return n
}

// mayCopy reports whether there is room for n bytes of copies before their sources are deleted.
func (wr *writer) mayCopy(n int64) bool {
	if wr.minFree <= 0 {
		return true
	}
	free, _, err := wr.d.Space()
	return err == nil && free-n > wr.minFree/2
}

// setMinFree determines the bytes of the file system that stay free.
func (wr *writer) setMinFree() error {
	_, all, err := wr.d.Space()
	switch {
	case err != nil:
		return err
	case wr.s.o.MinFree == 0:
		wr.minFree = all / 20
	default:
		wr.minFree = max(0, wr.s.o.MinFree)
	}
	return nil
}

// A spaceReservation is bytes that are reserved for a file and not written yet. The file system
// reports them as free.
type spaceReservation struct {
	c    *counters
	left int64
}

func (p *spaceReservation) use(n int64) {
	p.left -= n
	p.c.reserved.Add(-n)
}

func (p *spaceReservation) end() { p.use(p.left) }

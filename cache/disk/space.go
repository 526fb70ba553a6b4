package disk

import (
	"time"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
)

// slack is room that always stays free. Chunks can be copied out of a segment before the
// deletion of the segment, and the journal can record it.
func (wr *writer) slack() int64 { return wr.s.o.testing.segment + 32<<10 }

// maxChunks bounds the memory of the index if chunks are much smaller than usual.
func (wr *writer) maxChunks() int { return int(max(wr.s.o.MaxBytes/(16<<10), 1<<16)) }

// fits reports whether there is room for n more bytes and more chunks.
func (wr *writer) fits(n int64, chunks int) bool {
	stored, _ := wr.d.index.Len()
	if wr.s.stats.used.Load()+index.OnDisk(n)+wr.slack() > wr.s.o.MaxBytes || stored+chunks > wr.maxChunks() {
		return false
	}
	return wr.minFree <= 0 || wr.freeBytes()-index.OnDisk(n) >= wr.minFree
}

// neverFits reports that n more bytes have no room even after the eviction of everything. For
// n = 0, another program took the room, and everything may be evicted.
func (wr *writer) neverFits(n int64) bool {
	fixed := wr.fixed()
	if fixed+index.OnDisk(n)+wr.slack() > wr.s.o.MaxBytes {
		return true
	}
	if wr.minFree <= 0 || n == 0 {
		return false
	}
	return wr.freeBytes()+wr.s.stats.used.Load()-fixed-index.OnDisk(n) < wr.minFree
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

// A spaceCheck is the last measurement of the free space.
type spaceCheck struct {
	last  time.Time
	pause time.Duration // until the next one
	free  int64         // bytes of the file system
	used  int64         // bytes of the cache
}

func (c *spaceCheck) due() bool { return time.Since(c.last) >= c.pause }

// measureSpace measures the free space, and returns the size of the file system.
func (wr *writer) measureSpace() (all int64, err error) {
	used := wr.s.stats.used.Load()
	free, all, err := wr.d.Space()
	if err == nil {
		wr.space.free, wr.space.used = free, used
	}
	wr.space.last = time.Now()
	return all, err
}

// freeBytes returns the free space of the last measurement plus what the cache freed since, without
// the bytes that are reserved for whole files. The blocks of a deleted file stay in use while another
// process has the file open. Some file systems free them later. A measurement after each deletion would
// therefore lead to more deletions.
func (wr *writer) freeBytes() int64 {
	return wr.space.free + wr.space.used - wr.s.stats.used.Load() - wr.s.stats.reserved.Load()
}

// The pause between two checks of MinFree grows by a factor, up to a multiple of the shortest.
const (
	spacePauseFactor = 4
	maxSpacePause    = 64
)

// keepMinFree evicts for the room of other programs when a check is due. The pause grows while
// deletions free nothing at once: the same lack of room would otherwise empty the cache.
func (wr *writer) keepMinFree() {
	if wr.minFree <= 0 || !wr.space.due() {
		return
	}
	_, err := wr.measureSpace()
	if err != nil {
		wr.failed("making room", err)
		return
	}
	before := wr.space
	if err := wr.makeRoom(0, 0); !isFull(err) { // other programs may take all room; that is no event
		wr.failed("making room", err)
	}
	shortest := wr.s.o.testing.spaceCheck
	wr.space.pause = shortest
	if deleted := before.used - wr.s.stats.used.Load(); deleted > 0 {
		if free, _, err := wr.d.Space(); err == nil && free < before.free+deleted/2 {
			wr.space.pause = min(spacePauseFactor*before.pause, maxSpacePause*shortest)
		}
	}
}

// setMinFree determines the bytes of the file system that stay free.
func (wr *writer) setMinFree() error {
	wr.space.pause = wr.s.o.testing.spaceCheck
	all, err := wr.measureSpace()
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

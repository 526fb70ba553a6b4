package disk

import "sync/atomic"

// counters are the figures of Stats that are counted on the way.
type counters struct {
	used, peak                            atomic.Int64
	segmentBytes, fileBytes, journalBytes atomic.Int64
	reserved                              atomic.Int64 // reserved for whole files and not written yet
	hits, misses, fileHits                atomic.Int64
	dropped, refused                      atomic.Int64
	written, evicted, copied              atomic.Int64
}

// use adds to the bytes of all files, and to those of one kind.
func (c *counters) use(n int64, sort *atomic.Int64) {
	sort.Add(n)
	used := c.used.Add(n)
	for peak := c.peak.Load(); used > peak; peak = c.peak.Load() {
		if c.peak.CompareAndSwap(peak, used) {
			return
		}
	}
}

// reset sets the bytes of all files to zero.
func (c *counters) reset() { c.setBytes([4]int64{}) }

// bytes returns the counted bytes of all files.
func (c *counters) bytes() (all [4]int64) {
	for i, n := range c.ofFiles() {
		all[i] = n.Load()
	}
	return all
}

func (c *counters) setBytes(all [4]int64) {
	for i, n := range c.ofFiles() {
		n.Store(all[i])
	}
}

func (c *counters) ofFiles() [4]*atomic.Int64 {
	return [4]*atomic.Int64{&c.used, &c.segmentBytes, &c.fileBytes, &c.journalBytes}
}

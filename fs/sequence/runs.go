package sequence

import (
	"cmp"
	"slices"
)

const maxRuns = 4 // of one directory: readers at different places of it

// candidates are the runs of one directory in one order. A run of ascending keys may skip files,
// so it is compared with the tree before it counts.
type candidates[K cmp.Ordered] struct {
	runs     []run[K] // least recently extended first
	checking bool     // a comparison is under way
	backoff
}

// A backoff makes comparisons rarer while they fail.
type backoff struct {
	failed int // comparisons
	skip   int // runs, or opens of files, that are left out
}

// A run is files that were opened in ascending order of their keys.
type run[K cmp.Ordered] struct {
	last  K
	paths []string // of the last files, as many as open a window
}

// open records the open of a file. It returns the files of a run of length n that is to be compared with
// the tree, or nil. The caller reports the result to checked.
func (c *candidates[K]) open(key K, path string, n int) []string {
	paths := c.extend(key, path, n)
	if len(paths) < n || c.checking || c.skips() {
		return nil
	}
	c.checking = true
	return slices.Clone(paths)
}

// extend adds a file to the run with the nearest lower key, or begins a run. It returns its last n files.
func (c *candidates[K]) extend(key K, path string, n int) []string {
	best := -1
	for i := range c.runs {
		if c.runs[i].last < key && (best < 0 || c.runs[best].last < c.runs[i].last) {
			best = i
		}
	}
	var r run[K]
	switch {
	case best >= 0:
		r = c.runs[best]
		c.runs = slices.Delete(c.runs, best, best+1)
	case len(c.runs) == maxRuns:
		c.runs = slices.Delete(c.runs, 0, 1)
	}
	if len(r.paths) == n {
		r.paths = slices.Delete(r.paths, 0, 1)
	}
	r.last, r.paths = key, append(r.paths, path)
	c.runs = append(c.runs, r)
	return r.paths
}

// checked records the result of a comparison.
func (c *candidates[K]) checked(ok bool, maxSkip int) {
	c.checking = false
	if ok {
		c.runs = nil
		c.retry()
		return
	}
	c.fail(0, maxSkip)
}

// skips reports whether to leave out the next run or open.
func (b *backoff) skips() bool {
	if b.skip == 0 {
		return false
	}
	b.skip--
	return true
}

// fail records a failed comparison. After free+n failures the next 2^n are skipped, at most maxSkip.
func (b *backoff) fail(free, maxSkip int) {
	b.failed = min(b.failed+1, free+16)
	if n := b.failed - free; n > 0 {
		b.skip = min(maxSkip, 1<<n)
	}
}

// retry compares the next run, whatever failed before.
func (b *backoff) retry() { b.failed, b.skip = 0, 0 }

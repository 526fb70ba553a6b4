// Package nowait reads of files what the kernel has in memory, and never waits for a disk.
package nowait

import "golang.org/x/sys/unix"

// ReadAt fills p from offset off of an open file, and returns how much of it, from its
// beginning, it could: nothing, if not all of it is in memory or the file system cannot
// say what is.
func ReadAt(fd int, p []byte, off int64) int {
	if !inMemory(fd, off, len(p)) {
		return 0
	}
	n, _ := unix.Preadv2(fd, [][]byte{p}, off, unix.RWF_NOWAIT)
	return max(n, 0)
}

// inMemory reports whether all of some bytes is in the page cache. Of what is not,
// RWF_NOWAIT would begin to read it ahead, and that may have to wait for a disk that hangs.
func inMemory(fd int, off int64, n int) bool {
	var st unix.Cachestat_t
	first, end := off/pageSize, (off+int64(n)+pageSize-1)/pageSize
	r := unix.CachestatRange{Off: uint64(off), Len: uint64(n)}
	if err := unix.Cachestat(uint(fd), &r, &st, 0); err != nil {
		return false
	}
	return st.Cache >= uint64(end-first)
}

var pageSize = int64(unix.Getpagesize())

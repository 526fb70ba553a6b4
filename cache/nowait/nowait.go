package nowait

import "golang.org/x/sys/unix"

// ReadAt fills p from offset off of an open file. It returns how many bytes it has read: none
// if not all are in memory, or if the file system cannot report this.
func ReadAt(fd int, p []byte, off int64) int {
	if !inMemory(fd, off, len(p)) {
		return 0
	}
	n, _ := unix.Preadv2(fd, [][]byte{p}, off, unix.RWF_NOWAIT)
	return max(n, 0)
}

// Fetch starts to read bytes of an open file into the page cache, unless it has them all. It may
// wait for the disk.
func Fetch(fd int, off int64, n int) {
	if !inMemory(fd, off, n) {
		_ = unix.Fadvise(fd, off, int64(n), unix.FADV_WILLNEED) // it is a hint
	}
}

// inMemory reports whether all bytes are in the page cache. RWF_NOWAIT would start readahead
// for missing bytes, and that may wait for a disk that hangs.
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

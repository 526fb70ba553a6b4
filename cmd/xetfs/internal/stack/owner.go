package stack

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// lockName is the file in a disk cache that its owner holds locked.
const lockName = "LOCK"

// CacheOwner returns the process that writes to the disk cache in a folder, or 0. It is also 0
// where this process may not see the owner.
func CacheOwner(folder string) int {
	var st unix.Stat_t
	path := filepath.Join(folder, lockName)
	if unix.Lstat(path, &st) != nil {
		return 0
	}
	f, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer f.Close()
	for _, pid := range lockers(f, st.Ino) {
		if holds(pid, &st) {
			return pid
		}
	}
	return 0
}

// lockers returns the processes that hold a lock on a file with this inode number, from the
// table of the kernel. The device is not compared, because on some file systems stat reports
// another one.
func lockers(table io.Reader, inode uint64) (pids []int) {
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 6 || words[1] != "FLOCK" || !strings.HasSuffix(words[5], ":"+strconv.FormatUint(inode, 10)) {
			continue
		}
		if pid, err := strconv.Atoi(words[4]); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// holds reports whether a process has a file open. It is true for the processes of other users,
// whose files are not visible.
func holds(pid int, st *unix.Stat_t) bool {
	fds := fmt.Sprintf("/proc/%d/fd", pid)
	all, err := os.ReadDir(fds)
	if err != nil {
		return os.IsPermission(err)
	}
	for _, fd := range all {
		var open unix.Stat_t
		if unix.Stat(filepath.Join(fds, fd.Name()), &open) == nil && open.Ino == st.Ino && open.Dev == st.Dev {
			return true
		}
	}
	return false
}

// processName returns a name for the owner of a disk cache.
func processName(pid int) string {
	if pid == 0 {
		return "another process"
	}
	return fmt.Sprintf("process %d", pid)
}

package daemon

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/fs/fusemount"
)

// endKilled aborts the connection of a mount whose processes were all killed and cannot end, and
// reports whether there was one. A thread of such a process waits for its own mount, in a push or a
// read. No signal ends that wait, and the readers of the mount wait with it.
func endKilled(m mountpoint) bool {
	if !servedByKilled(m) {
		return false
	}
	fd, err := fusemount.OpenAbort(unix.Mkdev(0, m.on.Minor))
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte("1"))
	return err == nil
}

// servedByKilled reports whether other processes have the connection of a mount open, and all were killed.
func servedByKilled(m mountpoint) (killed bool) {
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		if filepath.Base(p) == strconv.Itoa(os.Getpid()) {
			continue
		}
		threads := []string{p}
		if processStateOf(p) == 'Z' { // its other threads may not have ended
			threads, _ = filepath.Glob(p + "/task/*")
		}
		for _, t := range threads {
			switch {
			case !serves(t, m):
			case !wasKilled(t):
				return false
			default:
				killed = true
			}
		}
	}
	return killed
}

// wasKilled reports whether SIGKILL is pending for the thread with a folder in /proc. The kernel sends
// it to all threads of a process that ends.
func wasKilled(proc string) bool {
	status, _ := os.ReadFile(filepath.Join(proc, "status"))
	_, after, _ := strings.Cut(string(status), "\nSigPnd:\t")
	pending, _, _ := strings.Cut(after, "\n")
	mask, err := strconv.ParseUint(pending, 16, 64)
	return err == nil && mask&(1<<(unix.SIGKILL-1)) != 0
}

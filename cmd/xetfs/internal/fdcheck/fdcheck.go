// Package fdcheck ends the program with a sentence if it may open too few files.
//
// Package go-fuse opens pipes when it is initialized, and panics without descriptors. This
// package imports syscall alone. The Go specification sorts packages by import path and
// initializes the first one whose imports are ready, so its init precedes that of go-fuse.
package fdcheck

import "syscall"

// minFree is the number of descriptors that any command can open.
const minFree = 16

func init() {
	if !hasFree(minFree) {
		const text = "xetfs: too many open files: the limit of descriptors is too low; raise it: ulimit -n 1024\n"
		_, _ = syscall.Write(2, []byte(text)) // without it, the status remains
		syscall.Exit(1)
	}
}

// hasFree reports whether the process can open n more descriptors.
func hasFree(n int) bool {
	fds := make([]int, 0, n)
	defer func() {
		for _, fd := range fds {
			syscall.Close(fd)
		}
	}()
	for len(fds) < n {
		fd, err := syscall.Open("/", syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
		if err == syscall.EMFILE || err == syscall.ENFILE {
			return false
		}
		if err != nil {
			return true // another problem, with its own message later
		}
		fds = append(fds, fd)
	}
	return true
}

package fusemount

import (
	"cmp"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Unmount unmounts the file system at path. It returns unix.EBUSY while a process uses the
// mount. With lazy the name disappears at once, and open files remain readable until they
// are closed. Root calls umount2(2), other users fusermount3.
func Unmount(path string, lazy bool) error {
	flags, args := unix.UMOUNT_NOFOLLOW, []string{"-u"}
	if lazy {
		flags |= unix.MNT_DETACH
		args = append(args, "-z")
	}
	err := unix.Unmount(path, flags)
	if !errors.Is(err, unix.EPERM) {
		return err
	}
	return runHelper(nil, append(args, "--", path)...)
}

// staleWait bounds the wait for the answer of a mount.
const staleWait = 5 * time.Second

// IsStale reports whether the mount at path has lost its server. A stopped server does not answer,
// and its mount is not stale; the pending request keeps such a mount busy.
func IsStale(path string) bool {
	err := Probe(path)
	return errors.Is(err, unix.ENOTCONN) || errors.Is(err, unix.ECONNABORTED) // the latter for a moment after an abort
}

// ErrSilent is the error of a mount that does not answer, for example because its server was stopped.
var ErrSilent = errors.New("the mount does not answer")

// Probe returns the error of a request to the mount at path, ErrSilent if there is no answer in
// time. The kernel may still have the attributes and the listing of the root, but it stores no answer
// to statfs. It answers statfs itself for a mount that this user may not read, so Probe lists the
// root, too.
func Probe(path string) error {
	answer := make(chan error, 1)
	go func() {
		f, err := os.Open(path)
		if err == nil {
			_, err = f.Readdirnames(1)
			f.Close()
		}
		if err == nil || errors.Is(err, io.EOF) {
			err = cmp.Or(unix.Statfs(path, new(unix.Statfs_t)), err)
		}
		answer <- err
	}()
	select {
	case err := <-answer:
		return err
	case <-time.After(staleWait):
		return ErrSilent
	}
}

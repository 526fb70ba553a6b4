package fs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// readAheadKB is how much the kernel reads ahead of a sequential reader. FUSE itself
// cannot ask for more than 128 KiB.
const readAheadKB = 4096

// raiseReadAhead sets it for one device, which root may.
func raiseReadAhead(dev uint64) error {
	return writeAt(unix.AT_FDCWD,
		fmt.Sprintf("/sys/class/bdi/%d:%d/read_ahead_kb", unix.Major(dev), unix.Minor(dev)), fmt.Sprint(readAheadKB))
}

// openAbort opens the file that aborts the connection of a mount: readers that wait get
// ENOTCONN. That is the only way to end a lazily unmounted file system. The file is bound to
// this connection. Its path may later be that of another mount, because the kernel uses the
// number of a device again.
func openAbort(dev uint64) (int, error) {
	const flags = unix.O_WRONLY | unix.O_CLOEXEC
	file := fmt.Sprintf("%d/abort", unix.Minor(dev))
	fd, err := unix.Open("/sys/fs/fuse/connections/"+file, flags, 0)
	if err == nil {
		return fd, nil
	}
	control, ownErr := fuseControl()
	if ownErr != nil {
		return -1, errors.Join(err, ownErr)
	}
	defer unix.Close(control)
	return unix.Openat(control, file, flags, 0)
}

// fuseControl returns the folder of FUSE connections where nobody has mounted it, as in
// containers: a mount that is at no path.
func fuseControl() (int, error) {
	fd, err := unix.Fsopen("fusectl", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fusectl: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.FsconfigCreate(fd); err != nil {
		return -1, fmt.Errorf("fusectl: %w", err)
	}
	dir, err := unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("fusectl: %w", err)
	}
	return dir, nil
}

func writeAt(dir int, path, value string) error {
	fd, err := unix.Openat(dir, path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte(value)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

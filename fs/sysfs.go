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

// abort cuts the connection between kernel and server: whoever waits for an answer gets
// ENOTCONN. It is the only way to end a mount that was taken away lazily.
func abort(dev uint64) error {
	file := fmt.Sprintf("%d/abort", unix.Minor(dev))
	err := writeAt(unix.AT_FDCWD, "/sys/fs/fuse/connections/"+file, "1")
	if err == nil {
		return nil
	}
	control, ownErr := fuseControl()
	if ownErr != nil {
		return errors.Join(err, ownErr)
	}
	defer unix.Close(control)
	return writeAt(control, file, "1")
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

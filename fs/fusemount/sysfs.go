package fusemount

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ReadAheadKB is the size of the kernel's readahead in KiB that RaiseReadAhead sets. The FUSE
// protocol alone allows at most 128 KiB.
const ReadAheadKB = 4096

// RaiseReadAhead sets the kernel's readahead of the mount to ReadAheadKB. It needs the rights
// of root. The handshake of the server must precede it, because that sets the readahead, too.
func (d *Device) RaiseReadAhead() error {
	return writeFile(
		fmt.Sprintf("/sys/class/bdi/%d:%d/read_ahead_kb", unix.Major(d.number), unix.Minor(d.number)), fmt.Sprint(ReadAheadKB))
}

// OpenAbort opens the file that aborts the connection of a device. An abort is the only way
// to end a lazily unmounted file system. The file stays bound to this connection; its path
// may later belong to another mount, because the kernel reuses device numbers.
func OpenAbort(device uint64) (fd int, err error) {
	return openConnection(device, "abort", unix.O_WRONLY)
}

// OpenWaiting opens the file with the number of requests that wait for the server of a device.
// Like the file of OpenAbort it stays bound to this connection.
func OpenWaiting(device uint64) (fd int, err error) {
	return openConnection(device, "waiting", unix.O_RDONLY)
}

// IsGone reports whether the file system of a file of OpenWaiting is mounted nowhere: such a
// file is empty. Only the first read of an open file shows that, so IsGone opens it anew.
func IsGone(waiting int) bool {
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", waiting), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, make([]byte, 1))
	return n == 0 && err == nil
}

// openConnection opens a file in the folder of a connection.
func openConnection(device uint64, name string, flags int) (fd int, err error) {
	flags |= unix.O_CLOEXEC
	file := fmt.Sprintf("%d/%s", unix.Minor(device), name)
	fd, err = unix.Open("/sys/fs/fuse/connections/"+file, flags, 0)
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

// fuseControl returns the folder of FUSE connections on a private mount without a path. In
// containers the folder is often not mounted.
func fuseControl() (fd int, err error) {
	context, err := unix.Fsopen("fusectl", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fusectl: %w", err)
	}
	defer unix.Close(context)
	if err := unix.FsconfigCreate(context); err != nil {
		return -1, fmt.Errorf("fusectl: %w", err)
	}
	fd, err = unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("fusectl: %w", err)
	}
	return fd, nil
}

func writeFile(path, value string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte(value)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

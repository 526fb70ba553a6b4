package fusemount

import (
	"sync"

	"golang.org/x/sys/unix"
)

// A Device is the connection of a mount to its server. Its methods are safe for concurrent
// use.
type Device struct {
	Dir string // mount point, absolute
	FD  int    // of /dev/fuse; the server closes it

	number  uint64 // of the device; 0: unknown
	mountID uint64
	passed  bool // another process mounted, and unmounts

	mu      sync.Mutex
	control int   // file that aborts the connection; -1: closed or missing; guarded by mu
	noAbort error // why control is missing
}

// IsPassed reports whether another process mounted. Such a mount cannot be unmounted here.
func (d *Device) IsPassed() bool { return d.passed }

// Number returns the number of the device; 0: unknown. The kernel reuses numbers.
func (d *Device) Number() uint64 { return d.number }

// numbers returns the device number and the mount ID of the mount at dir without a request
// to the server. From Linux 6.8 on, no mount ID is reused.
func numbers(dir string) (device, mountID uint64) {
	var st unix.Statx_t
	const flags = unix.AT_STATX_DONT_SYNC | unix.AT_NO_AUTOMOUNT | unix.AT_SYMLINK_NOFOLLOW
	if unix.Statx(unix.AT_FDCWD, dir, flags, unix.STATX_MNT_ID|unix.STATX_MNT_ID_UNIQUE, &st) != nil {
		return 0, 0
	}
	return unix.Mkdev(st.Dev_major, st.Dev_minor), st.Mnt_id
}

// IsMounted reports whether this mount, and no later one, is at Dir.
func (d *Device) IsMounted() bool {
	number, mountID := numbers(d.Dir)
	return d.number != 0 && !d.passed && number == d.number && mountID == d.mountID
}

// Unmount is Unmount of Dir.
func (d *Device) Unmount(lazy bool) error { return Unmount(d.Dir, lazy) }

// Abort ends the connection: waiting readers get ENOTCONN. After Close it does nothing.
func (d *Device) Abort() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.control < 0 {
		return d.noAbort
	}
	_, err := unix.Write(d.control, []byte("1"))
	return err
}

// Close releases the file of Abort. It does not unmount.
func (d *Device) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.control >= 0 {
		unix.Close(d.control)
	}
	d.control = -1
}

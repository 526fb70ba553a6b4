package fs

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// fsType is how the mount is called in /proc/mounts: fuse.xetfs.
const fsType = "xetfs"

// A device is where a file system is mounted, and as what.
type device struct {
	dir   string // absolute
	dev   uint64 // number of the device; 0: not known yet
	mount uint64 // number of the mount
}

// openDevice opens /dev/fuse, so that no child ever inherits it: it must go with this
// process, or readers would wait for ever when the process is killed. (go-fuse's own
// mounting without fusermount leaves it open for children.)
func openDevice() (int, error) {
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return -1, errors.New("/dev/fuse is missing: load the kernel module fuse (modprobe fuse)")
	case err != nil:
		return -1, fmt.Errorf("open /dev/fuse: %w", err)
	}
	return fd, nil
}

// mountDirect mounts a FUSE device, which takes the rights of root.
func mountDirect(fd int, dir string, o Options) error {
	data := []string{
		fmt.Sprintf("fd=%d", fd),
		fmt.Sprintf("rootmode=%o", unix.S_IFDIR),
		fmt.Sprintf("user_id=%d", unix.Geteuid()),
		fmt.Sprintf("group_id=%d", unix.Getegid()),
		fmt.Sprintf("max_read=%d", maxRead),
		"default_permissions",
	}
	if o.AllowOther {
		data = append(data, "allow_other")
	}
	const flags = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV
	err := unix.Mount(o.FSName, dir, "fuse."+fsType, flags, strings.Join(data, ","))
	switch {
	case errors.Is(err, unix.ENODEV):
		return errors.New("the kernel has no FUSE: load its module (modprobe fuse)")
	case err != nil:
		return fmt.Errorf("mount at %s: %w", dir, err)
	}
	return nil
}

// checkDir says in a sentence why nothing can be mounted at dir. A mount of a process
// that is dead is cleared away; stale says so.
func checkDir(dir string) (stale bool, err error) {
	if errors.Is(unix.Statfs(dir, new(unix.Statfs_t)), unix.ENOTCONN) { // stat may still have attributes
		if err := (&device{dir: dir}).unmount(true); err != nil {
			return false, fmt.Errorf("mount point %s: a dead mount is there and cannot be removed: %w", dir, err)
		}
		stale = true
	}
	var st unix.Stat_t
	err = unix.Stat(dir, &st)
	switch {
	case errors.Is(err, unix.ENOENT):
		return stale, fmt.Errorf("mount point %s does not exist", dir)
	case err != nil:
		return stale, fmt.Errorf("mount point %s: %w", dir, err)
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return stale, fmt.Errorf("mount point %s is not a directory", dir)
	}
	return stale, nil
}

// numbers finds out the numbers of what is mounted at dir, without asking its server.
// That of the mount is never used again, where the kernel is 6.8 or newer.
func numbers(dir string) (dev, mount uint64) {
	var st unix.Statx_t
	const how = unix.AT_STATX_DONT_SYNC | unix.AT_NO_AUTOMOUNT | unix.AT_SYMLINK_NOFOLLOW
	if unix.Statx(unix.AT_FDCWD, dir, how, unix.STATX_MNT_ID|unix.STATX_MNT_ID_UNIQUE, &st) != nil {
		return 0, 0
	}
	return unix.Mkdev(st.Dev_major, st.Dev_minor), st.Mnt_id
}

// mounted says whether the mount is still there, and not perhaps another one.
func (d *device) mounted() bool {
	dev, mount := numbers(d.dir)
	return d.dev != 0 && dev == d.dev && mount == d.mount
}

// unmount takes the mount away; lazily, that is at once for those who look for names,
// and for those who have files open when they close them. Otherwise EBUSY.
func (d *device) unmount(lazy bool) error {
	flags := unix.UMOUNT_NOFOLLOW
	if lazy {
		flags |= unix.MNT_DETACH
	}
	err := unix.Unmount(d.dir, flags)
	if err == nil || !errors.Is(err, unix.EPERM) {
		return err
	}
	if lazy {
		return fusermount("-u", "-z", d.dir)
	}
	return fusermount("-u", d.dir)
}

// fusermounts are the places where the helper of ordinary users is.
var fusermounts = []string{"/usr/bin/fusermount3", "/bin/fusermount3", "/usr/local/bin/fusermount3", "/usr/bin/fusermount", "/bin/fusermount"}

func findFusermount() (string, error) {
	for _, path := range fusermounts {
		if unix.Access(path, unix.X_OK) == nil {
			return path, nil
		}
	}
	return "", errors.New("fusermount3 is not installed (package fuse3), and only root mounts without it")
}

// mtab is the table of mounts that the helper reads.
const mtab = "/etc/mtab"

// fusermount runs the helper. It says EBUSY by its exit status alone.
func fusermount(args ...string) error {
	path, err := findFusermount()
	if err != nil {
		return err
	}
	pid, err := syscall.ForkExec(path, append([]string{path}, args...), &syscall.ProcAttr{})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var status unix.WaitStatus
	for {
		if _, err = unix.Wait4(pid, &status, 0, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if status.ExitStatus() != 0 {
		if unix.Access(mtab, unix.F_OK) != nil {
			return fmt.Errorf("%s needs %s, which is missing: ln -s /proc/self/mounts %s", path, mtab, mtab)
		}
		return fmt.Errorf("%s ended with status %d: %w", path, status.ExitStatus(), unix.EBUSY)
	}
	return nil
}

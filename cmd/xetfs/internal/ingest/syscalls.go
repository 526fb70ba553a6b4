package ingest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/statcache"
)

// A syscalls makes the system calls of an Ingest. It repeats calls that a signal interrupts.
type syscalls struct {
	fault func(call string) error // see Options.Fault
}

// do makes one call.
func (sc *syscalls) do(name string, call func() error) error {
	for {
		var err error
		if sc.fault != nil {
			err = sc.fault(name)
		}
		if err == nil {
			err = call()
		}
		if err != unix.EINTR { //nolint:errorlint // directly from the kernel
			return err
		}
	}
}

// A stat has the metadata of a file.
type stat struct {
	mode         uint32
	uid, gid     uint32
	size         int64
	mtime, ctime time.Time
	inode, dev   uint64
	mount        uint64 // id of the mount as in mountinfo; 0: unknown
}

// infoOf returns the part of st that identifies the state of a file.
func infoOf(st *stat) statcache.StatInfo {
	return statcache.StatInfo{Size: st.size, MTime: st.mtime.UnixNano(), CTime: st.ctime.UnixNano(), Inode: st.inode, Dev: st.dev}
}

func (s *stat) kind() uint32 { return s.mode & unix.S_IFMT }

// openAt opens a file below an open folder for reading.
func (sc *syscalls) openAt(dir int, name string, flags int) (fd int, err error) {
	err = sc.do("openat", func() error {
		fd, err = unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC|flags, 0)
		return err
	})
	return fd, err
}

// statAt is lstat below an open folder.
func (sc *syscalls) statAt(dir int, name string, st *stat) error {
	return sc.stat(dir, name, unix.AT_SYMLINK_NOFOLLOW, st)
}

// fstat is stat of an open file.
func (sc *syscalls) fstat(fd int, st *stat) error { return sc.stat(fd, "", unix.AT_EMPTY_PATH, st) }

func (sc *syscalls) stat(dir int, name string, flags int, st *stat) error {
	var x unix.Statx_t
	err := sc.do("statx", func() error {
		return unix.Statx(dir, name, flags|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &x)
	})
	if err == unix.ENOSYS || err == unix.EPERM { //nolint:errorlint // directly from the kernel
		return sc.oldStat(dir, name, flags, st)
	}
	if err != nil {
		return err
	}
	*st = stat{
		mode: uint32(x.Mode), uid: x.Uid, gid: x.Gid, size: int64(x.Size),
		mtime: time.Unix(x.Mtime.Sec, int64(x.Mtime.Nsec)), ctime: time.Unix(x.Ctime.Sec, int64(x.Ctime.Nsec)),
		inode: x.Ino, dev: unix.Mkdev(x.Dev_major, x.Dev_minor),
	}
	if x.Mask&unix.STATX_MNT_ID != 0 {
		st.mount = x.Mnt_id
	}
	return nil
}

// oldStat is stat for systems without statx.
func (sc *syscalls) oldStat(dir int, name string, flags int, st *stat) error {
	var s unix.Stat_t
	err := sc.do("fstatat", func() error { return unix.Fstatat(dir, name, &s, flags) })
	if err != nil {
		return err
	}
	*st = stat{
		mode: s.Mode, uid: s.Uid, gid: s.Gid, size: s.Size,
		mtime: time.Unix(s.Mtim.Unix()), ctime: time.Unix(s.Ctim.Unix()),
		inode: s.Ino, dev: uint64(s.Dev), //nolint:unconvert // an int32 on some machines
	}
	return nil
}

// mountAt returns the id of the mount of a file, or 0 if it is unknown. It sends no request to
// the server of a network or FUSE file system, because the server may be dead.
func (sc *syscalls) mountAt(dir int, name string) (uint64, error) {
	var x unix.Statx_t
	err := sc.do("statx", func() error {
		return unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &x)
	})
	switch {
	case err == unix.ENOSYS || err == unix.EPERM: //nolint:errorlint // directly from the kernel
		return 0, nil
	case err != nil || x.Mask&unix.STATX_MNT_ID == 0:
		return 0, err
	}
	return x.Mnt_id, nil
}

// getdents reads entries of an open folder.
func (sc *syscalls) getdents(fd int, buf []byte) (n int, err error) {
	err = sc.do("getdents64", func() error {
		n, err = unix.Getdents(fd, buf)
		return err
	})
	return n, err
}

func (sc *syscalls) read(fd int, buf []byte) (n int, err error) {
	err = sc.do("read", func() error {
		n, err = unix.Read(fd, buf)
		return err
	})
	return max(n, 0), err
}

// errNoLink means that another process has replaced a symbolic link since it was listed.
var errNoLink = fmt.Errorf("replaced by something else: %w", unix.ENOENT)

func (sc *syscalls) readlinkAt(dir int, name string, buf []byte) (n int, err error) {
	err = sc.do("readlinkat", func() error {
		n, err = unix.Readlinkat(dir, name, buf)
		return err
	})
	if errors.Is(err, unix.EINVAL) {
		err = errNoLink
	}
	return n, err
}

// accessAt reports whether a folder may be read and searched.
func (sc *syscalls) accessAt(dir int, name string) error {
	return sc.do("faccessat2", func() error {
		return unix.Faccessat(dir, name, unix.R_OK|unix.X_OK, unix.AT_EACCESS)
	})
}

func (sc *syscalls) statfs(fd int, st *unix.Statfs_t) error {
	return sc.do("fstatfs", func() error { return unix.Fstatfs(fd, st) })
}

func (sc *syscalls) statfsPath(path string, st *unix.Statfs_t) error {
	return sc.do("statfs", func() error { return unix.Statfs(path, st) })
}

func (sc *syscalls) listxattr(path string, buf []byte) (n int, err error) {
	err = sc.do("llistxattr", func() error {
		n, err = unix.Llistxattr(path, buf)
		return err
	})
	return n, err
}

func (sc *syscalls) getxattr(path, name string, buf []byte) (n int, err error) {
	err = sc.do("lgetxattr", func() error {
		n, err = unix.Lgetxattr(path, name, buf)
		return err
	})
	return n, err
}

// noWriteback has the errors of sync_file_range on file systems that do not support it.
var noWriteback = []error{unix.EINVAL, unix.ENOSYS, unix.ESPIPE, unix.EOPNOTSUPP, unix.EPERM, unix.EROFS}

// writeOut writes the dirty pages of a file to its disk and waits for them. The next change
// through a shared mapping then changes the modification time. It has no effect on file systems
// without such a writeback: tmpfs, NFS, FUSE.
func (sc *syscalls) writeOut(fd int) error {
	const all = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	err := sc.do("sync_file_range", func() error { return unix.SyncFileRange(fd, 0, 0, all) })
	if slices.Contains(noWriteback, err) {
		return nil
	}
	return err
}

package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/statcache"
)

// A fileCalls makes the system calls of a walk through a folder. Calls that a signal
// interrupts are repeated. The zero value calls the kernel.
type fileCalls struct {
	fault func(call string) error // of tests: an error in place of the call; nil: none
}

// do makes one call.
func (c *fileCalls) do(name string, call func() error) error {
	for {
		var err error
		if c.fault != nil {
			err = c.fault(name)
		}
		if err == nil {
			err = call()
		}
		if err != unix.EINTR { //nolint:errorlint // as it comes from the kernel
			return err
		}
	}
}

// A fileStat is what the walk needs to know of a file.
type fileStat struct {
	mode         uint32
	uid, gid     uint32
	size         int64
	mtime, ctime time.Time
	inode, dev   uint64
	mount        uint64 // id of the mount as in mountinfo; 0: unknown
}

// statInfo returns the part of st that identifies the state of a file.
func statInfo(st *fileStat) statcache.StatInfo {
	return statcache.StatInfo{Size: st.size, MTime: st.mtime.UnixNano(), CTime: st.ctime.UnixNano(), Inode: st.inode, Dev: st.dev}
}

func (s *fileStat) kind() uint32 { return s.mode & unix.S_IFMT }

// openAt opens a file below an open folder for reading.
func (c *fileCalls) openAt(dir int, name string, flags int) (fd int, err error) {
	err = c.do("openat", func() error {
		fd, err = unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC|flags, 0)
		return err
	})
	return fd, err
}

// statAt is lstat below an open folder.
func (c *fileCalls) statAt(dir int, name string, st *fileStat) error {
	return c.stat(dir, name, unix.AT_SYMLINK_NOFOLLOW, st)
}

// fstat is stat of an open file.
func (c *fileCalls) fstat(fd int, st *fileStat) error { return c.stat(fd, "", unix.AT_EMPTY_PATH, st) }

func (c *fileCalls) stat(dir int, name string, flags int, st *fileStat) error {
	var x unix.Statx_t
	err := c.do("statx", func() error {
		return unix.Statx(dir, name, flags|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &x)
	})
	if err == unix.ENOSYS || err == unix.EPERM { //nolint:errorlint // as it comes from the kernel
		return c.oldStat(dir, name, flags, st)
	}
	if err != nil {
		return err
	}
	*st = fileStat{
		mode: uint32(x.Mode), uid: x.Uid, gid: x.Gid, size: int64(x.Size),
		mtime: time.Unix(x.Mtime.Sec, int64(x.Mtime.Nsec)), ctime: time.Unix(x.Ctime.Sec, int64(x.Ctime.Nsec)),
		inode: x.Ino, dev: unix.Mkdev(x.Dev_major, x.Dev_minor),
	}
	if x.Mask&unix.STATX_MNT_ID != 0 {
		st.mount = x.Mnt_id
	}
	return nil
}

// oldStat is stat where statx is missing or forbidden.
func (c *fileCalls) oldStat(dir int, name string, flags int, st *fileStat) error {
	var s unix.Stat_t
	err := c.do("fstatat", func() error { return unix.Fstatat(dir, name, &s, flags) })
	if err != nil {
		return err
	}
	*st = fileStat{
		mode: s.Mode, uid: s.Uid, gid: s.Gid, size: s.Size,
		mtime: time.Unix(s.Mtim.Unix()), ctime: time.Unix(s.Ctim.Unix()),
		inode: s.Ino, dev: uint64(s.Dev), //nolint:unconvert // an int32 on some machines
	}
	return nil
}

// mountAt returns the id of the mount on which a file is; 0 if it is unknown. It sends no
// message to the server of a network or FUSE file system, which may not answer.
func (c *fileCalls) mountAt(dir int, name string) (uint64, error) {
	var x unix.Statx_t
	err := c.do("statx", func() error {
		return unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &x)
	})
	switch {
	case err == unix.ENOSYS || err == unix.EPERM: //nolint:errorlint // as it comes from the kernel
		return 0, nil
	case err != nil || x.Mask&unix.STATX_MNT_ID == 0:
		return 0, err
	}
	return x.Mnt_id, nil
}

// getdents reads entries of an open folder.
func (c *fileCalls) getdents(fd int, buf []byte) (n int, err error) {
	err = c.do("getdents64", func() error {
		n, err = unix.Getdents(fd, buf)
		return err
	})
	return n, err
}

func (c *fileCalls) read(fd int, buf []byte) (n int, err error) {
	err = c.do("read", func() error {
		n, err = unix.Read(fd, buf)
		return err
	})
	return max(n, 0), err
}

// errNoLink means that another process has replaced a symbolic link since it was listed.
var errNoLink = fmt.Errorf("replaced by something else: %w", unix.ENOENT)

func (c *fileCalls) readlinkAt(dir int, name string, buf []byte) (n int, err error) {
	err = c.do("readlinkat", func() error {
		n, err = unix.Readlinkat(dir, name, buf)
		return err
	})
	if errors.Is(err, unix.EINVAL) {
		err = errNoLink
	}
	return n, err
}

// accessAt reports whether a folder may be read and searched.
func (c *fileCalls) accessAt(dir int, name string) error {
	return c.do("faccessat2", func() error {
		return unix.Faccessat(dir, name, unix.R_OK|unix.X_OK, unix.AT_EACCESS)
	})
}

func (c *fileCalls) statfs(fd int, st *unix.Statfs_t) error {
	return c.do("fstatfs", func() error { return unix.Fstatfs(fd, st) })
}

func (c *fileCalls) statfsPath(path string, st *unix.Statfs_t) error {
	return c.do("statfs", func() error { return unix.Statfs(path, st) })
}

func (c *fileCalls) listxattr(path string, buf []byte) (n int, err error) {
	err = c.do("llistxattr", func() error {
		n, err = unix.Llistxattr(path, buf)
		return err
	})
	return n, err
}

func (c *fileCalls) getxattr(path, name string, buf []byte) (n int, err error) {
	err = c.do("lgetxattr", func() error {
		n, err = unix.Lgetxattr(path, name, buf)
		return err
	})
	return n, err
}

// noWriteback are the errors of sync_file_range where it is not possible.
var noWriteback = []error{unix.EINVAL, unix.ENOSYS, unix.ESPIPE, unix.EOPNOTSUPP, unix.EPERM, unix.EROFS}

// writeOut writes the dirty pages of a file to its disk and waits for them. Only then does the
// kernel move the modification time with the next change through a shared mapping. It does not
// where a file system has no writeback that xetfs can start: tmpfs, NFS, FUSE.
func (c *fileCalls) writeOut(fd int) error {
	const all = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	err := c.do("sync_file_range", func() error { return unix.SyncFileRange(fd, 0, 0, all) })
	if slices.Contains(noWriteback, err) {
		return nil // it is not possible there
	}
	return err
}

package extract

import (
	"errors"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/page"
)

// A folder is an open folder of the target. The last of its users sets mode and time, because
// every new name in it changes the time.
type folder struct {
	run   *run
	dir   *os.File
	up    *folder // nil: the target itself
	entry page.Entry
	set   bool // mode and time of entry are to be set
	users atomic.Int32
}

// openTop opens the target. The caller may reach it through a link.
func openTop(path string) (*folder, error) {
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	f := &folder{dir: dir}
	f.users.Store(1)
	return f, nil
}

// setEntry makes the last release set mode and time of e.
func (f *folder) setEntry(e page.Entry) { f.entry, f.set = e, true }

// hold adds a user.
func (f *folder) hold() *folder {
	f.users.Add(1)
	return f
}

// release removes a user.
func (f *folder) release() {
	if f.users.Add(-1) > 0 {
		return
	}
	if f.set {
		if err := f.finish(); err != nil {
			f.run.stop(f.run.named(f.entry.Path, err))
		}
	}
	_ = f.dir.Close() // it was only read
	if f.up != nil {
		f.up.release()
	}
}

// errNoFolder reports a file or link where a folder should be. Links are not followed, because
// they may lead out of the target.
var errNoFolder = errors.New("is no folder in the target; move it away and run the command again")

// open opens a folder in f, and makes an absent one. The result has one user, and f one more.
func (f *folder) open(e page.Entry) (*folder, error) {
	name := baseName(e.Path)
	err := retry(func() error { return unix.Mkdirat(f.fd(), name, 0o700) })
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, err
	}
	fd := -1
	err = retry(func() error {
		fd, err = unix.Openat(f.fd(), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	switch {
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return nil, errNoFolder
	case err != nil:
		return nil, err
	}
	sub := &folder{run: f.run, dir: os.NewFile(uintptr(fd), e.Path), up: f.hold(), entry: e, set: true}
	sub.users.Store(1)
	sub.makeWritable()
	return sub, nil
}

// makeWritable gives the owner all rights until finish. An earlier run may have set the mode of a
// folder that its owner cannot write to. Other errors follow at the first file.
func (f *folder) makeWritable() {
	var st unix.Stat_t
	if unix.Fstat(f.fd(), &st) == nil && st.Mode&0o700 != 0o700 {
		_ = unix.Fchmod(f.fd(), st.Mode&0o7777|0o700)
	}
}

// finish sets owner, attributes, mode and time.
func (f *folder) finish() error {
	if err := f.run.setMetadata(f.fd(), &f.entry); err != nil {
		return err
	}
	return retry(func() error { return setTime(f.fd(), ".", f.entry.ModTime) })
}

func (f *folder) fd() int { return int(f.dir.Fd()) }

// link makes a symbolic link as the tree has it. Its target may be anything.
func (f *folder) link(e page.Entry) error {
	name, part := baseName(e.Path), partName(e.Path)
	if f.hasLink(name, e.Target) {
		return retry(func() error { return setTime(f.fd(), name, e.ModTime) })
	}
	err := retry(func() error { return unix.Unlinkat(f.fd(), part, 0) })
	if err == nil || errors.Is(err, unix.ENOENT) {
		err = retry(func() error { return unix.Symlinkat(e.Target, f.fd(), part) })
	}
	if err == nil && f.run.Owners && e.Owner != nil {
		err = retry(func() error {
			return unix.Fchownat(f.fd(), part, int(e.Owner.UID), int(e.Owner.GID), unix.AT_SYMLINK_NOFOLLOW)
		})
	}
	if err == nil {
		err = retry(func() error { return setTime(f.fd(), part, e.ModTime) })
	}
	if err == nil {
		err = f.rename(part, name)
	}
	if err != nil {
		_ = unix.Unlinkat(f.fd(), part, 0) // err is the cause
	}
	return err
}

// hasLink reports whether a name is a symbolic link to target.
func (f *folder) hasLink(name, target string) bool {
	buf := make([]byte, len(target)+1)
	n, err := unix.Readlinkat(f.fd(), name, buf)
	return err == nil && string(buf[:n]) == target
}

// errIsFolder reports a folder where a file or link should be.
var errIsFolder = errors.New("is a folder in the target; move it away and run the command again")

// rename gives a complete file its name. It replaces a file or link of that name.
func (f *folder) rename(part, name string) error {
	err := retry(func() error { return unix.Renameat(f.fd(), part, f.fd(), name) })
	if errors.Is(err, unix.EISDIR) {
		return errIsFolder
	}
	return err
}

// setTime sets the modification time of a name in a folder. An unknown time is the epoch, as on
// a mount.
func setTime(dir int, name string, t time.Time) error {
	at := unix.Timespec{}
	if !t.IsZero() {
		at = unix.Timespec{Sec: t.Unix(), Nsec: int64(t.Nanosecond())}
	}
	return unix.UtimesNanoAt(dir, name, []unix.Timespec{{Nsec: unix.UTIME_OMIT}, at}, unix.AT_SYMLINK_NOFOLLOW)
}

// retry repeats a system call that a signal interrupts.
func retry(call func() error) error {
	for {
		if err := call(); err != unix.EINTR { //nolint:errorlint // directly from the kernel
			return err
		}
	}
}

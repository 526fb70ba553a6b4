package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/nowait"
)

var (
	ErrForeign = errors.New("not a plain file of this user")
	ErrLocked  = errors.New("in use by another process")
	ErrRefused = errors.New("folder is not used as disk cache")
)

// osFiles is an open folder. Its files are found by their names in the folder, also after the
// folder was renamed. Links are never followed.
type osFiles struct {
	dir  *os.File
	path string
	held *os.File // LOCK while this process holds it
}

// OpenDir opens the folder of a store. With write, it creates the folder if needed.
func OpenDir(path string, write bool) (Dir, error) {
	if write {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, err
		}
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := checkDir(dir); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return &osFiles{dir: dir, path: path}, nil
}

// checkDir refuses a folder that other users can write to.
func checkDir(dir *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return fmt.Errorf("%w: it is not a folder", ErrRefused)
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%w: it belongs to user %d", ErrRefused, st.Uid)
	case st.Mode&0o022 != 0:
		return fmt.Errorf("%w: others may write to it (mode %04o)", ErrRefused, st.Mode&0o7777)
	}
	return nil
}

func (d *osFiles) Create(name string) (File, error) {
	return d.openAt(name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
}

func (d *osFiles) Open(name string, write bool) (File, error) {
	if write {
		return d.openAt(name, unix.O_RDWR)
	}
	return d.openAt(name, unix.O_RDONLY)
}

// openAt opens a regular file. It neither waits for the other end of a pipe nor follows a link.
func (d *osFiles) openAt(name string, flags int) (File, error) {
	const always = unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY
	var fd int
	err := retry(func() (err error) {
		fd, err = unix.Openat(int(d.dir.Fd()), name, flags|always, 0o600)
		return err
	})
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) {
		err = ErrForeign
	}
	if err != nil {
		return nil, d.fail("open", name, err)
	}
	if err := checkFile(fd); err != nil {
		return nil, d.fail("open", name, errors.Join(err, unix.Close(fd)))
	}
	return newOSFile(os.NewFile(uintptr(fd), filepath.Join(d.path, name)))
}

func checkFile(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid() {
		return ErrForeign
	}
	return unix.SetNonblock(fd, false)
}

func (d *osFiles) Rename(from, to string) error {
	fd := int(d.dir.Fd())
	return d.fail("rename", from, retry(func() error { return unix.Renameat(fd, from, fd, to) }))
}

func (d *osFiles) Remove(name string) error {
	err := retry(func() error { return unix.Unlinkat(int(d.dir.Fd()), name, 0) })
	if errors.Is(err, unix.EISDIR) {
		err = unix.Unlinkat(int(d.dir.Fd()), name, unix.AT_REMOVEDIR)
	}
	return d.fail("remove", name, err)
}

func (d *osFiles) Mkdir(name string) error {
	err := retry(func() error { return unix.Mkdirat(int(d.dir.Fd()), name, 0o700) })
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return d.fail("mkdir", name, err)
}

// sub opens a subfolder.
func (d *osFiles) sub(name string) (*os.File, error) {
	if name == "" {
		name = "."
	}
	var fd int
	err := retry(func() (err error) {
		fd, err = unix.Openat(int(d.dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
		return err
	})
	if err != nil {
		return nil, d.fail("open", name, err)
	}
	return os.NewFile(uintptr(fd), filepath.Join(d.path, name)), nil
}

func (d *osFiles) List(dir string) ([]FileInfo, error) {
	f, err := d.sub(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	entries := make([]FileInfo, 0, len(names))
	known := 0
	for _, name := range names {
		var st unix.Stat_t
		err := retry(func() error { return unix.Fstatat(int(f.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) })
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			entries = append(entries, FileInfo{Name: name, Err: d.fail("stat", filepath.Join(dir, name), err)})
		default:
			entries = append(entries, entryOf(name, &st))
			known++
		}
	}
	if known == 0 && len(entries) > 0 && errors.Is(entries[0].Err, fs.ErrPermission) {
		return nil, entries[0].Err // the folder may not be searched; its files may be intact
	}
	return entries, nil
}

func (d *osFiles) Stat(name string) (FileInfo, error) {
	var st unix.Stat_t
	err := retry(func() error { return unix.Fstatat(int(d.dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	return entryOf(filepath.Base(name), &st), d.fail("stat", name, err)
}

func entryOf(name string, st *unix.Stat_t) FileInfo {
	return FileInfo{
		Name:     name,
		Size:     st.Size,
		MTime:    st.Mtim.Nano(),
		CTime:    st.Ctim.Nano(),
		Regular:  st.Mode&unix.S_IFMT == unix.S_IFREG,
		Unlinked: st.Nlink == 0,
	}
}

func (d *osFiles) SyncDir(dir string) error {
	f, err := d.sub(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (d *osFiles) Space() (free, total int64, err error) {
	var st unix.Statfs_t
	if err := retry(func() error { return unix.Fstatfs(int(d.dir.Fd()), &st) }); err != nil {
		return 0, 0, d.fail("statfs", "", err)
	}
	unit := int64(st.Frsize)
	return int64(st.Bavail) * unit, int64(st.Blocks) * unit, nil
}

const LockName = "LOCK"

func (d *osFiles) Lock() error {
	f, err := d.openAt(LockName, unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		return err
	}
	held := f.OSFile()
	err = retry(func() error { return unix.Flock(int(held.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	if err != nil {
		return errors.Join(d.fail("lock", LockName, err), held.Close())
	}
	d.held = held
	return d.dir.Chmod(0o700) // other users lose their permission to read
}

const ProbeName = "probe.tmp"

// Probe opens the folder by its name, which may be another folder now. Probe does not create it:
// a missing folder may mean that a disk is not mounted.
func (d *osFiles) Probe() error {
	if _, err := os.Stat(d.path); err != nil {
		return err
	}
	again, err := OpenDir(d.path, true)
	if err != nil {
		return err
	}
	err = WriteFile(again, ProbeName, []byte("xetfs probes this disk\n"))
	return errors.Join(err, again.Remove(ProbeName), again.Close())
}

// WriteFile replaces a file. The file is durable after a sync of its folder.
func WriteFile(d Dir, name string, b []byte) error {
	if err := d.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := d.Create(name)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	if err == nil {
		err = f.Sync()
	}
	got := make([]byte, len(b))
	if err == nil {
		_, err = f.ReadAt(got, 0)
	}
	if err == nil && string(got) != string(b) {
		err = fmt.Errorf("%s: read returns other bytes than written", name)
	}
	return errors.Join(err, f.Close())
}

// Close closes the folder and releases the lock.
func (d *osFiles) Close() error {
	err := d.dir.Close()
	if d.held != nil {
		// A child that was just forked shares the open file until it executes its program.
		_ = unix.Flock(int(d.held.Fd()), unix.LOCK_UN) // otherwise the last close of the file unlocks it
		err = errors.Join(err, d.held.Close())
	}
	return err
}

// fail adds operation and file name to an error.
func (d *osFiles) fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, unix.EBADF) {
		err = os.ErrClosed // closed by Close
	}
	return &fs.PathError{Op: op, Path: strings.TrimSuffix(filepath.Join(d.path, name), "/"), Err: err}
}

// retry repeats a system call that a signal interrupted.
func retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// An osFile is an ordinary file.
type osFile struct {
	*os.File
	raw syscall.RawConn
}

func newOSFile(f *os.File) (File, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &osFile{f, raw}, nil
}

// A tryReadCall holds the arguments of one TryRead. A pool reuses them, because they escape to
// the heap.
type tryReadCall struct {
	p   []byte
	off int64
	n   int
	do  func(fd uintptr)
}

var tryReadCalls = sync.Pool{New: func() any {
	r := new(tryReadCall)
	r.do = r.read
	return r
}}

// TryRead reads the page cache. It returns 0 on file systems without RWF_NOWAIT.
func (f *osFile) TryRead(p []byte, off int64) int {
	r := tryReadCalls.Get().(*tryReadCall)
	r.p, r.off, r.n = p, off, 0
	if err := f.raw.Control(r.do); err != nil {
		r.n = 0
	}
	n := r.n
	r.p = nil
	tryReadCalls.Put(r)
	return n
}

func (r *tryReadCall) read(fd uintptr) { r.n = nowait.ReadAt(int(fd), r.p, r.off) }

func (f *osFile) OSFile() *os.File { return f.File }

func (f *osFile) Stat() (FileInfo, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return FileInfo{}, err
	}
	return entryOf(filepath.Base(f.Name()), &st), nil
}

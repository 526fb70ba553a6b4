package extract

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/reconstruct"
)

// partPrefix begins the names of partial files.
const partPrefix = ".xetfs-get-"

// partName returns the name of the partial file of an entry. It depends only on the name, so a
// later run finds and replaces it.
func partName(path string) string {
	sum := sha256.Sum256([]byte(baseName(path)))
	return partPrefix + hex.EncodeToString(sum[:12])
}

// write writes a file and its metadata, unless the target has the file.
func (r *run) write(ctx context.Context, j job, read func(n int64)) error {
	name := baseName(j.e.Path)
	if j.in.hasFile(name, &j.e) && r.correct(j.in, name, &j.e) {
		r.count(func(c *Result) { c.Already++ })
		return nil
	}
	p, err := j.in.createPart(partName(j.e.Path))
	if err != nil {
		return err
	}
	defer p.close()
	if err := r.writeContent(ctx, p.file, &j.e, read); err != nil {
		return err
	}
	if err := r.setMetadata(int(p.file.Fd()), &j.e); err != nil {
		return err
	}
	if err := retry(func() error { return setTime(j.in.fd(), p.name, j.e.ModTime) }); err != nil {
		return err
	}
	if err := p.flush(); err != nil {
		return err
	}
	if err := j.in.rename(p.name, name); err != nil {
		return err
	}
	p.complete = true
	r.count(func(c *Result) { c.Written += j.e.Size })
	return nil
}

// hasFile reports whether the target has a file with the size and time of e, from an earlier run.
func (f *folder) hasFile(name string, e *page.Entry) bool {
	var st unix.Stat_t
	if unix.Fstatat(f.fd(), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	sec, nsec := int64(0), int64(0)
	if !e.ModTime.IsZero() {
		sec, nsec = e.ModTime.Unix(), int64(e.ModTime.Nanosecond())
	}
	return st.Size == e.Size && st.Mtim.Sec == sec && st.Mtim.Nsec == nsec
}

// correct sets the metadata of a file that the target has, and reports whether it could.
func (r *run) correct(in *folder, name string, e *page.Entry) bool {
	fd := -1
	err := retry(func() (err error) {
		fd, err = unix.Openat(in.fd(), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		return err
	})
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return r.setMetadata(fd, e) == nil
}

// writeContent writes the bytes of a file. They are compared with its hash.
func (r *run) writeContent(ctx context.Context, w *os.File, e *page.Entry, read func(n int64)) error {
	if e.Size == 0 || len(e.Inline) > 0 {
		if int64(len(e.Inline)) != e.Size {
			return wrongSize(e, int64(len(e.Inline)))
		}
		_, err := w.Write(e.Inline)
		return err
	}
	f, err := r.Reader.OpenSize(ctx, e.ID, e.Size)
	if err != nil {
		return err
	}
	if f.Size() != e.Size {
		return wrongSize(e, f.Size())
	}
	want := catalog.ExpectedSHA256(r.Tree, e)
	if r.isAnnounced(e) {
		if b, err := readAnnounced(ctx, f, want); err == nil {
			_, err = countingWriter{w, read}.Write(b)
			return err
		}
	}
	_, err = io.Copy(countingWriter{w, read}, f.VerifyReader(ctx, want))
	return err
}

// isAnnounced reports whether the whole content of a file is fetched before a worker opens it.
func (r *run) isAnnounced(e *page.Entry) bool {
	return !r.Reader.Local() && 0 < e.Size && e.Size <= reconstruct.AnnouncedBytes && len(e.Inline) == 0
}

// readAnnounced reads a small file whose chunks are in memory, which a VerifyReader bypasses. want
// is its SHA-256, if that is known. After an error the VerifyReader decides, which fetches again.
func readAnnounced(ctx context.Context, f *reconstruct.File, want *[32]byte) ([]byte, error) {
	b := make([]byte, f.Size())
	if n, err := f.ReadAt(ctx, b, 0); n < len(b) {
		return nil, cmp.Or(err, io.ErrUnexpectedEOF)
	}
	if want != nil && sha256.Sum256(b) != *want {
		return nil, reconstruct.WrongSHA256(f.ID(), sha256.Sum256(b), *want)
	}
	return b, nil
}

func wrongSize(e *page.Entry, size int64) error {
	return codec.Corrupt("terms", 0, "hold %d bytes, the catalog says %d", size, e.Size)
}

// A countingWriter reports how many bytes were written.
type countingWriter struct {
	w     io.Writer
	count func(n int64)
}

// Write implements io.Writer.
func (w countingWriter) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	w.count(int64(n))
	return n, err
}

// privileges are the bits that give a program the rights of its owner or group. They are set
// only with the recorded owner. The bits would otherwise give away the rights of the user.
const privileges = unix.S_ISUID | unix.S_ISGID

// mode returns the permission bits that a copy of e gets.
func (r *run) mode(e *page.Entry) uint32 {
	mode := e.Mode & 0o7777
	if e.Type == page.File && !(r.Owners && e.Owner != nil) {
		mode &^= privileges
	}
	return mode
}

// setMetadata sets owner, extended attributes and mode of an open file or folder.
func (r *run) setMetadata(fd int, e *page.Entry) error {
	if r.Owners && e.Owner != nil {
		if err := retry(func() error { return unix.Fchown(fd, int(e.Owner.UID), int(e.Owner.GID)) }); err != nil {
			return err
		}
	}
	if !setXattrs(fd, e.Xattrs) {
		r.count(func(c *Result) { c.Attributes++ })
	}
	mode := r.mode(e)
	if mode != e.Mode&0o7777 {
		r.count(func(c *Result) { c.Bits++ })
	}
	return retry(func() error { return unix.Fchmod(fd, mode) })
}

// setXattrs sets the attributes of users, and reports whether it could. Many file systems have
// no such attributes.
func setXattrs(fd int, all map[string]string) bool {
	ok := true
	for name, value := range all {
		if strings.HasPrefix(name, "user.") {
			ok = retry(func() error { return unix.Fsetxattr(fd, name, []byte(value), 0) }) == nil && ok
		}
	}
	return ok
}

// A part is a partial file. It is locked, so two runs cannot write to one file.
type part struct {
	in       *folder
	file     *os.File
	name     string
	complete bool // it has its final name
}

// errBusy reports another run that writes the same file.
var errBusy = errors.New("another xetfs get writes this file; wait for its end")

// partTries limits how often a partial file is opened that other runs rename or remove.
const partTries = 8

// createPart opens an empty partial file. It replaces one of an earlier run.
func (f *folder) createPart(name string) (*part, error) {
	for range partTries {
		fd := -1
		err := retry(func() (err error) {
			fd, err = unix.Openat(f.fd(), name, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o600)
			return err
		})
		if err == nil {
			p := &part{in: f, file: os.NewFile(uintptr(fd), name), name: name}
			if err = p.lock(); err == nil {
				return p, nil
			}
			p.file.Close()
		}
		switch {
		case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENXIO), errors.Is(err, unix.EACCES):
			if unix.Unlinkat(f.fd(), name, 0) != nil { // not a file of a run
				return nil, err
			}
		case !errors.Is(err, errReplaced):
			return nil, err
		}
	}
	return nil, errBusy
}

// errReplaced means that a name leads to another file than before.
var errReplaced = errors.New("replaced")

// lock locks the file, checks that it still has its name, and makes it empty. Some network file
// systems have no locks.
func (p *part) lock() error {
	fd := int(p.file.Fd())
	err := retry(func() error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errBusy
	}
	var is, named unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return err
	}
	if unix.Fstatat(p.in.fd(), p.name, &named, unix.AT_SYMLINK_NOFOLLOW) != nil || is.Ino != named.Ino || is.Dev != named.Dev {
		return errReplaced
	}
	if is.Mode&unix.S_IFMT != unix.S_IFREG || is.Nlink != 1 {
		return fmt.Errorf("%s: %w", p.name, errNoPart)
	}
	return retry(func() error { return unix.Ftruncate(fd, 0) })
}

var errNoPart = errors.New("is no partial file of xetfs get; move it away and run the command again")

// flush reports errors that a network file system would report at close. The lock must last until
// the file has its name, so a copy of the descriptor is closed.
func (p *part) flush() error {
	fd, err := unix.FcntlInt(p.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// close closes the file. It removes an incomplete file before the lock ends.
func (p *part) close() {
	if !p.complete {
		_ = unix.Unlinkat(p.in.fd(), p.name, 0) // a later run replaces it
	}
	_ = p.file.Close() // flush has reported errors of complete files
}

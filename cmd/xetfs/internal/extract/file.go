package extract

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/reconstruct"
)

// write writes a file and its metadata, unless the target has the file.
func (r *run) write(ctx context.Context, j job, read func(n int64)) error {
	name := baseName(j.e.Path)
	if j.in.hasFile(name, &j.e) && r.correct(j.in, name, &j.e) {
		r.count(func(c *Result) { c.Already++ })
		return nil
	}
	p, err := j.in.openPart(partName(j.e.Path))
	if err != nil {
		return err
	}
	defer p.close()
	if err := r.writeContent(ctx, p, &j.e, read); err != nil {
		p.keep = j.e.Size >= leastLarge && isInterruption(cmp.Or(context.Cause(ctx), err))
		return err
	}
	if err := r.setMetadata(int(p.file.Fd()), &j.e); err != nil {
		return err
	}
	if err := retry(func() error { return setTime(j.in.fd(), p.name, j.e.ModTime) }); err != nil {
		return err
	}
	if j.e.Size >= leastLarge {
		if err := p.sync(); err != nil {
			return err
		}
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

// correct sets the metadata of a file that the target has, and reports whether it could. A file with
// other bytes than its entry holds is not correct.
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
	return hasInline(fd, e.Inline) && r.setMetadata(fd, e) == nil
}

// hasInline reports whether a file has the content of its entry. Larger content is not in the entry.
func hasInline(fd int, content []byte) bool {
	if len(content) == 0 {
		return true
	}
	b := make([]byte, len(content))
	n, _ := unix.Pread(fd, b, 0) // the file is written again after an error
	return bytes.Equal(b[:max(n, 0)], content)
}

// isInterruption reports whether a later run can use the bytes that were written before err.
func isInterruption(err error) bool {
	var local *origin.LocalError
	if errors.As(err, &local) {
		err = local.Err
	}
	noRoom := errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
	return !noRoom && !errors.Is(err, codec.ErrCorrupt) && !errors.Is(err, origin.ErrNotFound)
}

// writeContent writes the bytes of a file. They are compared with its hash.
func (r *run) writeContent(ctx context.Context, p *part, e *page.Entry, read func(n int64)) error {
	w := countingWriter{p.file, read}
	if e.Size == 0 || len(e.Inline) > 0 {
		if int64(len(e.Inline)) != e.Size {
			return reconstruct.WrongSize(int64(len(e.Inline)), e.Size)
		}
		return cmp.Or(p.truncate(), writeAll(w, e.Inline))
	}
	f, err := r.Reader.OpenSize(ctx, e.ID, e.Size)
	if err != nil {
		return err
	}
	if f.Size() != e.Size {
		return reconstruct.WrongSize(f.Size(), e.Size)
	}
	want := catalog.ExpectedSHA256(r.Tree, e)
	if e.Size >= leastLarge && want != nil {
		if done, err := p.resume(ctx, f, *want, w); done || err != nil {
			return err
		}
	}
	if err := p.truncate(); err != nil {
		return err
	}
	if r.isAnnounced(e) {
		if b, err := readAnnounced(ctx, f, want); err == nil {
			return writeAll(w, b)
		}
	}
	if r.Reader.Proves() && e.SHA256 != nil {
		want = nil // a VerifyReader compares the file hash, and no name of the copy claims the SHA-256
	}
	_, err = io.Copy(w, f.VerifyReader(ctx, want))
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

// A countingWriter reports how many bytes were written.
type countingWriter struct {
	w     io.Writer
	count func(n int64)
}

func writeAll(w io.Writer, b []byte) error {
	_, err := w.Write(b)
	return err
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

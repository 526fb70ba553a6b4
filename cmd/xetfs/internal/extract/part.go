package extract

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

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

// A part is a partial file. It is locked, so two runs cannot write to one file.
type part struct {
	in       *folder
	file     *os.File
	name     string
	complete bool // it has its final name
	keep     bool // a later run continues it
}

// errBusy reports another run that writes the same file.
var errBusy = errors.New("another xetfs get writes this file; wait for its end")

// partTries limits how often a partial file is opened that other runs rename or remove.
const partTries = 8

// openPart opens a partial file, which may have bytes of an earlier run.
func (f *folder) openPart(name string) (*part, error) {
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
			switch unix.Unlinkat(f.fd(), name, 0) { //nolint:errorlint // directly from the kernel
			case nil: // not a file of a run
			case unix.EISDIR:
				return nil, fmt.Errorf("%s: %w", name, errNoPart)
			default:
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

// lock locks the file and checks that it still has its name. Some network file systems have no
// locks.
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
	return nil
}

var errNoPart = errors.New("is no partial file of xetfs get; move it away and run the command again")

// truncate makes the file empty, for a writer of all its bytes. An empty file is left alone: after a
// truncation, the close of a file on ext4 waits for its blocks.
func (p *part) truncate() error {
	info, err := p.file.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return p.file.Truncate(0)
}

// resumeBytes is the size of one read of a file that is continued.
const resumeBytes = 4 << 20

// resume continues a file after the bytes of an earlier run. Nothing proves these bytes alone, so
// the SHA-256 of the whole content is compared with want. It returns false if there are no bytes
// or the content differs: the caller writes the file from its start.
func (p *part) resume(ctx context.Context, f *reconstruct.File, want [32]byte, w countingWriter) (done bool, err error) {
	info, err := p.file.Stat()
	if err != nil {
		return false, err
	}
	size := f.Size()
	have := min(info.Size(), size)
	if have == 0 {
		return false, nil
	}
	if err := p.file.Truncate(have); err != nil {
		return false, err
	}
	h := f.Handle()
	defer h.Close()
	old := func(_ context.Context, b []byte, off int64) (int, error) { return p.file.ReadAt(b, off) }
	sum, buf := sha256.New(), make([]byte, resumeBytes)
	kept, rest := io.NewSectionReader(readerAt{ctx, old}, 0, have), io.NewSectionReader(readerAt{ctx, h.ReadAt}, have, size-have)
	if _, err := io.CopyBuffer(io.MultiWriter(sum, countingWriter{io.Discard, w.count}), kept, buf); err != nil {
		return false, err
	}
	if _, err := p.file.Seek(have, io.SeekStart); err != nil {
		return false, err
	}
	if _, err := io.CopyBuffer(io.MultiWriter(sum, w), rest, buf); err != nil {
		return false, err
	}
	if [32]byte(sum.Sum(nil)) == want {
		return true, nil
	}
	w.count(-size)
	return false, nil
}

// A readerAt passes a context to each read.
type readerAt struct {
	ctx  context.Context // of the reads; io.ReaderAt has no parameter for it
	read func(ctx context.Context, p []byte, off int64) (int, error)
}

// ReadAt implements io.ReaderAt.
func (r readerAt) ReadAt(p []byte, off int64) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.read(r.ctx, p, off)
}

// sync makes the bytes of a large file durable before it gets its name, because a later run trusts its
// size and time. For small files a sync costs more than all else; Run syncs them at its end.
func (p *part) sync() error {
	return retry(func() error { return unix.Fdatasync(int(p.file.Fd())) })
}

// flush reports errors that a network file system would report at close. The lock must last until
// the file has its name, so a copy of the descriptor is closed.
func (p *part) flush() error {
	fd, err := unix.FcntlInt(p.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// close closes the file. It removes an incomplete file that is not kept, before the lock ends.
func (p *part) close() {
	if !p.complete && !p.keep {
		_ = unix.Unlinkat(p.in.fd(), p.name, 0) // a later run replaces it
	}
	_ = p.file.Close() // flush has reported errors of complete files
}

package ingest

import (
	"context"
	"errors"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// errChanged reports that a file changed between the start and the end of a read.
var errChanged = errors.New("it changed while it was read")

// A readError is an error of the file that is packed, not of the store.
type readError struct{ error }

func (e *readError) Unwrap() error { return e.error }

// maxReads is the number of attempts to read a changing file.
const maxReads = 3

// A stableReader reads a regular file. At the end it returns errChanged instead of io.EOF if
// the file has changed. All its errors are readErrors.
type stableReader struct {
	files  *descriptors
	fd     int
	before stat
	done   int64
	bar    *ui.Progress

	writeOut bool // write dirty pages first
}

// timeGranularity is the resolution of file times: two changes within it have one time.
const timeGranularity = 20 * time.Millisecond

// openStable opens a file in an open folder.
func openStable(ctx context.Context, files *descriptors, e *Entry, o *Options) (*stableReader, error) {
	fd, err := files.openFile(ctx, e.in.fd, e.name(), otherFiles)
	if err != nil {
		return nil, &readError{err}
	}
	s := &stableReader{files: files, fd: fd, bar: o.Progress, writeOut: o.Update != nil}
	if err := s.begin(e.in); err != nil {
		s.close()
		return nil, &readError{err}
	}
	return s, nil
}

func (s *stableReader) close() { s.files.closeFile(s.fd) }

// begin checks the file before it is read.
func (s *stableReader) begin(in *openFolder) error {
	if err := s.files.fstat(s.fd, &s.before); err != nil {
		return err
	}
	if s.before.kind() != unix.S_IFREG {
		return errors.New("not a regular file any more")
	}
	if err := s.files.mounts.checkMount(in.mount, s.before.mount); err != nil {
		return err
	}
	if s.before.dev != in.dev {
		err := s.files.mounts.checkDevice(s.before.dev, func(fs *unix.Statfs_t) error { return s.files.statfs(s.fd, fs) })
		if err != nil {
			return err
		}
	}
	return s.settleTimes(time.Now())
}

// settleTimes ensures that the times of the file show each later change.
func (s *stableReader) settleTimes(now time.Time) error {
	switch {
	case racy(&s.before, now):
		time.Sleep(timeGranularity - now.Sub(s.before.mtime))
	case s.writeOut && !infoOf(&s.before).Racy(now.UnixNano()):
		if err := s.files.syscalls.writeOut(s.fd); err != nil {
			return err
		}
	default:
		return nil
	}
	return s.files.fstat(s.fd, &s.before)
}

// Read implements io.Reader.
func (s *stableReader) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := s.files.read(s.fd, b)
	s.done += int64(n)
	s.bar.Add(int64(n))
	switch {
	case err != nil:
		return n, &readError{err}
	case n == 0:
		return 0, s.end()
	case s.done > s.before.size:
		return n, &readError{errChanged} // it may grow forever
	}
	return n, nil
}

// end compares the file with its state before.
func (s *stableReader) end() error {
	var after stat
	if err := s.files.fstat(s.fd, &after); err != nil {
		return &readError{err}
	}
	if s.done != s.before.size || infoOf(&after) != infoOf(&s.before) {
		return &readError{errChanged}
	}
	return io.EOF
}

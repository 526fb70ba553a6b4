package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"golang.org/x/sys/unix"
)

// errChanged says that a file was not the same before and after it was read.
var errChanged = errors.New("it changed while it was read")

// A readError is an error of the file that is packed, not of the store.
type readError struct{ error }

func (e *readError) Unwrap() error { return e.error }

// maxReads is how often a file is read that changes meanwhile.
const maxReads = 3

// A steady reads a regular file and ends with an error instead of io.EOF if the file is
// not the same then as it was at first. All its errors are readErrors.
type steady struct {
	files  *walkFiles
	fd     int
	before fileStat
	done   int64
	bar    *ui.Progress

	writeOut bool // dirty pages first
}

// settle is how coarse the times of files are: two changes within it leave one time.
const settle = 20 * time.Millisecond

// openSteady opens a file in an open folder.
func (w *walkFiles) openSteady(ctx context.Context, in *openFolder, name string, bar *ui.Progress, writeOut bool) (*steady, error) {
	fd, err := w.openFile(ctx, in.fd, name, otherFiles)
	if err != nil {
		return nil, &readError{err}
	}
	s := &steady{files: w, fd: fd, bar: bar, writeOut: writeOut}
	if err := s.begin(in); err != nil {
		s.close()
		return nil, &readError{err}
	}
	return s, nil
}

func (s *steady) close() { s.files.closeFile(s.fd) }

// begin looks at the file before it is read.
func (s *steady) begin(in *openFolder) error {
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
	return s.settle(time.Now())
}

// settle makes sure that the times of the file will show each later change.
func (s *steady) settle(now time.Time) error {
	stat := statInfo(&s.before)
	switch {
	case unsettled(&s.before, now):
		time.Sleep(settle - now.Sub(s.before.mtime))
	case s.writeOut && !stat.Racy(now.UnixNano()): // else the stat cache does not take it
		if err := s.files.fileCalls.writeOut(s.fd); err != nil {
			return err
		}
	default:
		return nil
	}
	return s.files.fstat(s.fd, &s.before)
}

// Read implements io.Reader.
func (s *steady) Read(b []byte) (int, error) {
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
		return n, &readError{errChanged} // it may grow for ever
	}
	return n, nil
}

func (s *steady) end() error {
	var after fileStat
	if err := s.files.fstat(s.fd, &after); err != nil {
		return &readError{err}
	}
	if s.done != s.before.size || statInfo(&after) != statInfo(&s.before) {
		return &readError{errChanged}
	}
	return io.EOF
}

package main

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// errChanged says that a file was not the same before and after it was read.
var errChanged = errors.New("it changed while it was read")

// A steady reads a regular file and ends with an error instead of io.EOF if the file is
// not the same then as it was at first.
type steady struct {
	f      *os.File
	before unix.Stat_t
	read   int64
	bar    *progress
}

// settle is how coarse the times of files are: who changes a file twice within it leaves
// one time.
const settle = 20 * time.Millisecond

func newSteady(f *os.File, bar *progress) (*steady, error) {
	s := &steady{f: f, bar: bar}
	if err := unix.Fstat(int(f.Fd()), &s.before); err != nil {
		return nil, err
	}
	if s.before.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errors.New("not a regular file any more")
	}
	// Of a file that was changed just now a further change could not be told.
	if age := time.Since(time.Unix(s.before.Mtim.Unix())); age >= 0 && age < settle {
		time.Sleep(settle - age)
		return s, unix.Fstat(int(f.Fd()), &s.before)
	}
	return s, nil
}

// Read implements io.Reader.
func (s *steady) Read(b []byte) (int, error) {
	n, err := s.f.Read(b)
	s.read += int64(n)
	s.bar.add(int64(n))
	switch {
	case errors.Is(err, io.EOF):
		return n, s.end()
	case err != nil:
		return n, &readError{reason(err)}
	case s.read > s.before.Size:
		return n, &readError{errChanged} // it may grow for ever
	}
	return n, nil
}

func (s *steady) end() error {
	var after unix.Stat_t
	if err := unix.Fstat(int(s.f.Fd()), &after); err != nil {
		return &readError{reason(err)}
	}
	if s.read != s.before.Size || after.Size != s.before.Size || after.Mtim != s.before.Mtim || after.Ctim != s.before.Ctim {
		return &readError{errChanged}
	}
	return io.EOF
}

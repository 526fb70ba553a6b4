package auth

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// maxFile bounds a file. curl has the same bound for netrc files.
const maxFile = 128 << 10

// readFile returns the content of a regular file that check accepts. A pipe in its place is
// refused without waiting for it.
func readFile(path string, check func(iofs.FileInfo) error) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, at(path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, at(path, err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	if err := check(info); err != nil {
		return nil, at(path, err)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, at(path, err)
	case len(b) > maxFile:
		return nil, fmt.Errorf("%s: larger than %d bytes", path, maxFile)
	}
	return b, nil
}

// at adds the path to an error. An error of package os would repeat the path and name a system
// call.
func at(path string, err error) error {
	var inner *iofs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}

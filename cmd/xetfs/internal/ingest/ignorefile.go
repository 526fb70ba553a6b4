package ingest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ignore"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// ReadIgnoreFile returns the patterns of the file ignore.FileName in a folder. A missing file
// has none.
func ReadIgnoreFile(folder string) (*ignore.Matcher, error) {
	m := new(ignore.Matcher)
	path := filepath.Join(folder, ignore.FileName)
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return m, nil
	case errors.Is(err, os.ErrPermission) && unix.Access(folder, unix.X_OK) != nil:
		return nil, fmt.Errorf("%s: %w", folder, ui.Reason(err)) // the folder, not the file in it
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, ui.Reason(err))
	}
	defer f.Close()
	var st stat
	if err := new(syscalls).fstat(int(f.Fd()), &st); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if st.kind() != unix.S_IFREG {
		return nil, fmt.Errorf("%s: %s, where patterns should be", path, kindOf(st.mode))
	}
	if _, err := m.ReadFrom(f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, ui.Reason(err))
	}
	return m, nil
}

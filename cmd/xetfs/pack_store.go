package main

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/xetfs/xetfs/cache/origin/dedup"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ingest"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/stack"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
)

// A packStore is the target of pack with its present content: objects under keys, and other
// shards and xorbs in the folder.
type packStore struct {
	into  *dir.Store
	found *dir.Bare
	known *dedup.Index
}

// strayAge is the age of a file in tmp that no process writes to any more.
const strayAge = 24 * time.Hour

// openPackStore opens a store, or makes one. It notes damaged objects.
func openPackStore(ctx context.Context, folder string, note func(string)) (*packStore, error) {
	tmp := filepath.Join(folder, "tmp")
	if err := checkWritable(tmp); err != nil {
		return nil, err
	}
	s := new(packStore)
	var err error
	if s.into, err = dir.Open(folder); err == nil {
		_, err = s.into.RemoveStray(ctx, strayAge)
	}
	if err == nil {
		s.found, err = dir.OpenBare(ctx, folder)
	}
	if err == nil {
		_, err = s.found.Files(ctx) // waits until all xorbs are named
	}
	if err == nil {
		s.known, err = dedup.Open(ctx, s.found, dedup.Options{
			Sink:     s.into,
			TempFile: func() (dedup.TempFile, error) { return newTempFile(tmp) },
			Damaged:  func(k names.Key, err error) { note(fmt.Sprintf("%s: not used: %v", k, err)) },
		})
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *packStore) close() {
	if s.known != nil {
		_ = s.known.Close()
	}
	if s.found != nil {
		s.found.Close()
	}
	if s.into != nil {
		s.into.Close()
	}
}

// checkWritable makes the folder where values are written first.
func checkWritable(tmp string) error {
	if err := os.MkdirAll(tmp, 0o777); err != nil { //nolint:gosec // a store is for the users that the umask says
		return fmt.Errorf("%s: %w", filepath.Dir(tmp), ui.Reason(err))
	}
	f, err := newTempFile(tmp)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Dir(tmp), ui.Reason(err))
	}
	return f.Close()
}

// newTempFile creates a file without a name. The end of the process deletes it.
func newTempFile(folder string) (dedup.TempFile, error) {
	f, err := os.CreateTemp(folder, "scratch-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// checkPackFolders refuses folders that cannot be packed, before any change.
func checkPackFolders(store string, folders []string) error {
	if err := checkStorePath(store); err != nil {
		return err
	}
	for _, folder := range folders {
		if err := checkPackFolder(store, folder); err != nil {
			return err
		}
	}
	return nil
}

// checkStorePath refuses a STORE that is not, and cannot become, a folder.
func checkStorePath(store string) error {
	if store == "" {
		return usageError{errors.New("an empty path is no folder")}
	}
	if err := stack.CheckLocal(store); err != nil {
		return err
	}
	info, err := os.Stat(store)
	switch {
	case errors.Is(err, iofs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", store, ui.Reason(err))
	case !info.IsDir():
		return usageError{fmt.Errorf("%s: STORE is a folder, this is a file", store)}
	}
	return nil
}

// checkPackFolder refuses an absent folder, and a folder inside the store.
func checkPackFolder(store, folder string) error {
	if _, err := os.Stat(folder); err != nil {
		return fmt.Errorf("%s: %w", folder, ui.Reason(err))
	}
	in, err := inside(folder, store)
	if err != nil {
		return fmt.Errorf("%s: %w", folder, ui.Reason(err))
	}
	if in {
		return usageError{fmt.Errorf("%s is inside the store %s, which would then hold itself; give the store a folder of its own", folder, store)}
	}
	return nil
}

// inside reports whether a path is a folder or in it, also through links. Paths without
// permission are not, unless the machine failed.
func inside(path, folder string) (bool, error) {
	target, err := os.Stat(folder)
	if err != nil {
		return false, machineOnly(err) // it is not there yet
	}
	path, err = filepath.EvalSymlinks(path)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return false, machineOnly(err)
	}
	for {
		info, err := os.Stat(path)
		if err == nil && os.SameFile(info, target) {
			return true, nil
		}
		above := filepath.Dir(path)
		if ingest.IsMachine(err) || above == path {
			return false, machineOnly(err)
		}
		path = above
	}
}

// machineOnly returns err if it is an error of this machine.
func machineOnly(err error) error {
	if ingest.IsMachine(err) {
		return err
	}
	return nil
}

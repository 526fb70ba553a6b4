package main

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
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
	into  stack.WriteStore
	found *dir.Bare // nil: into is a bucket
	known *dedup.Index
}

// strayAge is the age of a file in tmp that no process writes to any more.
const strayAge = 24 * time.Hour

// openPackStore opens a store, or makes one. It notes damaged objects.
func openPackStore(ctx context.Context, path string, remote stack.Remote, note func(string)) (*packStore, error) {
	s := new(packStore)
	var tmp string
	var err error
	s.into, tmp, err = openStore(ctx, path, remote)
	if err == nil && !stack.IsRemote(path) {
		s.found, err = dir.OpenBare(ctx, path)
		if err == nil {
			_, err = s.found.Files(ctx) // waits until all xorbs are named
		}
	}
	if err == nil {
		s.known, err = dedup.Open(ctx, s.stored(), dedup.Options{
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

// stored returns the store with the objects to deduplicate against.
func (s *packStore) stored() origin.Store {
	if s.found != nil {
		return s.found
	}
	return s.into
}

// openStore opens STORE for changes, or makes one. It returns the folder for temporary files,
// which is writable. Strays of a folder are removed; those of a bucket are left to the sweep.
func openStore(ctx context.Context, path string, remote stack.Remote) (s stack.WriteStore, tmp string, err error) {
	tmp = stack.TempFolder(path, remote)
	if err := checkWritable(tmp); err != nil {
		return nil, "", err
	}
	if s, err = stack.OpenStore(path, remote); err != nil {
		return nil, "", err
	}
	if r, ok := s.(origin.StrayRemover); ok && origin.Local(s) {
		if _, err := r.RemoveStray(ctx, strayAge); err != nil {
			return nil, "", errors.Join(err, s.Close())
		}
	}
	return s, tmp, nil
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

// ownStore returns the folder of a local STORE, which is not packed into itself.
func ownStore(path string) []ingest.OwnFolder {
	if stack.IsRemote(path) {
		return nil
	}
	return []ingest.OwnFolder{{Path: path, What: "the store itself"}}
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
	if stack.IsBucket(store) {
		return stack.CheckSource(store)
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

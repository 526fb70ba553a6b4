package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dedup"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
)

// A PackStore is a STORE for files without names, and its present content.
type PackStore struct {
	WriteStore
	Bare  *dir.Bare // all shards and xorbs in the folder; nil: the store is a bucket
	Known *dedup.Index
}

// OpenPackStore opens a STORE, or makes one. It notes damaged objects.
func OpenPackStore(ctx context.Context, path string, remote Remote, note func(string)) (*PackStore, error) {
	store, tempFile, err := createStore(ctx, path, remote)
	if err != nil {
		return nil, err
	}
	s := &PackStore{WriteStore: store}
	stored := origin.Store(store)
	if !IsAddress(path) {
		if s.Bare, err = dir.OpenBare(ctx, path); err == nil {
			stored = s.Bare
			_, err = s.Bare.Files(ctx) // waits until all xorbs are named
		}
	}
	if err == nil {
		s.Known, err = dedup.Open(ctx, stored, dedup.Options{
			Sink: store, TempFile: tempFile, Mirror: newMirror(store, remote),
			Damaged: func(k names.Key, err error) { note(fmt.Sprintf("%s: not used: %v", k, err)) },
		})
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close closes the store and its index.
func (s *PackStore) Close() error {
	if s.Known != nil {
		_ = s.Known.Close()
	}
	if s.Bare != nil {
		s.Bare.Close()
	}
	return s.WriteStore.Close()
}

// strayAge is the age of an unfinished file that no process writes to any more.
const strayAge = 24 * time.Hour

// createStore opens STORE for changes, or makes one. Temporary files are possible. Strays of a
// folder are removed; those of a bucket are left to the sweep.
func createStore(ctx context.Context, path string, remote Remote) (WriteStore, func() (dedup.TempFile, error), error) {
	tempFile, err := tempFiles(tempFolder(path, remote))
	if err != nil {
		return nil, nil, err
	}
	s, err := openStore(path, remote)
	if err != nil {
		return nil, nil, err
	}
	if r, ok := s.(origin.StrayRemover); ok && origin.Local(s) {
		if _, err := r.RemoveStray(ctx, strayAge); err != nil {
			s.Close()
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return s, tempFile, nil
}

// tempFiles makes a folder and returns a function that creates temporary files in it. It
// returns an error if no file can be created.
func tempFiles(folder string, mode os.FileMode) (func() (dedup.TempFile, error), error) {
	if err := os.MkdirAll(folder, mode); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Dir(folder), ui.Reason(err))
	}
	create := func() (dedup.TempFile, error) { return newTempFile(folder) }
	f, err := create()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Dir(folder), ui.Reason(err))
	}
	return create, f.Close()
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

package dir

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// A ReadOnly store is a Store without the methods that write. It makes no file and takes no
// lock, so that read permission suffices.
type ReadOnly struct {
	path  string                // absolute
	store atomic.Pointer[Store] // the opened folder; Relocate replaces it
}

var (
	_ origin.Store       = (*ReadOnly)(nil)
	_ origin.TryReader   = (*ReadOnly)(nil)
	_ origin.KeyRejecter = (*ReadOnly)(nil)
	_ origin.Relocator   = (*ReadOnly)(nil)
)

// OpenReadOnly returns the store in folder root. The error is io/fs.ErrNotExist if the folder is
// absent.
func OpenReadOnly(root string) (*ReadOnly, error) {
	path, err := filepath.Abs(root)
	if err != nil {
		return nil, openErr(root, err)
	}
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, openErr(root, err)
	}
	s := &ReadOnly{path: path}
	s.store.Store(newStore(r))
	return s, nil
}

func (s *ReadOnly) current() *Store { return s.store.Load() }

// Relocate implements origin.Relocator. If another folder has the path now, it replaces the open one.
// Reads that have begun end in the old folder. The garbage collector closes it after the last one.
func (s *ReadOnly) Relocate(ctx context.Context, accept func(context.Context, origin.Store) error) error {
	info, err := os.Stat(s.path)
	if err != nil {
		return wrap(s.path, err)
	}
	old := s.current()
	if used, err := old.files.root.Stat("."); err == nil && os.SameFile(used, info) {
		return nil
	}
	root, err := os.OpenRoot(s.path)
	if err != nil {
		return wrap(s.path, err)
	}
	opened := newStore(root)
	if err := accept(ctx, opened); err != nil {
		return errors.Join(err, opened.Close())
	}
	if !s.store.CompareAndSwap(old, opened) {
		return opened.Close() // another caller was first
	}
	old.files.close()
	return nil
}

// Local implements origin.CostReporter.
func (s *ReadOnly) Local() bool { return true }

// Close closes all files.
func (s *ReadOnly) Close() error { return s.current().Close() }

// ReadAt implements origin.Store.
func (s *ReadOnly) ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error {
	return s.current().ReadAt(ctx, k, p, off)
}

// TryReadAt implements origin.TryReader.
func (s *ReadOnly) TryReadAt(k names.Key, p []byte, off int64) bool {
	return s.current().TryReadAt(k, p, off)
}

// RejectKey implements origin.KeyRejecter.
func (s *ReadOnly) RejectKey(k names.Key) int { return s.current().RejectKey(k) }

// Size implements origin.Store.
func (s *ReadOnly) Size(ctx context.Context, k names.Key) (int64, error) {
	return s.current().Size(ctx, k)
}

// Get implements origin.Store.
func (s *ReadOnly) Get(ctx context.Context, k names.Key, seen origin.Tag) ([]byte, origin.Tag, error) {
	return s.current().Get(ctx, k, seen)
}

// List implements origin.Store.
func (s *ReadOnly) List(ctx context.Context, prefix string, after names.Key) iter.Seq2[origin.Item, error] {
	return s.current().List(ctx, prefix, after)
}

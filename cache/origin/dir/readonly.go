package dir

import (
	"context"
	"iter"
	"os"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// A ReadOnly store is a Keyed one that cannot be written to, whoever asks. It makes no
// file and takes no lock, so that reading is all it needs to be allowed.
type ReadOnly struct{ keyed *Keyed }

var (
	_ origin.Store       = (*ReadOnly)(nil)
	_ origin.PromptStore = (*ReadOnly)(nil)
	_ origin.KeyRejecter = (*ReadOnly)(nil)
)

// OpenReadOnly uses the objects below root. The error is io/fs.ErrNotExist if there is
// no such folder.
func OpenReadOnly(root string) (*ReadOnly, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, openErr(root, err)
	}
	return &ReadOnly{newKeyed(r)}, nil
}

// Near says that reading costs no more than reading a local file.
func (s *ReadOnly) Near() bool { return true }

// Close closes all files.
func (s *ReadOnly) Close() error { return s.keyed.Close() }

// ReadAt implements origin.Store.
func (s *ReadOnly) ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error {
	return s.keyed.ReadAt(ctx, k, p, off)
}

// ReadNow implements origin.PromptStore.
func (s *ReadOnly) ReadNow(k names.Key, p []byte, off int64) bool { return s.keyed.ReadNow(k, p, off) }

// RejectKey implements origin.KeyRejecter.
func (s *ReadOnly) RejectKey(k names.Key) int { return s.keyed.RejectKey(k) }

// Size implements origin.Store.
func (s *ReadOnly) Size(ctx context.Context, k names.Key) (int64, error) {
	return s.keyed.Size(ctx, k)
}

// Get implements origin.Store.
func (s *ReadOnly) Get(ctx context.Context, k names.Key, seen origin.Tag) ([]byte, origin.Tag, error) {
	return s.keyed.Get(ctx, k, seen)
}

// List implements origin.Store.
func (s *ReadOnly) List(ctx context.Context, prefix string, after names.Key) iter.Seq2[origin.Item, error] {
	return s.keyed.List(ctx, prefix, after)
}

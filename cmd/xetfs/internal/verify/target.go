package verify

import (
	"context"
	"io"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/reconstruct"
)

// A Target is a store with the layers above it that a check reads through.
type Target struct {
	Objects []Object // each copy of each shard and xorb
	Open    func(ctx context.Context, o Object) (ReaderAtCloser, error)
	Store   origin.Store // the same objects under their keys
	Remote  *XorbCache   // Store, if it is remote; else nil
	Reader  *reconstruct.Reader
	Bar     *ui.Progress
}

// An Object is one copy of a shard or xorb.
type Object struct {
	Path  string // below the store
	Kind  names.Kind
	Hash  codec.Hash
	Named bool // the hash is that of the name
	Size  int64
	Err   error // why the copy cannot be read
}

// A ReaderAtCloser reads one copy of an object.
type ReaderAtCloser interface {
	io.ReaderAt
	io.Closer
}

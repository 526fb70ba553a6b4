package reconstruct

import (
	"context"
	"errors"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/codec"
)

// A Policy says which files are laid down whole on disk, for the kernel to read by itself.
type Policy int

// The policies.
const (
	MaterializeNever  Policy = iota // none but those asked for by Keep
	MaterializeAuto                 // those that were read completely, as size and use decide
	MaterializeAlways               // all that are opened
)

// Plain returns the whole file as it is kept on disk, if it is, to be handed to the
// kernel. It must be closed when the kernel is done with it.
func (f *File) Plain() (*disk.File, bool) { return f.r.c.Whole(f.id.File) }

// Keep lays a file down whole on disk, if it is not there yet, and calls read with the
// number of bytes it has read since the last call.
func (r *Reader) Keep(ctx context.Context, id codec.FileID, read func(n int64)) error {
	return errors.ErrUnsupported
}

// Close ends what goes on in the background, and waits for it.
func (r *Reader) Close() error { return nil }

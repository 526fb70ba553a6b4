package origin

import (
	"context"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A Keeper keeps small things that were asked of a far store near for good. It may forget
// everything, and what it returns are bytes that were once put under that hash. It is
// safe for concurrent use, and no method waits for long.
type Keeper interface {
	Page(h [32]byte) ([]byte, bool)
	PutPage(h [32]byte, b []byte) error
	ForgetPage(h [32]byte)
}

// Adopting is a Source that knows more of a run of packed chunks that was kept elsewhere
// than the run does: the hashes of its chunks, and their sizes.
type Adopting interface {
	// Adopt returns run as Chunks would return it. If it does not fit to xorb x the
	// error is codec.ErrCorrupt: then it was kept under a wrong name.
	Adopt(ctx context.Context, x codec.Hash, run *xorb.Run) (*xorb.Run, error)
}

// Forgetting is a Source that keeps what FileInfo returned.
type Forgetting interface {
	// Forget says that what FileInfo returned does not lead to the file: what it names is
	// not there, or the bytes have not the hash of the file. The next FileInfo asks the
	// store. It is not for when the store does not answer.
	Forget(id codec.FileID)
}

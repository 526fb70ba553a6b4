package origin

import (
	"context"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
)

// MaxTerms is the largest number of terms that Source.OpenFile returns at once: about 200 KiB.
const MaxTerms = 4 * shard.TermGroup

// A LargeFile is a proven file whose terms are read in groups.
type LargeFile struct {
	Index *shard.FileIndex

	// Group reads the terms of group i. If they differ from the proven terms, the error is
	// codec.ErrCorrupt. Verification hashes are compared when the file is proven.
	Group func(ctx context.Context, i int) ([]codec.Term, error)
}

package origin

import (
	"context"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
)

// MaxTerms is the most terms of a file that OpenFile returns at once: some 200 KiB.
const MaxTerms = 4 * shard.TermGroup

// A FileOpener is a Source that reads the terms of a large file in groups.
type FileOpener interface {
	// OpenFile returns what FileInfo returns or, of a file of more than MaxTerms terms, a
	// LargeFile. One of both is nil.
	OpenFile(ctx context.Context, id codec.FileID) (*shard.FileInfo, *LargeFile, error)
}

// A LargeFile is a proven file whose terms are read in groups.
type LargeFile struct {
	Index *shard.FileIndex

	// Group reads the terms of a group. They are those that were proven, or the error is
	// codec.ErrCorrupt.
	// Verification hashes are compared when the file is proven.
	Group func(ctx context.Context, i int) ([]codec.Term, error)
}

// OpenFile calls OpenFile of src. A source without it returns all terms of every file.
func OpenFile(ctx context.Context, src Source, id codec.FileID) (*shard.FileInfo, *LargeFile, error) {
	if o, ok := src.(FileOpener); ok {
		return o.OpenFile(ctx, id)
	}
	fi, err := src.FileInfo(ctx, id)
	return fi, nil, err
}

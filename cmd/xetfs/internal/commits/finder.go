package commits

import (
	"context"
	"errors"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/upload"
	"github.com/xetfs/xetfs/codec/names"
)

// A Finder finds contents that a session may name in one request. It is not safe for concurrent use.
type Finder struct {
	Uploads interface {
		FileBySHA256(ctx context.Context, s upload.SessionID, sum [32]byte) (upload.Content, error)
		Recall(ctx context.Context, s upload.SessionID, after names.Key) (next names.Key, err error)
	}
	Session upload.SessionID

	// Readable returns a stored file that the client may read, or origin.ErrNotFound; nil: none.
	Readable func(ctx context.Context, sum [32]byte) (upload.Content, error)

	receipt  names.Key // the last one that Recall has read
	recalled bool      // Recall has read all receipts
}

// Find returns a content by its SHA-256, or origin.ErrNotFound. The empty one always exists. It reads receipts of the session until one
// of them has the content.
func (f *Finder) Find(ctx context.Context, sum [32]byte) (upload.Content, error) {
	if sum == emptySum {
		return upload.Content{SHA256: sum}, nil
	}
	c, err := f.Uploads.FileBySHA256(ctx, f.Session, sum)
	if errors.Is(err, origin.ErrNotFound) && f.Readable != nil {
		c, err = f.Readable(ctx, sum)
	}
	for errors.Is(err, origin.ErrNotFound) && !f.recalled {
		if f.receipt, err = f.Uploads.Recall(ctx, f.Session, f.receipt); err != nil {
			return c, err
		}
		f.recalled = f.receipt == ""
		c, err = f.Uploads.FileBySHA256(ctx, f.Session, sum)
	}
	return c, err
}

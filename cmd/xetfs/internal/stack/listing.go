package stack

import (
	"context"
	"errors"
	"fmt"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
)

// A listingWriter is a store whose readers may not be able to list it.
type listingWriter interface {
	WriteListing(ctx context.Context, found *dir.Bare) error
}

// WriteListing writes the listing of a store after an object was stored or deleted, for readers
// behind a web server. found is the scan of the folder, or nil. A failure goes to note, because
// the change itself is complete. Readers of a bucket list it.
func WriteListing(ctx context.Context, store WriteStore, found *dir.Bare, note func(string)) {
	l, ok := store.(listingWriter)
	if !ok {
		return
	}
	if err := l.WriteListing(ctx, found); err != nil {
		note(names.InWords(fmt.Sprintf("readers over the web do not see this yet: %s is not written: %v", listing.Key, err)))
	}
}

// RenewListing is WriteListing for a command that may have changed nothing. It creates no
// listing in a store without one.
func RenewListing(ctx context.Context, store WriteStore, note func(string)) {
	if _, err := store.Size(ctx, listing.Key); !errors.Is(err, origin.ErrNotFound) {
		WriteListing(ctx, store, nil, note)
	}
}

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
)

// writeListing writes the listing of a store, for readers behind a web server, after an object
// was stored or deleted. found is the scan of the folder, or nil. A failure is only noted,
// because the change itself is complete.
func writeListing(ctx context.Context, store *dir.Store, found *dir.Bare, note func(string)) {
	if err := store.WriteListing(ctx, found); err != nil {
		note(names.InWords(fmt.Sprintf("readers over the web do not see this yet: %s is not written: %v", listing.Key, err)))
	}
}

// renewListing is writeListing for a command that may have changed nothing. It creates no
// listing in a store without one.
func renewListing(ctx context.Context, store *dir.Store, note func(string)) {
	if _, err := store.Size(ctx, listing.Key); !errors.Is(err, origin.ErrNotFound) {
		writeListing(ctx, store, nil, note)
	}
}

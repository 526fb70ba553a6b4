package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
)

// A listingWriter is a store whose readers may not be able to list it.
type listingWriter interface {
	WriteListing(ctx context.Context, found *dir.Bare, seen dir.ListedState) (dir.ListedState, error)
}

// WriteListing writes the listing of a store after an object was stored or deleted, for readers
// behind a web server. found is the scan of the folder, or nil. A failure goes to note, because
// the change itself is complete. Most readers of a bucket list it. A bucket therefore gets a
// listing in the place of an old one, or if create is set.
func WriteListing(ctx context.Context, store WriteStore, found *dir.Bare, create bool, note func(string)) {
	var err error
	if l, ok := store.(listingWriter); ok {
		_, err = l.WriteListing(ctx, found, dir.ListedState{})
	} else {
		err = replaceListing(ctx, store, create)
	}
	if err != nil {
		noteUnlisted(err, note)
	}
}

func noteUnlisted(err error, note func(string)) {
	note(names.InWords(fmt.Sprintf("readers over the web do not see this yet: %s is not written: %v", listing.Key, err)))
}

// listingTries bounds the tries to replace a listing that other writers replace, too.
const listingTries = 10

// replaceListing replaces the listing of a store. A store without one gets one if create is set.
// The objects are listed after the old listing was read, so the writer that replaces it last has
// listed the objects of all.
func replaceListing(ctx context.Context, store origin.WriteStore, create bool) error {
	for try := 1; ; try++ {
		old, tag, err := store.Get(ctx, listing.Key, "")
		isNew := errors.Is(err, origin.ErrNotFound)
		if isNew && !create {
			return nil
		}
		if err != nil && !isNew {
			return err
		}
		b, err := listing.Encode(listing.Prefixes(), origin.ListPrefixes(ctx, store, listing.Prefixes()))
		if err != nil || bytes.Equal(b, old) {
			return err
		}
		if isNew {
			_, err = store.PutIfAbsent(ctx, listing.Key, b)
		} else {
			_, err = store.PutIfMatch(ctx, listing.Key, b, tag)
		}
		if try == listingTries || !wasBeaten(err) {
			return err
		}
	}
}

// wasBeaten reports whether another writer may have written first.
func wasBeaten(err error) bool {
	return errors.Is(err, origin.ErrConflict) || errors.Is(err, origin.ErrExists) || errors.Is(err, origin.ErrUnknown)
}

// RenewListing is WriteListing for a command that may have changed nothing. It creates no
// listing in a store without one.
func RenewListing(ctx context.Context, store WriteStore, note func(string)) {
	if _, err := store.Size(ctx, listing.Key); !errors.Is(err, origin.ErrNotFound) {
		WriteListing(ctx, store, nil, false, note)
	}
}

// listingPause is the shortest time between two listings by RunListing.
const listingPause = 5 * time.Second

// RunListing is WriteListing after each value from changed, for a server that writes. It returns when ctx
// ends, after the listing of the last change. No other call of WriteListing may run.
func (s *PublishStore) RunListing(ctx context.Context, changed <-chan struct{}, note func(string)) {
	afterChanges(ctx, changed, func() { s.WriteListing(context.WithoutCancel(ctx), false, note) })
}

// afterChanges calls write after values from changed, at most once in listingPause, until ctx ends.
func afterChanges(ctx context.Context, changed <-chan struct{}, write func()) {
	for ctx.Err() == nil {
		select {
		case <-changed:
			write()
			select {
			case <-time.After(listingPause):
			case <-ctx.Done():
			}
		case <-ctx.Done():
		}
	}
	select {
	case <-changed:
		write()
	default:
	}
}

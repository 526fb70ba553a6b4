package verify

import (
	"context"
	"errors"
	"fmt"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
)

// Listing checks the listing of a store and its parts. A store without a listing has no fault. The
// listing may be older than the store, so its objects are not looked for. A newer format is an error, no
// fault.
func Listing(ctx context.Context, store origin.Store, report Report) error {
	b, _, err := store.Get(ctx, listing.Key, "")
	switch {
	case errors.Is(err, origin.ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", listing.Key, err)
	}
	l, err := listing.Decode(b)
	switch {
	case errors.Is(err, names.ErrNewer):
		return fmt.Errorf("%s: %w", listing.Key, err)
	case err != nil:
		report.Fault(Fault{Path: string(listing.Key), Err: withPublish(err)})
		return nil
	}
	for _, p := range l.Parts("") {
		b, _, err := store.Get(ctx, p.Key(), "")
		if err == nil {
			err = p.Check(b)
		}
		switch {
		case errors.Is(err, origin.ErrNotFound):
			report.Fault(Fault{Path: string(p.Key()), Err: withPublish(errors.New("missing"))})
		case errors.Is(err, codec.ErrCorrupt):
			report.Fault(Fault{Path: string(p.Key()), Err: withPublish(err)})
		case err != nil:
			return fmt.Errorf("%s: %w", p.Key(), err)
		}
	}
	return nil
}

// withPublish returns err with a way to mend it.
func withPublish(err error) error { return fmt.Errorf("%w; the next publish writes it again", err) }

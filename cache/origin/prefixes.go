package origin

import (
	"context"
	"iter"
	"slices"

	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
)

// ListPrefixes yields the objects of a store under some prefixes, sorted, for listing.Encode.
// It leaves out unknown keys and ends after the first error.
func ListPrefixes(ctx context.Context, s Store, prefixes []string) iter.Seq2[listing.Object, error] {
	return func(yield func(listing.Object, error) bool) {
		for _, prefix := range slices.Sorted(slices.Values(prefixes)) {
			for item, err := range s.List(ctx, prefix, "") {
				if _, unknown := names.ParseKey(item.Key); err == nil && unknown != nil {
					continue
				}
				if !yield(listing.Object{Key: item.Key, Size: item.Size, Modified: item.Modified}, err) || err != nil {
					return
				}
			}
		}
	}
}

package web

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/listing"
)

// A listingCache has the listing of a store, generated on request. A scan of a large store is
// slow, so the listing is cached for a time that grows with the time of the scan.
type listingCache struct {
	mu    sync.Mutex // held during a scan: all waiting requests need its result
	b     []byte     // guarded by mu
	etag  string     // guarded by mu
	until time.Time  // guarded by mu
}

const (
	minListingAge   = time.Second // of a cached listing
	listingAgeRatio = 20          // times the duration of the scan
	scanLimit       = time.Minute
)

// get returns the listing and its ETag.
func (c *listingCache) get(ctx context.Context, s origin.Store) ([]byte, string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	start := time.Now()
	if c.b != nil && start.Before(c.until) {
		return c.b, c.etag, nil
	}
	// A client that leaves does not end the scan: other requests wait for its result.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), scanLimit)
	defer cancel()
	b, err := listing.Encode(listing.Prefixes(), origin.ListPrefixes(ctx, s, listing.Prefixes()))
	if err != nil {
		return nil, "", err
	}
	c.b, c.etag = b, fmt.Sprintf(`"%s"`, b[max(0, len(b)-65):len(b)-1]) // its checksum
	c.until = time.Now().Add(max(minListingAge, listingAgeRatio*time.Since(start)))
	return c.b, c.etag, nil
}

package web

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/listing"
)

// A listingCache has the listing of a store, generated on request. A scan of a large store is
// slow, so the listing is cached for a time that grows with the time of the scan. Concurrent
// requests share a scan and its error.
type listingCache struct {
	scans flight.Group[struct{}, *cachedListing]

	mu     sync.Mutex
	cached *cachedListing // guarded by mu
}

// A cachedListing is an encoded listing.
type cachedListing struct {
	b     []byte
	etag  string
	until time.Time
}

const (
	minListingAge   = time.Second // of a cached listing
	listingAgeRatio = 20          // times the duration of the scan
	scanLimit       = time.Minute
)

// newListingCache returns a cache whose scans continue when all clients have left: the next request
// needs the result.
func newListingCache() *listingCache {
	c := new(listingCache)
	c.scans.Detached = func(struct{}) bool { return true }
	return c
}

// get returns the listing and its ETag.
func (c *listingCache) get(ctx context.Context, s origin.Store) ([]byte, string, error) {
	l := c.fresh()
	if l == nil {
		var err error
		l, err = c.scans.Do(ctx, struct{}{}, func(ctx context.Context) (*cachedListing, error) { return c.scan(ctx, s) })
		if err != nil {
			return nil, "", err
		}
	}
	return l.b, l.etag, nil
}

// fresh returns the cached listing, or nil if it is absent or too old.
func (c *listingCache) fresh() *cachedListing {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cached == nil || !time.Now().Before(c.cached.until) {
		return nil
	}
	return c.cached
}

// scan generates the listing and caches it.
func (c *listingCache) scan(ctx context.Context, s origin.Store) (*cachedListing, error) {
	if l := c.fresh(); l != nil {
		return l, nil // a scan has just ended
	}
	ctx, cancel := context.WithTimeout(ctx, scanLimit)
	defer cancel()
	start := time.Now()
	b, err := listing.Encode(listing.Prefixes(), origin.ListPrefixes(ctx, s, listing.Prefixes()))
	if err != nil {
		return nil, err
	}
	l := &cachedListing{
		b:     b,
		etag:  fmt.Sprintf(`"%s"`, b[max(0, len(b)-65):len(b)-1]), // its checksum
		until: time.Now().Add(max(minListingAge, listingAgeRatio*time.Since(start))),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cached = l
	return l, nil
}

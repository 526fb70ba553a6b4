package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
)

// The first byte of a Tag is the kind of the rest.
const (
	byETag = "e"
	byTime = "m" // Last-Modified
	byHash = "h" // SHA-256 of the value
)

// Get implements origin.Store. The tag is the server's ETag, or else its Last-Modified. Many
// servers derive both from a time in whole seconds. The tag of a value that was changed just
// now is therefore its hash. A hash costs one more transfer of the value, and misses no
// change. ErrUnchanged comes with the tag for the next call.
func (s *Store) Get(ctx context.Context, k names.Key, seen origin.Tag) ([]byte, origin.Tag, error) {
	condition := http.Header{}
	if tag, ok := strings.CutPrefix(string(seen), byETag); ok {
		condition.Set("If-None-Match", tag)
	} else if tag, ok := strings.CutPrefix(string(seen), byTime); ok {
		condition.Set("If-Modified-Since", tag)
	}
	var value []byte
	var header http.Header
	err := s.find(ctx, k, func(r fetch.Request) (err error) {
		r.Header = condition
		value, header, err = s.client.Get(ctx, r, origin.MaxObject(k))
		return err
	})
	if errors.Is(err, origin.ErrUnchanged) {
		return nil, seen, err
	} else if err != nil {
		return nil, "", err
	}
	tag := tagOf(header, value)
	if seen != "" && (tag == seen || seen == hashTag(value)) {
		return nil, tag, origin.ErrUnchanged
	}
	return value, tag, nil
}

// tagOf returns the tag of a value that arrived with a header.
func tagOf(header http.Header, value []byte) origin.Tag {
	modified, etag := header.Get("Last-Modified"), header.Get("ETag")
	switch {
	case changedJustNow(modified, header.Get("Date")):
		return hashTag(value)
	case etag != "":
		return origin.Tag(byETag + etag)
	case modified != "":
		return origin.Tag(byTime + modified)
	}
	return hashTag(value)
}

func hashTag(value []byte) origin.Tag {
	sum := sha256.Sum256(value)
	return origin.Tag(byHash + hex.EncodeToString(sum[:]))
}

// justNow is the time within which the times of a server do not distinguish two changes.
const justNow = 2 * time.Second

// changedJustNow reports whether the object may change again without another Last-Modified. It
// compares times of the server's clock only.
func changedJustNow(modified, date string) bool {
	m, err := http.ParseTime(modified)
	if err != nil {
		return false // the server sends no time
	}
	d, err := http.ParseTime(date)
	return err != nil || d.Sub(m) < justNow
}

// List implements origin.Store. It reads the listing that the writers of the store left. It
// yields errors.ErrUnsupported if the listing is absent, or does not cover the prefix.
func (s *Store) List(ctx context.Context, prefix string, after names.Key) iter.Seq2[origin.Item, error] {
	return func(yield func(origin.Item, error) bool) {
		l, err := s.listingOf(ctx, prefix)
		if err != nil {
			yield(origin.Item{}, err)
			return
		}
		for o, err := range l.List(prefix, after) {
			if err == nil {
				err = ctx.Err()
			}
			if !yield(origin.Item{Key: o.Key, Size: o.Size, Modified: o.Modified}, err) || err != nil {
				return
			}
		}
	}
}

// A noListing is the address of a missing listing. Without it, the store cannot be listed.
type noListing string

func (e noListing) Error() string {
	return string(e) + " is not there, which xetfs pack and publish write; what has a name in a catalog can be read without it"
}

// Unwrap returns the error of a store that cannot list.
func (e noListing) Unwrap() error { return errors.ErrUnsupported }

// newestListing returns the listing as it is now, without its parts.
func (s *Store) newestListing(ctx context.Context) (*listing.Listing, error) {
	s.listing.mu.Lock()
	l, tag := s.listing.l, s.listing.tag
	s.listing.mu.Unlock()
	for try := 1; ; try++ {
		b, now, err := s.Get(ctx, listing.Key, tag)
		switch {
		case errors.Is(err, origin.ErrUnchanged):
			s.listing.setTag(l, now)
			return l, nil
		case errors.Is(err, origin.ErrNotFound):
			return nil, noListing(s.base + string(listing.Key))
		case err != nil:
			return nil, err
		}
		decoded, err := listing.Decode(b)
		if err == nil {
			s.listing.mu.Lock()
			s.listing.l, s.listing.tag = decoded, now
			s.listing.dropParts()
			s.listing.mu.Unlock()
			return decoded, nil
		}
		if try == 2 {
			return nil, fmt.Errorf("%s: %w", listing.Key, err)
		}
		ctx, tag = origin.NoCache(ctx), "" // the network may have damaged it
	}
}

// setTag sets the tag of a listing that was read, unless a newer one has replaced it.
func (l *lastListing) setTag(read *listing.Listing, tag origin.Tag) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.l == read {
		l.tag = tag
	}
}

// Parts of a listing.
const (
	parallelParts = 8  // that are fetched at once
	listingTries  = 10 // to read a listing whose parts are replaced meanwhile
)

// listingOf returns the listing as it is now, with the parts that have objects below a prefix.
func (s *Store) listingOf(ctx context.Context, prefix string) (*listing.Listing, error) {
	for try := 1; ; try++ {
		l, err := s.newestListing(ctx)
		if err != nil {
			return nil, err
		}
		parts, err := s.readParts(ctx, l.Parts(prefix))
		if err == nil {
			return l.With(parts), nil
		}
		// A writer removes parts of a listing that it has replaced.
		switch {
		case !errors.Is(err, origin.ErrNotFound):
			return nil, fmt.Errorf("%s: %w", listing.Key, err)
		case try == listingTries:
			return nil, fmt.Errorf("%s: %w", listing.Key, codec.Corrupt("listing", 0, "a part is absent: %v", err))
		}
		if try > 1 {
			ctx = origin.NoCache(ctx) // a cache may have an old listing
		}
	}
}

// readParts returns the lines of parts. It fetches those that were not read before.
func (s *Store) readParts(ctx context.Context, parts []listing.Part) (map[string][]byte, error) {
	lines := make(map[string][]byte, len(parts))
	var missing []listing.Part
	s.listing.mu.Lock()
	for _, p := range parts {
		if b, ok := s.listing.parts[p.Sum]; ok {
			lines[p.Sum] = b
		} else {
			missing = append(missing, p)
		}
	}
	s.listing.mu.Unlock()
	fetched := make([][]byte, len(missing))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelParts)
	for i, p := range missing {
		g.Go(func() (err error) {
			fetched[i], err = s.readPart(ctx, p)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	s.listing.mu.Lock()
	defer s.listing.mu.Unlock()
	for i, p := range missing {
		lines[p.Sum] = fetched[i]
		s.listing.parts[p.Sum] = fetched[i]
	}
	s.listing.dropParts()
	return lines, nil
}

// readPart fetches a part. Damaged lines are fetched again without caches.
func (s *Store) readPart(ctx context.Context, p listing.Part) ([]byte, error) {
	b, _, err := s.Get(ctx, p.Key(), "")
	if err == nil {
		err = p.Check(b)
	}
	if !errors.Is(err, codec.ErrCorrupt) {
		return b, err
	}
	if b, _, err = s.Get(origin.NoCache(ctx), p.Key(), ""); err != nil {
		return nil, err
	}
	return b, p.Check(b)
}

// dropParts drops the parts that are not those of the newest listing. The caller has locked mu.
func (l *lastListing) dropParts() {
	used := make(map[string][]byte, len(l.parts))
	for _, p := range l.l.Parts("") {
		if b, ok := l.parts[p.Sum]; ok {
			used[p.Sum] = b
		}
	}
	l.parts = used
}

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

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
)

// The first byte of a Tag says what the rest is.
const (
	byETag = "e"
	byTime = "m" // Last-Modified
	byHash = "h" // SHA-256 of the value
)

// Get implements origin.Store. The tag is the server's ETag, or else its Last-Modified. Many
// servers derive both from a time in whole seconds. The tag of a value that was changed just
// now is therefore its hash. A hash costs one more transfer of the value, and misses no
// change.
func (s *Store) Get(ctx context.Context, k names.Key, seen origin.Tag) ([]byte, origin.Tag, error) {
	header := map[string]string{}
	if tag, ok := strings.CutPrefix(string(seen), byETag); ok {
		header["If-None-Match"] = tag
	} else if tag, ok := strings.CutPrefix(string(seen), byTime); ok {
		header["If-Modified-Since"] = tag
	}
	a, err := s.ask(ctx, http.MethodGet, k, header)
	if err != nil {
		return nil, "", err
	}
	defer a.close()
	switch {
	case a.StatusCode == http.StatusNotModified && len(header) > 0:
		return nil, seen, origin.ErrUnchanged
	case a.StatusCode != http.StatusOK:
		return nil, "", a.mismatch("the server says %s", status(a.StatusCode))
	}
	value, err := a.readAll(origin.MaxObject(k))
	if err != nil {
		return nil, "", err
	}
	tag := a.tag(value)
	if seen != "" && (tag == seen || seen == hashTag(value)) {
		return nil, tag, origin.ErrUnchanged
	}
	return value, tag, nil
}

// Tag returns the tag of a value.
func (a *answer) tag(value []byte) origin.Tag {
	modified, etag := a.Header.Get("Last-Modified"), a.Header.Get("ETag")
	switch {
	case changedJustNow(modified, a.Header.Get("Date")):
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

// justNow is for how long the times of a server do not tell two changes apart.
const justNow = 2 * time.Second

// changedJustNow reports whether the object may change again without another Last-Modified. It
// compares times of the server's clock only.
func changedJustNow(modified, date string) bool {
	m, err := http.ParseTime(modified)
	if err != nil {
		return false // it says nothing of times
	}
	d, err := http.ParseTime(date)
	return err != nil || d.Sub(m) < justNow
}

// firstRead is the most that is allocated before any byte of an answer has arrived.
const firstRead = 1 << 20

// readAll reads an answer of at most limit bytes. Memory grows with the bytes that arrive.
func (a *answer) readAll(limit int64) ([]byte, error) {
	if a.ContentLength > limit {
		return nil, origin.Long(a.key, limit)
	}
	most := limit
	if a.ContentLength >= 0 {
		most = a.ContentLength
	}
	b, err := origin.ReadBounded(watched{a}, min(a.ContentLength, firstRead)+1, most+1)
	switch {
	case err != nil:
		return nil, a.broken(err)
	case int64(len(b)) > limit:
		return nil, origin.Long(a.key, limit)
	case a.ContentLength >= 0 && int64(len(b)) != a.ContentLength:
		return nil, a.broken(errors.New("the answer ended early"))
	}
	return b, nil
}

// A watched is the body of an answer.
type watched struct{ a *answer }

// Read implements io.Reader.
func (w watched) Read(p []byte) (int, error) {
	n, err := w.a.Body.Read(p)
	w.a.watch.came(n)
	return n, err
}

// List implements origin.Store. It reads the listing that the writers of the store left. It
// yields errors.ErrUnsupported if the listing is absent, or does not cover the prefix.
func (s *Store) List(ctx context.Context, prefix string, after names.Key) iter.Seq2[origin.Item, error] {
	return func(yield func(origin.Item, error) bool) {
		l, err := s.list(ctx)
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

// A noListing is the address of a listing that is not there, because of which nothing can be
// listed.
type noListing string

func (e noListing) Error() string {
	return string(e) + " is not there, which xetfs pack and publish write; what has a name in a catalog can be read without it"
}

// Unwrap says what a store does that cannot list.
func (e noListing) Unwrap() error { return errors.ErrUnsupported }

// list returns the listing as it is now.
func (s *Store) list(ctx context.Context) (*listing.Listing, error) {
	s.listing.mu.Lock()
	l, tag := s.listing.l, s.listing.tag
	s.listing.mu.Unlock()
	for try := 1; ; try++ {
		b, now, err := s.Get(ctx, listing.Key, tag)
		switch {
		case errors.Is(err, origin.ErrUnchanged):
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
			s.listing.mu.Unlock()
			return decoded, nil
		}
		if try == 2 {
			return nil, fmt.Errorf("%s: %w", listing.Key, err)
		}
		ctx, tag = origin.NoCache(ctx), "" // it may have been damaged on the way
	}
}

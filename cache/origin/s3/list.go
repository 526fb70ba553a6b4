package s3

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
)

// A listPage is a part of a listing.
type listPage struct {
	XMLName     xml.Name `xml:"ListBucketResult"`
	IsTruncated bool
	Next        string       `xml:"NextContinuationToken"`
	Encoding    string       `xml:"EncodingType"`
	Objects     []listObject `xml:"Contents"`
}

type listObject struct {
	Key          string
	Size         int64
	LastModified time.Time
	listed       time.Time // by the clock of the server; zero: the server does not send its time
}

// eventName is the event of keys that no xetfs writes. The name is stable.
const eventName = "name_rejected"

// List implements origin.Store. It skips objects with other keys and logs the first one. A bucket
// that does not sort its keys is an error: callers rely on the order to find the newest version.
func (s *Store) List(ctx context.Context, prefix string, after names.Key) iter.Seq2[origin.Item, error] {
	return func(yield func(origin.Item, error) bool) {
		var last names.Key
		for o, err := range s.list(ctx, s.prefix+prefix, s.startAfter(after)) {
			if err != nil {
				yield(origin.Item{}, err)
				return
			}
			k := names.Key(strings.TrimPrefix(o.Key, s.prefix))
			if !s.accepts(k) || k <= after {
				continue
			}
			if k <= last {
				yield(origin.Item{}, &origin.HintError{Err: fmt.Errorf("%q: %w: the bucket does not list its keys in order", prefix, origin.ErrUnavailable), Tries: 1})
				return
			}
			last = k
			if !yield(origin.Item{Key: k, Size: o.Size, Modified: o.LastModified}, nil) {
				return
			}
		}
	}
}

// startAfter returns the key in the bucket after which a listing starts.
func (s *Store) startAfter(after names.Key) string {
	if after == "" {
		return ""
	}
	return s.prefix + string(after)
}

// accepts reports whether a key belongs to a store.
func (s *Store) accepts(k names.Key) bool {
	_, err := names.ParseKey(k)
	isOurs := strings.HasPrefix(string(k), tmpPrefix) || k == listing.Key || strings.HasPrefix(string(k), listing.PartsFolder)
	if err == nil || isOurs {
		return err == nil
	}
	if !s.named.Swap(true) {
		s.log.Warn("objects with other names are in the bucket and are ignored", slog.String("event", eventName), slog.String("key", string(k)))
	}
	return false
}

// emptyPages bounds the consecutive pages of a listing without a new key. A real bucket has none,
// or few.
const emptyPages = 1000

// list yields the objects of the bucket with a prefix, sorted by key.
func (s *Store) list(ctx context.Context, prefix, after string) iter.Seq2[listObject, error] {
	return func(yield func(listObject, error) bool) {
		query := url.Values{"list-type": {"2"}, "prefix": {prefix}, "encoding-type": {"url"}}
		if after != "" {
			query.Set("start-after", after)
		}
		seen, last, empty := map[string]bool{}, "", 0
		for {
			p, err := s.retryPage(ctx, prefix, query)
			if err != nil {
				yield(listObject{}, err)
				return
			}
			empty++
			for _, o := range p.Objects {
				if o.Key > last {
					last, empty = o.Key, 0
				}
				if !yield(o, nil) {
					return
				}
			}
			switch {
			case !p.IsTruncated:
				return
			case p.Next == "" || seen[p.Next] || empty == emptyPages:
				yield(listObject{}, &origin.HintError{Err: fmt.Errorf("%q: %w: the listing does not end", prefix, origin.ErrUnavailable), Tries: 1})
				return
			}
			seen[p.Next] = true
			query.Set("continuation-token", p.Next)
		}
	}
}

// retryPage is listPage with the attempts of a read.
func (s *Store) retryPage(ctx context.Context, prefix string, query url.Values) (p *listPage, err error) {
	err = s.fetch.Retry(ctx, names.Key(prefix), func(ctx context.Context) error {
		if p, err = s.listPage(ctx, query); err != nil {
			return wrap(ctx, prefix, err)
		}
		return nil
	})
	return p, err
}

func (s *Store) listPage(ctx context.Context, query url.Values) (*listPage, error) {
	a, err := s.client.send(ctx, request{method: http.MethodGet, query: query})
	if err != nil {
		return nil, err
	}
	if a.failed() {
		return nil, listError(a.apiError())
	}
	p := new(listPage)
	if err := xml.Unmarshal(a.body, p); err != nil {
		return nil, errors.New("the listing is not XML of S3")
	}
	now := a.time()
	for i := range p.Objects {
		o := &p.Objects[i]
		o.listed = now
		if p.Encoding != "url" {
			continue
		}
		if o.Key, err = url.QueryUnescape(o.Key); err != nil {
			return nil, errors.New("a key in the listing is not escaped as in a URL")
		}
	}
	return p, nil
}

// listError returns the error of a listing. A server without an object at the address of the
// listing has no bucket there.
func listError(e *apiError) *apiError {
	if e.isMissing() {
		e.code = "NoSuchBucket"
	}
	return e
}

// lists reports whether a listing shows an object. The error is an apiError if the credentials may
// not list the bucket.
func (s *Store) lists(ctx context.Context, key string) (exists bool, err error) {
	p, err := s.listPage(ctx, url.Values{"list-type": {"2"}, "prefix": {key}, "max-keys": {"1"}, "encoding-type": {"url"}})
	if err != nil {
		return false, err
	}
	return len(p.Objects) > 0 && p.Objects[0].Key == key, nil
}

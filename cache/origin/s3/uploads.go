package s3

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// An uploadPage is a part of the list of unfinished uploads.
type uploadPage struct {
	XMLName      xml.Name `xml:"ListMultipartUploadsResult"`
	IsTruncated  bool
	NextKey      string `xml:"NextKeyMarker"`
	NextUploadID string `xml:"NextUploadIdMarker"`
	Uploads      []struct {
		Key       string
		UploadID  string `xml:"UploadId"`
		Initiated time.Time
	} `xml:"Upload"`
	listed time.Time // as in a listObject
}

// errNoTime means that the age of an object cannot be determined.
var errNoTime = fmt.Errorf("%w: the server does not send its time", origin.ErrUnavailable)

// RemoveStray aborts old unfinished uploads of the store and deletes old keys of probes. The age
// is by the clock of the server. RemoveStray returns their number, also beside an error.
func (s *Store) RemoveStray(ctx context.Context, older time.Duration) (removed int, err error) {
	n, err := s.abortUploads(ctx, older)
	if err != nil {
		return n, err
	}
	m, err := s.removeProbes(ctx, older)
	return n + m, err
}

// abortUploads aborts old uploads to keys of the store. Other programs may upload to the same bucket.
func (s *Store) abortUploads(ctx context.Context, older time.Duration) (removed int, err error) {
	query := url.Values{"uploads": {""}, "prefix": {s.prefix}}
	seen, empty := map[string]bool{}, 0
	for {
		p, err := s.retryUploadPage(ctx, query)
		if err != nil {
			return removed, err
		}
		if p.listed.IsZero() {
			return removed, errNoTime
		}
		if empty++; len(p.Uploads) > 0 {
			empty = 0
		}
		for _, u := range p.Uploads {
			k, below := strings.CutPrefix(u.Key, s.prefix)
			if _, err := s.key(names.Key(k)); err != nil || !below || p.listed.Sub(u.Initiated) < older {
				continue
			}
			found, err := s.remove(ctx, u.Key, url.Values{"uploadId": {u.UploadID}})
			if err != nil {
				return removed, err
			}
			if found { // else it was completed meanwhile
				removed++
			}
		}
		next := p.NextKey + "\x00" + p.NextUploadID
		if !p.IsTruncated {
			return removed, nil
		}
		if seen[next] || empty == emptyPages {
			return removed, fmt.Errorf("%w: the list of uploads does not end", origin.ErrUnavailable)
		}
		seen[next] = true
		query.Set("key-marker", p.NextKey)
		query.Set("upload-id-marker", p.NextUploadID)
	}
}

// remove deletes an object or an upload with the attempts of a read. found is false if it was
// absent.
func (s *Store) remove(ctx context.Context, key string, query url.Values) (found bool, err error) {
	err = s.fetch.Retry(ctx, names.Key(key), func(ctx context.Context) error {
		a, err := s.client.send(ctx, request{method: http.MethodDelete, key: key, query: query})
		if err == nil && a.failed() && a.status != http.StatusNotFound {
			err = a.apiError()
		}
		if err != nil {
			return wrap(ctx, key, err)
		}
		found = !a.failed()
		return nil
	})
	return found, err
}

// retryUploadPage is uploadPage with the attempts of a read.
func (s *Store) retryUploadPage(ctx context.Context, query url.Values) (p *uploadPage, err error) {
	err = s.fetch.Retry(ctx, "uploads", func(ctx context.Context) error {
		if p, err = s.uploadPage(ctx, query); err != nil {
			return wrap(ctx, "uploads", err)
		}
		return nil
	})
	return p, err
}

// uploadPage returns a part of the list of uploads.
func (s *Store) uploadPage(ctx context.Context, query url.Values) (*uploadPage, error) {
	a, err := s.client.send(ctx, request{method: http.MethodGet, query: query})
	if err != nil {
		return nil, err
	}
	if a.failed() {
		return nil, a.apiError()
	}
	p := &uploadPage{listed: a.time()}
	if err := xml.Unmarshal(a.body, p); err != nil {
		return nil, errors.New("the list of uploads is not XML of S3")
	}
	return p, nil
}

// removeProbes deletes the keys that killed probes left.
func (s *Store) removeProbes(ctx context.Context, older time.Duration) (removed int, err error) {
	for o, err := range s.list(ctx, s.prefix+tmpPrefix, "") {
		if err != nil {
			return removed, err
		}
		if !strings.HasPrefix(o.Key, s.prefix+probePrefix) {
			continue
		}
		if o.listed.IsZero() {
			return removed, errNoTime
		}
		if o.listed.Sub(o.LastModified) < older {
			continue
		}
		if _, err := s.remove(ctx, o.Key, nil); err != nil {
			return removed, err
		}
		removed++
	}
	return removed, nil
}

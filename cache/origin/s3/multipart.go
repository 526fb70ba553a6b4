package s3

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
)

// A longer object is uploaded in parts, so that a fault costs one part.
const (
	maxSinglePut = 16 << 20
	partSize     = 8 << 20
	maxParts     = 4 // uploads of one object at once
	partTries    = 5
)

// chunks yields the parts of a value.
func chunks(value []byte) iter.Seq[[]byte] { return slices.Chunk(value, partSize) }

// A part is one uploaded part, in the form of the request that completes the upload.
type part struct {
	XMLName    xml.Name `xml:"Part"`
	PartNumber int
	ETag       string
	CRC        string `xml:"ChecksumCRC32C,omitempty"`
}

// putParts writes an object in parts. The condition belongs to the request that completes it:
// only then the object exists.
func (s *Store) putParts(ctx context.Context, key string, value []byte, cond condition, sum checksum) (origin.Tag, error) {
	id, err := s.createUpload(ctx, key, sum)
	if err != nil {
		return "", err
	}
	parts, err := s.sendParts(ctx, key, id, value, sum)
	if err != nil {
		s.abort(ctx, key, id)
		return "", err
	}
	tag, err := s.complete(ctx, key, id, parts, cond)
	if err != nil && !errors.Is(err, origin.ErrUnknown) {
		s.abort(ctx, key, id)
	}
	return tag, err
}

func (s *Store) createUpload(ctx context.Context, key string, sum checksum) (id string, err error) {
	header := map[string]string{}
	if sum == byCRC32C {
		header["X-Amz-Checksum-Algorithm"] = "CRC32C"
		header["X-Amz-Checksum-Type"] = "COMPOSITE"
	}
	a, err := s.client.send(ctx, request{method: http.MethodPost, key: key, query: url.Values{"uploads": {""}}, header: header})
	if err != nil {
		return "", unsent(err) // or the answer is lost: no object exists yet
	}
	if a.failed() {
		return "", a.apiError()
	}
	var created struct {
		XMLName  xml.Name `xml:"InitiateMultipartUploadResult"`
		UploadID string   `xml:"UploadId"`
	}
	if err := xml.Unmarshal(a.body, &created); err != nil || created.UploadID == "" {
		return "", fmt.Errorf("%w: the answer names no upload", origin.ErrUnavailable)
	}
	return created.UploadID, nil
}

// sendParts uploads all parts, up to maxParts at once.
func (s *Store) sendParts(ctx context.Context, key, id string, value []byte, sum checksum) ([]part, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	parts := make([]part, (len(value)+partSize-1)/partSize)
	turns := make(chan struct{}, maxParts)
	var senders sync.WaitGroup
	i := 0
	for body := range chunks(value) {
		turns <- struct{}{}
		n := i
		i++
		senders.Go(func() {
			defer func() { <-turns }()
			var err error
			if parts[n], err = s.sendPart(ctx, key, id, n+1, body, sum); err != nil {
				cancel(err)
			}
		})
	}
	senders.Wait()
	return parts, context.Cause(ctx)
}

// sendPart uploads one part. A part has no name in the store, so it may be sent repeatedly. A
// panic is an error: parts have goroutines of their own.
func (s *Store) sendPart(ctx context.Context, key, id string, number int, body []byte, sum checksum) (p part, err error) {
	defer flight.Guard(&err)
	query := url.Values{"partNumber": {strconv.Itoa(number)}, "uploadId": {id}}
	for try := 1; ; try++ {
		a, err := s.client.send(ctx, request{method: http.MethodPut, key: key, query: query, header: sum.header(body), body: body})
		if err == nil && !a.failed() {
			return part{PartNumber: number, ETag: a.header.Get("ETag"), CRC: a.header.Get(crcHeader)}, nil
		}
		if err == nil {
			e := a.apiError()
			if !e.isTemporary() && !e.isDamage() {
				return part{}, e
			}
			err = e
		}
		if try == partTries || ctx.Err() != nil || errors.Is(err, errCredentials) {
			return part{}, fmt.Errorf("part %d: %w", number, unsent(err))
		}
		if err := pause(ctx, try, err); err != nil {
			return part{}, err
		}
	}
}

// complete makes an object of the parts.
func (s *Store) complete(ctx context.Context, key, id string, parts []part, cond condition) (origin.Tag, error) {
	body, err := xml.Marshal(struct {
		XMLName xml.Name `xml:"CompleteMultipartUpload"`
		Parts   []part
	}{Parts: parts})
	if err != nil {
		return "", err
	}
	header := map[string]string{"Content-Type": "application/xml"}
	if cond.header != "" {
		header[cond.header] = cond.value
	}
	a, err := s.client.send(ctx, request{method: http.MethodPost, key: key, query: url.Values{"uploadId": {id}}, header: header, body: body})
	if err := outcome(a, err, cond); err != nil {
		return "", err
	}
	var completed struct {
		XMLName xml.Name `xml:"CompleteMultipartUploadResult"`
		ETag    string
	}
	if err := xml.Unmarshal(a.body, &completed); err != nil || completed.ETag == "" {
		return "", fmt.Errorf("%w: the answer names no object", origin.ErrUnknown)
	}
	return origin.Tag(completed.ETag), nil
}

// abort ends an upload that will not be completed. The sweep finds those that remain.
func (s *Store) abort(ctx context.Context, key, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stallLimit)
	defer cancel()
	_, _ = s.client.send(ctx, request{method: http.MethodDelete, key: key, query: url.Values{"uploadId": {id}}})
}

package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/signer"

	"github.com/xetfs/xetfs/cache/origin"
)

// A client sends signed requests to one bucket.
type client struct {
	http     http.RoundTripper
	endpoint endpoint
	bucket   string
	creds    *credentials.Credentials
}

// A request is one call of the S3 API without the bytes of an object in the answer.
type request struct {
	method string
	key    string // of the object in the bucket; "": the bucket
	query  url.Values
	header map[string]string
	body   []byte
}

// An answer is a whole answer.
type answer struct {
	status int
	header http.Header
	body   []byte
	sent   bool // the server may have received the request; also set beside an error
}

// time returns when the server sent the answer, by its clock; zero: unknown.
func (a *answer) time() time.Time {
	t, _ := http.ParseTime(a.header.Get("Date"))
	return t
}

// maxAnswer bounds an answer without the bytes of an object. A listing of 1,000 keys has at most
// 3 MB.
const maxAnswer = 8 << 20

// stallLimit ends a request of which no byte was sent or received for this time. Buffers of the
// machine hold up to 4 MiB, which take half of it at 1 Mbit/s.
const stallLimit = time.Minute

var errStalled = fmt.Errorf("no byte was sent or received for %v", stallLimit)

// A progressReader reports every read.
type progressReader struct {
	io.Reader
	progress func()
}

// Read implements io.Reader.
func (r progressReader) Read(p []byte) (int, error) {
	r.progress()
	return r.Reader.Read(p)
}

// send sends a request once and returns the answer with any status. Keys that have expired at
// the server are renewed once.
func (c *client) send(ctx context.Context, q request) (*answer, error) {
	a, err := c.sendOnce(ctx, q)
	if err == nil && a.code() == "ExpiredToken" {
		c.creds.Expire()
		return c.sendOnce(ctx, q)
	}
	return a, err
}

func (c *client) sendOnce(ctx context.Context, q request) (*answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(stallLimit, func() { cancel(errStalled) })
	defer timer.Stop()
	a, err := c.exchange(ctx, q, func() { timer.Reset(stallLimit) })
	if err != nil && errors.Is(context.Cause(ctx), errStalled) {
		err = errStalled
	}
	return a, err
}

// exchange sends a request and reads the answer. It calls progress for each piece of both.
func (c *client) exchange(ctx context.Context, q request, progress func()) (*answer, error) {
	var sent atomic.Bool
	r, err := c.build(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { sent.Store(true) },
	}), q)
	if err != nil {
		return &answer{}, err
	}
	if len(q.body) > 0 {
		r.Body = io.NopCloser(progressReader{bytes.NewReader(q.body), progress})
	}
	resp, err := c.http.RoundTrip(r)
	if err != nil {
		return &answer{sent: sent.Load()}, withoutAddress(err)
	}
	defer resp.Body.Close()
	a := &answer{status: resp.StatusCode, header: resp.Header, sent: true}
	a.body, err = origin.ReadBounded(progressReader{resp.Body, progress}, min(max(resp.ContentLength, 0), maxAnswer)+1, maxAnswer+1)
	switch {
	case err != nil:
		return a, err
	case len(a.body) > maxAnswer:
		return a, fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	case q.method != http.MethodHead && resp.ContentLength > int64(len(a.body)): // net/http reports the same
		return a, io.ErrUnexpectedEOF
	}
	return a, nil
}

// build returns the signed request.
func (c *client) build(ctx context.Context, q request) (*http.Request, error) {
	u := c.endpoint.url(c.bucket, q.key)
	u.RawQuery = q.query.Encode()
	r, err := http.NewRequestWithContext(ctx, q.method, u.String(), bytes.NewReader(q.body))
	if err != nil {
		return nil, withoutAddress(err)
	}
	r.GetBody = nil // net/http never sends a write again
	r.Header.Set("User-Agent", "xetfs")
	for name, value := range q.header {
		r.Header.Set(name, value)
	}
	return r, c.sign(r, q.body)
}

// emptySum is the SHA-256 of no bytes.
const emptySum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// sign adds the signature to a request. TLS protects the body on an https connection; on
// others the signature covers the body.
func (c *client) sign(r *http.Request, body []byte) error {
	v, err := c.creds.GetWithContext(&credentials.CredContext{Context: r.Context()})
	if err != nil || v.SignerType.IsAnonymous() {
		return err
	}
	sum := emptySum
	switch {
	case len(body) == 0:
	case r.URL.Scheme == "https":
		sum = "UNSIGNED-PAYLOAD"
	default:
		s := sha256.Sum256(body)
		sum = hex.EncodeToString(s[:])
	}
	r.Header.Set("X-Amz-Content-Sha256", sum)
	signed := signer.SignV4(*r, v.AccessKeyID, v.SecretAccessKey, v.SessionToken, c.endpoint.region)
	r.Header, r.URL = signed.Header, signed.URL
	return nil
}

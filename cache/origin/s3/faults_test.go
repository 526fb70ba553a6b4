package s3_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/s3"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

var (
	refKey  = names.RefKey("org/model")
	xorbKey = names.XorbKey(codec.Hash{1, 2, 3})
)

// A network changes requests and answers of one store.
type network struct {
	below http.RoundTripper
	fault func(n int, r *http.Request, pass func() (*http.Response, error)) (*http.Response, error)

	on     atomic.Bool
	mu     sync.Mutex
	writes int // since the fault was switched on; guarded by mu
}

// RoundTrip implements http.RoundTripper.
func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	pass := func() (*http.Response, error) { return n.below.RoundTrip(r) }
	if !n.on.Load() || r.Method == http.MethodGet || r.Method == http.MethodHead {
		return pass()
	}
	n.mu.Lock()
	n.writes++
	number := n.writes
	n.mu.Unlock()
	return n.fault(number, r, pass)
}

// answer returns an answer without the server.
func answer(r *http.Request, status int, body string) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}, nil
}

func codeBody(code string) string { return "<Error><Code>" + code + "</Code></Error>" }

// lost carries out the request and loses the answer.
func lost(r *http.Request, pass func() (*http.Response, error)) (*http.Response, error) {
	resp, err := pass()
	if err != nil {
		return nil, err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return nil, errors.New("connection reset by peer")
}

// onFirst applies a fault to the first write.
func onFirst(fault func(r *http.Request, pass func() (*http.Response, error)) (*http.Response, error)) func(int, *http.Request, func() (*http.Response, error)) (*http.Response, error) {
	return func(n int, r *http.Request, pass func() (*http.Response, error)) (*http.Response, error) {
		if n == 1 {
			return fault(r, pass)
		}
		return pass()
	}
}

func statusFault(status int, code string) func(r *http.Request, pass func() (*http.Response, error)) (*http.Response, error) {
	return func(r *http.Request, _ func() (*http.Response, error)) (*http.Response, error) {
		return answer(r, status, codeBody(code))
	}
}

// flipped changes a bit of the upload.
func flipped(r *http.Request, pass func() (*http.Response, error)) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	body[0] ^= 1
	r.Body = io.NopCloser(bytes.NewReader(body))
	return pass()
}

// TestO30_WriteFaults is a table of faults of the first request of a write. A reference is sent
// once if the outcome is unknown. A xorb is sent until it is stored.
func TestO30_WriteFaults(t *testing.T) {
	tests := []struct {
		name        string
		fault       func(r *http.Request, pass func() (*http.Response, error)) (*http.Response, error)
		ref         error // of a reference
		refs, xorbs int   // writes
	}{
		{"no fault", func(_ *http.Request, pass func() (*http.Response, error)) (*http.Response, error) { return pass() }, nil, 1, 1},
		{"answer lost", lost, origin.ErrUnknown, 1, 2},
		{"500", statusFault(500, "InternalError"), origin.ErrUnknown, 1, 2},
		{"503", statusFault(503, "SlowDown"), origin.ErrUnknown, 1, 2},
		{"an error in a 200", statusFault(200, "InternalError"), origin.ErrUnknown, 1, 2},
		{"409", statusFault(409, "ConditionalRequestConflict"), nil, 2, 2},
		{"429", statusFault(429, ""), nil, 2, 2},
		{"timeout of the upload", statusFault(400, "RequestTimeout"), nil, 2, 2},
		{"bits flipped", flipped, nil, 2, 2},
	}
	server := origintest.ServeS3(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := &network{below: http.DefaultTransport, fault: onFirst(tt.fault)}
			s := open(t, server, s3.Options{Transport: n})
			put(t, s, names.RefKey("other"), []byte("the probe is over"))
			for _, c := range []struct {
				key  names.Key
				want error
				n    int
			}{{refKey, tt.ref, tt.refs}, {xorbKey, nil, tt.xorbs}} {
				n.writes = 0
				n.on.Store(true)
				tag, err := s.PutIfAbsent(t.Context(), c.key, []byte("value"))
				n.on.Store(false)
				if !errors.Is(err, c.want) || n.writes != c.n {
					t.Errorf("PutIfAbsent(%s) = %v after %d writes, want %v after %d", c.key, err, n.writes, c.want, c.n)
				}
				if err == nil && (tag == "" || string(origintest.Get(t, s, c.key)) != "value") {
					t.Errorf("%s has tag %q and value %q", c.key, tag, origintest.Get(t, s, c.key))
				}
			}
		})
	}
}

// TestO30_MatchFaults is a table of answers to If-Match.
func TestO30_MatchFaults(t *testing.T) {
	tests := []struct {
		status int
		code   string
		want   error
	}{
		{412, "PreconditionFailed", origin.ErrConflict},
		{404, "NoSuchKey", origin.ErrConflict},
		{200, "PreconditionFailed", origin.ErrConflict},
		{404, "NoSuchBucket", origin.ErrUnavailable},
		{403, "AccessDenied", iofs.ErrPermission},
		{501, "NotImplemented", origin.ErrUnavailable},
		{502, "", origin.ErrUnknown},
	}
	n := &network{below: http.DefaultTransport}
	s := open(t, origintest.ServeS3(t), s3.Options{Transport: n})
	tag := put(t, s, refKey, []byte("one"))
	n.on.Store(true)
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.status, tt.code), func(t *testing.T) {
			n.fault = func(_ int, r *http.Request, _ func() (*http.Response, error)) (*http.Response, error) {
				return answer(r, tt.status, codeBody(tt.code))
			}
			if _, err := s.PutIfMatch(t.Context(), refKey, []byte("two"), tag); !errors.Is(err, tt.want) {
				t.Errorf("PutIfMatch = %v, want %v", err, tt.want)
			}
		})
	}
}

// TestO21_O22_Codes is a table of refusals: one kind and one sentence each.
func TestO21_O22_Codes(t *testing.T) {
	tests := []struct {
		status int
		body   string
		kind   error
		text   string
	}{
		{404, codeBody("NoSuchKey"), origin.ErrNotFound, "no such object"},
		{404, codeBody("NoSuchBucket"), origin.ErrUnavailable, "the bucket does not exist"},
		{503, codeBody("SlowDown"), origin.ErrUnavailable, "503 SlowDown"},
		{403, codeBody("InvalidAccessKeyId"), iofs.ErrPermission, "does not know the access key"},
		{403, codeBody("SignatureDoesNotMatch"), iofs.ErrPermission, "the secret key is wrong"},
		{400, codeBody("ExpiredToken"), iofs.ErrPermission, "the session of the credentials has expired"},
		{403, codeBody("RequestTimeTooSkewed"), iofs.ErrPermission, "the clock of this machine differs"},
		{307, "<Error><Code>TemporaryRedirect</Code></Error>", origin.ErrUnavailable, "the bucket is being set up, and its server sends requests elsewhere; try again in some minutes, or set AWS_REGION to its region"},
		{307, "<Error><Code>TemporaryRedirect</Code><Region>eu-west-1</Region></Error>", origin.ErrUnavailable, "the bucket is in region eu-west-1; set AWS_REGION=eu-west-1"},
		{301, "<Error><Code>PermanentRedirect</Code><Region>eu-west-1</Region></Error>", origin.ErrUnavailable, "the bucket is in region eu-west-1; set AWS_REGION=eu-west-1"},
		{400, "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>", origin.ErrUnavailable, "set AWS_REGION=eu-west-1"},
		{503, "<Error><Code>Slow", origin.ErrUnavailable, "503 Service Unavailable"},
		{503, "<html>busy</html>", origin.ErrUnavailable, "503 Service Unavailable"},
		{403, codeBody("AccessDenied"), origin.ErrUnavailable, "403: absent, or not allowed; the request had no credentials"},
		{403, codeBody("InvalidObjectState"), iofs.ErrPermission, "the object is archived; restore it"},
		{400, codeBody("InvalidBucketName"), origin.ErrUnavailable, "check it"},
		{413, "<html>", origin.ErrUnavailable, "client_max_body_size"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			transport := roundTripper(func(r *http.Request) (*http.Response, error) {
				body := tt.body
				if r.Method == http.MethodHead {
					body = ""
				}
				return answer(r, tt.status, body)
			})
			s := open(t, &origintest.S3{URL: "http://bucket.example"}, s3.Options{Attempts: 1, Transport: transport})
			_, _, getErr := s.Get(t.Context(), refKey, "")
			_, sizeErr := s.Size(t.Context(), refKey)
			for op, err := range map[string]error{"Get": getErr, "ReadAt": s.ReadAt(t.Context(), refKey, make([]byte, 1), 0), "Size": sizeErr} {
				if !errors.Is(err, tt.kind) || !strings.Contains(fmt.Sprint(err), tt.text) {
					t.Errorf("%s = %v, want %v with %q", op, err, tt.kind, tt.text)
				}
			}
		})
	}
}

type roundTripper func(r *http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestO23_WrongKeys reads from a server that checks signatures.
func TestO23_WrongKeys(t *testing.T) {
	server := origintest.ServeS3(t)
	tests := []struct{ name, variable, value, text string }{
		{"secret", "AWS_SECRET_ACCESS_KEY", "canary-secret", "the secret key is wrong"},
		{"access key", "AWS_ACCESS_KEY_ID", "CANARYACCESS", "does not know the access key"},
		{"region", "AWS_REGION", "eu-west-1", "AWS_REGION"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env := server.Env()
			env[tt.variable] = tt.value
			s := open(t, server, s3.Options{Getenv: getenv(env)})
			_, _, err := s.Get(t.Context(), refKey, "")
			if !strings.Contains(fmt.Sprint(err), tt.text) {
				t.Errorf("Get = %v, want %q", err, tt.text)
			}
			for _, secret := range []string{"canary-secret", "CANARYACCESS", server.Secret, "Signature="} {
				if strings.Contains(fmt.Sprint(err), secret) {
					t.Errorf("the error contains %q: %v", secret, err)
				}
			}
		})
	}
}

// TestStalledUpload uploads to a server that takes a part of the body, and then nothing.
func TestStalledUpload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodPut {
				return answer(r, http.StatusNotFound, "")
			}
			httptrace.ContextClientTrace(r.Context()).WroteHeaders()
			for range 5 {
				if _, err := io.CopyN(io.Discard, r.Body, 1000); err != nil {
					return nil, err
				}
				time.Sleep(40 * time.Second) // slow, but not stalled
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		s := openAt(t, &origintest.S3{URL: "http://bucket.example"}, "", s3.Options{Transport: transport, SingleWriter: true})
		start := time.Now()
		_, err := s.PutIfAbsent(t.Context(), refKey, make([]byte, 10_000))
		if !errors.Is(err, origin.ErrUnknown) || !strings.Contains(err.Error(), "no byte was sent or received for 1m0s") {
			t.Errorf("PutIfAbsent = %v", err)
		}
		if took := time.Since(start); took > 5*time.Minute {
			t.Errorf("it took %v", took)
		}
	})
}

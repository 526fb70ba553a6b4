package cas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// A query is a request for the plan of n bytes of a file from off on; n = 0: of the whole file.
type query struct {
	file   codec.Hash
	off, n int64

	batch int64 // number of a request for the plans of several files; 0: it is for one
}

// key names the query in errors.
func (q query) key() names.Key {
	if q.batch > 0 {
		return "plans of several files"
	}
	return names.Key("plan of file " + q.file.String())
}

// header returns the headers of the request.
func (q query) header() http.Header {
	if q.n == 0 {
		return nil
	}
	return http.Header{"Range": {fmt.Sprintf("bytes=%d-%d", q.off, q.off+q.n-1)}}
}

// A reply is a decoded answer, and how long its addresses are valid.
type reply struct {
	*Plan
	addresses map[string]*url.URL // parsed
	end       time.Time           // of the use of the addresses
	expiry    time.Time           // from which the server may refuse them; zero: unknown
}

// requestPlan requests a plan: version 2, or else version 1. A plan past the end of the file is empty. No
// file that has a hash ends before its first byte.
func (c *Client) requestPlan(ctx context.Context, q query) (*reply, error) {
	r, err := c.requestVersions(ctx, q)
	switch isPastEnd := errors.Is(err, fetch.ErrPastEnd); {
	case isPastEnd && q.off == 0:
		return nil, fmt.Errorf("%q: %w: the server says 416 Requested Range Not Satisfiable", q.key(), origin.ErrUnavailable)
	case isPastEnd:
		return &reply{Plan: new(Plan), end: c.now().Add(defaultLifetime)}, nil
	}
	return r, err
}

func (c *Client) requestVersions(ctx context.Context, q query) (*reply, error) {
	h, err := c.api(ctx)
	if err != nil {
		return nil, err
	}
	isMissing := false
	if !h.noV2.isAfter(c.now()) {
		r, err := c.request(ctx, q.key(), "/v2/reconstructions/"+q.file.String(), q.header(), DecodeV2)
		if err == nil {
			h.yesV2.set(c.now().Add(rememberFor))
		}
		isMissing = errors.Is(err, origin.ErrNotFound)
		if isMissing && h.yesV2.isAfter(c.now()) || !lacksVersion(err) {
			return r, err
		}
	}
	r, err := c.request(ctx, q.key(), "/v1/reconstructions/"+q.file.String(), q.header(), DecodeV1)
	switch {
	case err == nil:
		h.noV2.set(c.now().Add(rememberFor))
	case errors.Is(err, origin.ErrNotFound), isMissing && lacksVersion(err):
		return nil, fmt.Errorf("file %s: %w: the server has no plan of it", q.file, origin.ErrNotFound)
	}
	return r, err
}

// lacksVersion reports whether an error means that the server lacks a version of the API, or the
// file.
func lacksVersion(err error) bool {
	c := code(err)
	return errors.Is(err, origin.ErrNotFound) || c == http.StatusNotImplemented || c == http.StatusMethodNotAllowed
}

// api returns the current server of the API.
func (c *Client) api(ctx context.Context) (*host, error) {
	t, err := c.tokens.get(ctx)
	if err != nil {
		return nil, err
	}
	return c.hosts.get(roleAPI, t.base)
}

// request sends a request to the API with the current token. After a 401 it uses a new token.
func (c *Client) request(ctx context.Context, k names.Key, path string, header http.Header, decode func([]byte) (*Plan, error)) (*reply, error) {
	for refused, forbidden := 0, false; ; {
		t, err := c.tokens.get(ctx)
		if err != nil {
			return nil, err
		}
		h, err := c.hosts.get(roleAPI, t.base)
		if err != nil {
			return nil, err
		}
		begin := c.now()
		body, answer, err := h.Get(ctx, fetch.Request{
			Key: k, URL: t.base.String() + path, Header: header,
			Prepare: func(r *http.Request) error { t.authorize(r); return nil },
		}, MaxPlan)
		switch code(err) {
		case http.StatusUnauthorized:
			c.tokens.refuse(t)
			if refused++; refused == maxRenewals { // other requests with the same tokens succeed
				return nil, fmt.Errorf("%q: %w", k, errToken)
			}
			continue
		case http.StatusForbidden:
			if err := c.tokens.renewForbidden(ctx, t, path, forbidden); err != nil {
				return nil, fmt.Errorf("%q: %w", k, err)
			}
			forbidden = true
			continue
		}
		if err == nil || errors.Is(err, origin.ErrNotFound) {
			c.tokens.accept()
		}
		if err != nil {
			return nil, err
		}
		p, err := decode(body)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", k, err)
		}
		return newReply(k, p, t.base, begin, answer)
	}
}

// defaultLifetime is how long addresses without a known end are used.
const defaultLifetime = 55 * time.Minute

// newReply checks the addresses of a plan. begin is the time before the request.
func newReply(k names.Key, p *Plan, base *url.URL, begin time.Time, answer http.Header) (*reply, error) {
	r := &reply{Plan: p, addresses: map[string]*url.URL{}}
	date, _ := http.ParseTime(answer.Get("Date"))
	lifetime := time.Duration(0)
	for x, fetches := range p.Fetch {
		for _, f := range fetches {
			u, err := parseTransfer(f.URL, base)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", k, codec.Corrupt(what, 0, "the address for xorb %s: %v", x, err))
			}
			r.addresses[f.URL] = u
			if l := lifetimeOf(u, date); l > 0 && (lifetime == 0 || l < lifetime) {
				lifetime = l
			}
		}
	}
	if lifetime > 0 {
		r.expiry = begin.Add(lifetime - min(time.Second, lifetime/2)) // both times are in whole seconds
	}
	r.end = begin.Add(usable(cmp.Or(lifetime, defaultLifetime)))
	return r, nil
}

// parseTransfer checks the address of a transfer. Plain http is only accepted from a server of
// plain http (S11).
func parseTransfer(address string, base *url.URL) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("it is no address")
	}
	if err := checkAddress(u); err != nil {
		return nil, err
	}
	if u.Scheme == "http" && base.Scheme == "https" {
		return nil, errors.New("it is plain http, and the server has https")
	}
	return u, nil
}

// lifetimeOf returns the lifetime in the query of a signed address; 0: unknown. date is the time
// of the answer by the clock of the server, zero if it sends none.
func lifetimeOf(u *url.URL, date time.Time) time.Duration {
	for part := range strings.SplitSeq(u.RawQuery, "&") {
		name, value, _ := strings.Cut(part, "=")
		n, err := strconv.ParseInt(value, 10, 62)
		if err != nil || n <= 0 {
			continue
		}
		switch strings.ToLower(name) {
		case "x-amz-expires", "x-goog-expires":
			return time.Duration(min(n, maxLifetime)) * time.Second
		case "expires":
			if left := n - date.Unix(); !date.IsZero() && left > 0 {
				return time.Duration(min(left, maxLifetime)) * time.Second
			}
		}
	}
	return 0
}

// maxLifetime bounds the lifetime of an address, in seconds.
const maxLifetime = 7 * 24 * 3600

package s3

import (
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"net/http"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/codec/names"
)

// A stat describes an object.
type stat struct {
	size int64
	tag  origin.Tag
	sum  storedSum
}

// read calls f with a request for object k. Keys that have expired at the server are renewed
// once.
func (s *Store) read(ctx context.Context, k names.Key, header http.Header, f func(r fetch.Request) error) error {
	key, err := s.key(k)
	if err != nil {
		return err
	}
	r := fetch.Request{
		Key: k, URL: s.client.endpoint.url(s.bucket, key).String(), Names: !isData(k), Header: header,
		Prepare: func(r *http.Request) error { return s.client.sign(r, nil) },
	}
	err = f(r)
	var e *apiError
	if errors.As(err, &e) && e.code == "ExpiredToken" {
		s.client.creds.Expire()
		err = f(r)
	}
	return s.readError(ctx, k, err)
}

// isData reports whether k is a shard or xorb.
func isData(k names.Key) bool {
	p, err := names.ParseKey(k)
	return err == nil && (p.Kind == names.ShardKind || p.Kind == names.XorbKind)
}

// readError returns err, unless err is a 403. A server answers 403 for a missing object if the
// credentials may not list the bucket.
func (s *Store) readError(ctx context.Context, k names.Key, err error) error {
	var e *apiError
	if !errors.As(err, &e) || e.status != http.StatusForbidden || e.code != "" && e.code != "AccessDenied" {
		return err
	}
	if s.blind.Load() {
		return s.hidden(ctx, k)
	}
	exists, err := s.lists(ctx, s.prefix+string(k))
	switch {
	case errors.As(err, &e) && e.isRefused():
		s.blind.Store(true)
		return s.hidden(ctx, k)
	case err != nil:
		return wrap(ctx, string(k), err)
	case exists:
		return fmt.Errorf("%q: %w: 403: reading is not allowed", k, iofs.ErrPermission)
	}
	return fmt.Errorf("%q: %w", k, origin.ErrNotFound)
}

// hidden is the error of a 403 for an object that may be absent.
func (s *Store) hidden(ctx context.Context, k names.Key) error {
	next := "allow the credentials to list and read the bucket"
	if v, err := s.client.creds.GetWithContext(&credentials.CredContext{Context: ctx}); err == nil && v.SignerType.IsAnonymous() {
		next = "the request had no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
	}
	return &origin.HintError{Err: fmt.Errorf("%q: %w: 403: absent, or not allowed; %s", k, origin.ErrUnavailable, next), Tries: 1}
}

// ReadAt implements origin.Store.
func (s *Store) ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error {
	return s.ReadAtProgress(ctx, k, p, off, func(int) {})
}

// ReadAtProgress implements origin.ProgressReader.
func (s *Store) ReadAtProgress(ctx context.Context, k names.Key, p []byte, off int64, progress func(n int)) error {
	return s.read(ctx, k, nil, func(r fetch.Request) error { return s.fetch.ReadAt(ctx, r, p, off, progress) })
}

// ReadPart implements origin.PartReader.
func (s *Store) ReadPart(ctx context.Context, k names.Key, off int64, n int) (part origin.Part, err error) {
	err = s.read(ctx, k, nil, func(r fetch.Request) (err error) {
		part, err = s.fetch.ReadPart(ctx, r, off, n)
		return err
	})
	return part, err
}

// ReadWhole implements origin.WholeReader.
func (s *Store) ReadWhole(ctx context.Context, k names.Key, off int64, take func(b []byte, size int64) error) error {
	return s.read(ctx, k, nil, func(r fetch.Request) error { return s.fetch.ReadWhole(ctx, r, off, take) })
}

// Get implements origin.Store.
func (s *Store) Get(ctx context.Context, k names.Key, seen origin.Tag) (value []byte, tag origin.Tag, err error) {
	header := http.Header{}
	if seen != "" {
		header.Set("If-None-Match", string(seen))
	}
	err = s.read(ctx, k, header, func(r fetch.Request) error {
		b, h, err := s.fetch.Get(ctx, r, origin.MaxObject(k))
		value, tag = b, origin.Tag(h.Get("ETag"))
		return err
	})
	if errors.Is(err, origin.ErrUnchanged) {
		return nil, seen, err
	}
	return value, tag, err
}

// Size implements origin.Store.
func (s *Store) Size(ctx context.Context, k names.Key) (int64, error) {
	o, err := s.stat(ctx, k)
	return o.size, err
}

// stat returns size, tag and checksum of an object. An error in the answer to HEAD has no body,
// so a read of one byte learns its reason.
func (s *Store) stat(ctx context.Context, k names.Key) (o stat, err error) {
	header := http.Header{"X-Amz-Checksum-Mode": {"ENABLED"}}
	err = s.read(ctx, k, header, func(r fetch.Request) error {
		size, h, err := s.fetch.Head(ctx, r)
		o = stat{size, origin.Tag(h.Get("ETag")), sumOf(h)}
		isAnswer := errors.As(err, new(*apiError)) || errors.Is(err, origin.ErrNotFound)
		if isAnswer {
			r.Header = nil
			if _, why := s.fetch.ReadPart(ctx, r, 0, 1); why != nil {
				return why
			}
		}
		return err
	})
	return o, err
}

// Matches implements origin.Matcher with the size and the checksum of the object.
func (s *Store) Matches(ctx context.Context, k names.Key, value []byte) (bool, error) {
	o, err := s.stat(ctx, k)
	return err == nil && o.size == int64(len(value)) && o.sum.matches(value), err
}

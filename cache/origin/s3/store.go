package s3

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/fetch"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
)

// A Store is a store in a bucket, or below a prefix in it. It is safe for concurrent use.
type Store struct {
	place
	client *client
	fetch  *fetch.Client
	log    *slog.Logger
	cached ConditionCache
	single bool           // Options.SingleWriter
	alone  [32]sync.Mutex // of writes by key, if single

	named atomic.Bool // a foreign key was logged
	blind atomic.Bool // the credentials may not list the bucket

	probing    flight.Group[struct{}, *Conditions] // all writes wait for one probe
	conditions atomic.Pointer[Conditions]          // nil: not known yet
}

var (
	_ origin.WriteStore     = (*Store)(nil)
	_ origin.PartReader     = (*Store)(nil)
	_ origin.ProgressReader = (*Store)(nil)
	_ origin.WholeReader    = (*Store)(nil)
	_ origin.Matcher        = (*Store)(nil)
	_ origin.StrayRemover   = (*Store)(nil)
)

// tmpPrefix begins keys that only live for a short time.
const tmpPrefix = "tmp/"

// Open returns the store at s3://BUCKET/PREFIX. It sends no request yet.
func Open(address string, o Options) (*Store, error) {
	p, err := parse(address)
	if err != nil {
		return nil, err
	}
	o = o.withDefaults()
	e, err := o.endpoint(p.bucket)
	if err != nil {
		return nil, err
	}
	f := fetch.New(&e.base, fetch.Options{
		RootCAs: o.RootCAs, Transport: o.Transport, NoRedirects: true, Classify: classify,
		Limits: o.Limits, Attempts: o.Attempts, Logger: o.Logger, Counters: o.Counters,
	})
	c := &client{http: f.Transport(), endpoint: e, bucket: p.bucket, creds: newCredentials(o)}
	return &Store{place: p, client: c, fetch: f, log: o.Logger, cached: o.Conditions, single: o.SingleWriter}, nil
}

// Close waits for a probe without a writer, and closes the idle connections.
func (s *Store) Close() error {
	s.probing.Wait()
	s.fetch.Close()
	return nil
}

// Local reports false: requests take time.
func (s *Store) Local() bool { return false }

// String returns the address of the store.
func (s *Store) String() string { return Scheme + s.bucket + "/" + s.prefix }

// URL returns the address of the store at its server. It contains no secrets.
func (s *Store) URL() string { return s.client.endpoint.url(s.bucket, s.prefix).String() }

// key returns the key of an object in the bucket.
func (s *Store) key(k names.Key) (string, error) {
	if _, err := names.ParseKey(k); err != nil && k != listing.Key {
		return "", fmt.Errorf("%q: %w: not a key", k, origin.ErrNotFound)
	}
	return s.prefix + string(k), nil
}

// Sync implements origin.WriteStore. A bucket is durable when it answers.
func (s *Store) Sync(ctx context.Context) error { return ctx.Err() }

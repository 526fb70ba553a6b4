package s3

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
)

// Conditions are the result of a probe: the conditions of writes that a bucket honours.
type Conditions struct {
	Time     time.Time
	Ignored  string `json:",omitempty"` // the first ignored condition; "": none
	Checksum string // by which the server compares uploads: crc32c or md5
}

// A ConditionCache stores the Conditions of buckets between processes. id names a bucket at an
// endpoint. A lost result costs one more probe.
type ConditionCache interface {
	Conditions(id string) (c Conditions, ok bool)
	PutConditions(id string, c Conditions)
}

const (
	probeLifetime   = 30 * 24 * time.Hour
	refusalLifetime = time.Hour // of a probe of a bucket that ignores conditions
	probePrefix     = tmpPrefix + "probe-"
	probeTries      = 4
)

// isFresh reports whether the bucket need not be probed again.
func (c Conditions) isFresh() bool {
	lifetime := probeLifetime
	if c.Ignored != "" {
		lifetime = refusalLifetime
	}
	return time.Since(c.Time) < lifetime
}

// ErrIgnoresConditions means that a bucket does not honour conditional writes.
var ErrIgnoresConditions = errors.New("the bucket ignores conditions of writes")

// prepareWrites returns the checksum of uploads. It returns ErrIgnoresConditions for a bucket that
// is read-only for xetfs.
func (s *Store) prepareWrites(ctx context.Context) (checksum, error) {
	if s.single {
		return byCRC32C, nil
	}
	c := s.conditions.Load()
	if c == nil || !c.isFresh() {
		var err error
		if c, err = s.probing.Do(ctx, struct{}{}, s.loadConditions); err != nil {
			return "", fmt.Errorf("%s: probe of conditional writes: %w", s, err)
		}
	}
	if c.Ignored != "" {
		return "", fmt.Errorf("%s: %w: %w: %s; two writers could lose versions; use another bucket, or --single-writer with exactly one writer",
			s, errors.ErrUnsupported, ErrIgnoresConditions, c.Ignored)
	}
	return checksum(c.Checksum), nil
}

// loadConditions sets s.conditions to the stored result, or to the result of a new probe.
func (s *Store) loadConditions(ctx context.Context) (*Conditions, error) {
	if c := s.conditions.Load(); c != nil && c.isFresh() {
		return c, nil // another call has ended meanwhile
	}
	c, err := s.storedConditions(ctx)
	if err != nil {
		return nil, err
	}
	s.conditions.Store(&c)
	return &c, nil
}

// storedConditions returns the stored result, or probes the bucket.
func (s *Store) storedConditions(ctx context.Context) (Conditions, error) {
	id := s.client.endpoint.url(s.bucket, "").String()
	if s.cached != nil {
		if c, ok := s.cached.Conditions(id); ok && c.isFresh() {
			return c, nil
		}
	}
	c, err := s.probe(ctx)
	for try := 1; try < probeTries && errors.Is(err, origin.ErrUnavailable); try++ {
		if pause(ctx, try, err) == nil {
			c, err = s.probe(ctx) // with other keys: an answer may be lost
		}
	}
	if err != nil {
		return c, err
	}
	if s.cached != nil {
		s.cached.PutConditions(id, c)
	}
	return c, nil
}

// probe tests the conditions of writes with two keys below PREFIX/tmp/, and deletes them.
func (s *Store) probe(ctx context.Context) (Conditions, error) {
	name := s.prefix + probePrefix + rand.Text()
	first, second := name+"-1", name+"-2"
	defer s.removeProbe(ctx, first, second)
	c := Conditions{Time: time.Now(), Checksum: string(byCRC32C)}
	one, err := s.probePut(ctx, first, "one", ifAbsent(), &c)
	if err != nil {
		return c, err
	}
	tests := []struct {
		key, ignored string
		cond         condition
		succeeds     bool
	}{
		{first, "If-None-Match of an existing key", ifAbsent(), false},
		{first, "", ifMatch(one), true}, // one is stale after it
		{first, "If-Match of an old version", ifMatch(one), false},
		{second, "If-Match of a missing key", ifMatch(one), false},
	}
	for i, tt := range tests {
		_, err := s.probePut(ctx, tt.key, fmt.Sprint("value ", i), tt.cond, &c)
		switch {
		case err == nil && !tt.succeeds:
			c.Ignored = tt.ignored
			return c, nil
		case err == nil && tt.succeeds, errors.Is(err, tt.cond.failed) && !tt.succeeds:
		default:
			return c, err
		}
	}
	return c, s.probeRead(ctx, first, "value 1")
}

// probePut writes a key of a probe. It notes a server without CRC32C.
func (s *Store) probePut(ctx context.Context, key, value string, cond condition, c *Conditions) (origin.Tag, error) {
	header := checksum(c.Checksum).header([]byte(value))
	header[cond.header] = cond.value
	a, err := s.client.send(ctx, request{method: http.MethodPut, key: key, header: header, body: []byte(value)})
	if err == nil && a.status == http.StatusNotImplemented && c.Checksum == string(byCRC32C) {
		c.Checksum = string(byMD5)
		return s.probePut(ctx, key, value, cond, c)
	}
	if err := outcome(a, err, cond); err != nil {
		if errors.Is(err, cond.failed) {
			return "", err
		}
		return "", wrap(ctx, key, err)
	}
	if a.header.Get(crcHeader) == "" {
		c.Checksum = string(byMD5) // the server does not compare the other
	}
	return origin.Tag(a.header.Get("ETag")), nil
}

// probeRead compares the object with the value that was written last.
func (s *Store) probeRead(ctx context.Context, key, value string) error {
	a, err := s.client.send(ctx, request{method: http.MethodGet, key: key})
	switch {
	case err != nil:
		return wrap(ctx, key, err)
	case a.failed():
		return wrap(ctx, key, a.apiError())
	case string(a.body) != value:
		return fmt.Errorf("%w: a read after a write returns an older value", errors.ErrUnsupported)
	}
	return nil
}

// removeProbe deletes the keys of a probe. RemoveStray deletes those that remain.
func (s *Store) removeProbe(ctx context.Context, keys ...string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stallLimit)
	defer cancel()
	for _, k := range keys {
		_ = s.deleteOnce(ctx, k)
	}
}

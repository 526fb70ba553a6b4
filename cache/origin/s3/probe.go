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

// A Probe is what the test of a bucket showed: which conditions of writes it honours.
type Probe struct {
	Time     time.Time
	Ignored  string `json:",omitempty"` // the first ignored condition; "": none
	Checksum string // by which the server compares uploads: crc32c or md5
}

// A ProbeCache stores results of probes between processes. id names a bucket at an endpoint.
// A lost result costs one more probe.
type ProbeCache interface {
	Probe(id string) (p Probe, ok bool)
	PutProbe(id string, p Probe)
}

const (
	probeLifetime   = 30 * 24 * time.Hour
	refusalLifetime = time.Hour // of a probe of a bucket that ignores conditions
	probePrefix     = tmpPrefix + "probe-"
	probeTries      = 4
)

// isFresh reports whether the bucket need not be probed again.
func (p Probe) isFresh() bool {
	lifetime := probeLifetime
	if p.Ignored != "" {
		lifetime = refusalLifetime
	}
	return time.Since(p.Time) < lifetime
}

// ErrIgnoresConditions means that a bucket does not honour conditional writes.
var ErrIgnoresConditions = errors.New("the bucket ignores conditions of writes")

// prepareWrites returns the checksum of uploads. It returns ErrIgnoresConditions for a bucket that
// is read-only for xetfs.
func (s *Store) prepareWrites(ctx context.Context) (checksum, error) {
	if s.single {
		return byCRC32C, nil
	}
	p := s.probe.Load()
	if p == nil || !p.isFresh() {
		var err error
		if p, err = s.probing.Do(ctx, struct{}{}, s.loadProbe); err != nil {
			return "", fmt.Errorf("%s: probe of conditional writes: %w", s, err)
		}
	}
	if p.Ignored != "" {
		return "", fmt.Errorf("%s: %w: %w: %s; two writers could lose versions; use another bucket, or --single-writer with exactly one writer",
			s, errors.ErrUnsupported, ErrIgnoresConditions, p.Ignored)
	}
	return checksum(p.Checksum), nil
}

// loadProbe sets s.probe to the stored result, or to the result of a new probe.
func (s *Store) loadProbe(ctx context.Context) (*Probe, error) {
	if p := s.probe.Load(); p != nil && p.isFresh() {
		return p, nil // another call has ended meanwhile
	}
	p, err := s.storedProbe(ctx)
	if err != nil {
		return nil, err
	}
	s.probe.Store(&p)
	return &p, nil
}

// storedProbe returns the stored result, or probes the bucket.
func (s *Store) storedProbe(ctx context.Context) (Probe, error) {
	id := s.client.endpoint.url(s.bucket, "").String()
	if s.probes != nil {
		if p, ok := s.probes.Probe(id); ok && p.isFresh() {
			return p, nil
		}
	}
	p, err := s.Probe(ctx)
	for try := 1; try < probeTries && errors.Is(err, origin.ErrUnavailable); try++ {
		if pause(ctx, try, err) == nil {
			p, err = s.Probe(ctx) // with other keys: an answer may be lost
		}
	}
	if err != nil {
		return p, err
	}
	if s.probes != nil {
		s.probes.PutProbe(id, p)
	}
	return p, nil
}

// Probe tests the conditions of writes with two keys below PREFIX/tmp/, and deletes them.
func (s *Store) Probe(ctx context.Context) (Probe, error) {
	name := s.prefix + probePrefix + rand.Text()
	first, second := name+"-1", name+"-2"
	defer s.removeProbe(ctx, first, second)
	p := Probe{Time: time.Now(), Checksum: string(byCRC32C)}
	one, err := s.probePut(ctx, first, "one", ifAbsent(), &p)
	if err != nil {
		return p, err
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
		_, err := s.probePut(ctx, tt.key, fmt.Sprint("value ", i), tt.cond, &p)
		switch {
		case err == nil && !tt.succeeds:
			p.Ignored = tt.ignored
			return p, nil
		case err == nil && tt.succeeds, errors.Is(err, tt.cond.failed) && !tt.succeeds:
		default:
			return p, err
		}
	}
	return p, s.probeRead(ctx, first, "value 1")
}

// probePut writes a key of a probe. It notes a server without CRC32C.
func (s *Store) probePut(ctx context.Context, key, value string, cond condition, p *Probe) (origin.Tag, error) {
	header := checksum(p.Checksum).header([]byte(value))
	header[cond.header] = cond.value
	a, err := s.client.send(ctx, request{method: http.MethodPut, key: key, header: header, body: []byte(value)})
	if err == nil && a.status == http.StatusNotImplemented && p.Checksum == string(byCRC32C) {
		p.Checksum = string(byMD5)
		return s.probePut(ctx, key, value, cond, p)
	}
	if err := outcome(a, err, cond); err != nil {
		if errors.Is(err, cond.failed) {
			return "", err
		}
		return "", wrap(ctx, key, err)
	}
	if a.header.Get(crcHeader) == "" {
		p.Checksum = string(byMD5) // the server does not compare the other
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

package s3

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// A condition is the header of a conditional write, and the kind of its failure.
type condition struct {
	header, value string
	failed        error
}

func ifAbsent() condition { return condition{"If-None-Match", "*", origin.ErrExists} }

func ifMatch(tag origin.Tag) condition {
	return condition{"If-Match", string(tag), origin.ErrConflict}
}

// PutIfAbsent implements origin.WriteStore.
func (s *Store) PutIfAbsent(ctx context.Context, k names.Key, value []byte) (origin.Tag, error) {
	return s.put(ctx, k, value, ifAbsent())
}

// PutIfMatch implements origin.WriteStore.
func (s *Store) PutIfMatch(ctx context.Context, k names.Key, value []byte, tag origin.Tag) (origin.Tag, error) {
	return s.put(ctx, k, value, ifMatch(tag))
}

func (s *Store) put(ctx context.Context, k names.Key, value []byte, cond condition) (origin.Tag, error) {
	key, err := s.key(k)
	if err != nil {
		return "", err
	}
	sum, err := s.prepareWrites(ctx)
	if err != nil {
		return "", err
	}
	if s.single {
		defer s.lockAlone(key)()
		if cond, err = s.checkAlone(ctx, k, cond); err != nil {
			return "", err
		}
	}
	return s.retryWrite(ctx, k, value, func() (origin.Tag, error) {
		if len(value) > maxSinglePut {
			return s.putParts(ctx, key, value, cond, sum)
		}
		return s.putOnce(ctx, key, value, cond, sum)
	})
}

// checkAlone compares the condition of a write for a bucket that may ignore conditions. No other
// process writes, so nothing changes between the comparison and the write.
func (s *Store) checkAlone(ctx context.Context, k names.Key, cond condition) (condition, error) {
	o, err := s.stat(ctx, k)
	switch {
	case errors.Is(err, origin.ErrNotFound) && cond.failed == origin.ErrExists: //nolint:errorlint // its own value
		return condition{failed: cond.failed}, nil
	case err != nil && !errors.Is(err, origin.ErrNotFound):
		return cond, err
	case err != nil || cond.failed == origin.ErrExists || string(o.tag) != cond.value: //nolint:errorlint // as above
		return cond, fmt.Errorf("%s: %w", k, cond.failed)
	}
	return condition{failed: cond.failed}, nil
}

// lockAlone excludes other writes of this process to an object, until the write has ended.
func (s *Store) lockAlone(key string) (unlock func()) {
	mu := &s.alone[crc32.ChecksumIEEE([]byte(key))%uint32(len(s.alone))]
	mu.Lock()
	return mu.Unlock
}

// putOnce writes an object with one request.
func (s *Store) putOnce(ctx context.Context, key string, value []byte, cond condition, sum checksum) (origin.Tag, error) {
	header := sum.header(value)
	if cond.header != "" {
		header[cond.header] = cond.value
	}
	a, err := s.client.send(ctx, request{method: http.MethodPut, key: key, header: header, body: value})
	if err = outcome(a, err, cond); err != nil {
		return "", err
	}
	return origin.Tag(a.header.Get("ETag")), nil
}

// outcome returns the kind of the result of a write.
func outcome(a *answer, err error, cond condition) error {
	switch {
	case err != nil && !a.sent:
		return unsent(err)
	case err != nil:
		return fmt.Errorf("%w: %w", origin.ErrUnknown, err)
	case !a.failed():
		return nil
	}
	e := a.apiError()
	switch {
	case e.status == http.StatusPreconditionFailed && cond.failed != nil:
		return cond.failed
	case e.isMissing() && cond.header == "If-Match":
		return cond.failed
	case e.status >= 500 && e.status != http.StatusNotImplemented:
		return fmt.Errorf("%w: %w", origin.ErrUnknown, e)
	}
	return e
}

// unsent returns the kind of an error of a request that the server has not received. A failed
// source of credentials is no reason to send the request again.
func unsent(err error) error {
	if errors.Is(err, errCredentials) {
		return err
	}
	return fmt.Errorf("%w: %w", origin.ErrUnavailable, err)
}

// The pauses between the tries of a write are random, up to writePause, doubled each time up to
// maxWritePause.
const (
	writeTries    = 8
	writePause    = 100 * time.Millisecond
	maxWritePause = 5 * time.Second
)

// retryWrite repeats a write that the server has not carried out. It repeats a write with an
// unknown outcome only if the name of the object is its content. The first one then stored the
// same bytes.
func (s *Store) retryWrite(ctx context.Context, k names.Key, value []byte, write func() (origin.Tag, error)) (origin.Tag, error) {
	unknown := false
	for try := 1; ; try++ {
		tag, err := write()
		if unknown && errors.Is(err, origin.ErrExists) {
			return s.ownWrite(ctx, k, value, err)
		}
		unknown = unknown || errors.Is(err, origin.ErrUnknown)
		if err == nil || !mayRepeat(k, err) || try == writeTries || ctx.Err() != nil {
			return tag, writeError(ctx, k, err, unknown)
		}
		s.log.DebugContext(ctx, "writing again", "event", "origin_retry", "key", string(k), "attempt", try, "err", err.Error())
		if err := pause(ctx, try, err); err != nil {
			return "", writeError(ctx, k, err, unknown)
		}
	}
}

// mayRepeat reports whether a write may be sent again.
func mayRepeat(k names.Key, err error) bool {
	if errors.Is(err, origin.ErrUnknown) {
		return isNamedByContent(k)
	}
	var e *apiError
	return errors.Is(err, origin.ErrUnavailable) || errors.As(err, &e) && (e.isTemporary() || e.isDamage())
}

// isNamedByContent reports whether every writer of k stores the same value.
func isNamedByContent(k names.Key) bool {
	p, err := names.ParseKey(k)
	if err != nil {
		return false
	}
	switch p.Kind {
	case names.PageKind, names.ShardKind, names.XorbKind, names.VersionKind:
		return true
	}
	return false
}

// isDamage reports whether the server received other bytes than were sent.
func (e *apiError) isDamage() bool {
	switch e.code {
	case "BadDigest", "InvalidDigest", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch", "IncompleteBody":
		return true
	}
	return false
}

// pause waits before the next try.
func pause(ctx context.Context, try int, err error) error {
	wait := rand.N(min(writePause<<(try-1), maxWritePause))
	var e *apiError
	if errors.As(err, &e) {
		wait = max(wait, min(e.after, maxWritePause))
	}
	return origin.Sleep(ctx, wait)
}

// ownWrite returns the tag of an existing object after a write with a lost answer. It returns
// the error exists if the object has another value.
func (s *Store) ownWrite(ctx context.Context, k names.Key, value []byte, exists error) (origin.Tag, error) {
	o, err := s.stat(ctx, k)
	switch {
	case err != nil:
		return "", writeError(ctx, k, fmt.Errorf("%w: %w", origin.ErrUnknown, err), true)
	case o.size == int64(len(value)) && o.sum.matches(value):
		return o.tag, nil
	}
	return "", fmt.Errorf("%s: %w", k, exists)
}

// writeError translates an error of a write. unknown: an earlier try may have happened.
func writeError(ctx context.Context, k names.Key, err error, unknown bool) error {
	switch {
	case err == nil:
		return nil
	case unknown && !errors.Is(err, origin.ErrUnknown):
		return fmt.Errorf("%s: %w: %w", k, origin.ErrUnknown, err)
	case ctx.Err() != nil && !errors.Is(err, ctx.Err()):
		return fmt.Errorf("%s: %w: %w", k, ctx.Err(), err)
	}
	var e *apiError
	if errors.As(err, &e) && !errors.Is(err, origin.ErrUnknown) {
		return wrap(ctx, string(k), err)
	}
	return fmt.Errorf("%s: %w", k, err)
}

// Delete implements origin.WriteStore. In a versioned bucket it leaves a delete marker.
func (s *Store) Delete(ctx context.Context, k names.Key) error {
	key, err := s.key(k)
	if err != nil {
		return err
	}
	_, err = s.retryWrite(ctx, k, nil, func() (origin.Tag, error) { return "", s.deleteOnce(ctx, key) })
	return err
}

// deleteOnce deletes an object with one request.
func (s *Store) deleteOnce(ctx context.Context, key string) error {
	a, err := s.client.send(ctx, request{method: http.MethodDelete, key: key})
	if err == nil && a.failed() && a.apiError().isMissing() {
		return nil
	}
	return outcome(a, err, condition{})
}

package wrap

import (
	"context"
	"iter"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec/names"
)

// RetryStore returns a Store that repeats each call of s that ends with ErrUnavailable. Random
// pauses between the tries grow. The limits of the policy and the deadline of the context end
// the tries. Any other result is final, also ErrNotFound and corrupt bytes.
func RetryStore(s origin.Store, p RetryPolicy) origin.Store {
	return retryingStore{s, newRetrier(p), newLimits(p.Limits)}
}

type retryingStore struct {
	origin.Store
	r      *retrier
	limits *limits
}

var (
	_ origin.KeyRejecter    = retryingStore{}
	_ origin.PartReader     = retryingStore{}
	_ origin.ProgressReader = retryingStore{}
	_ origin.WholeReader    = retryingStore{}
)

// ReadAt implements Store.
func (s retryingStore) ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error {
	return s.ReadAtProgress(ctx, k, p, off, func(int) {})
}

// ReadAtProgress implements ProgressReader. Bytes that arrived are not requested again.
func (s retryingStore) ReadAtProgress(ctx context.Context, k names.Key, p []byte, off int64, came func(n int)) error {
	below, ok := s.Store.(origin.ProgressReader)
	if !ok {
		return s.call(ctx, k, func(ctx context.Context) error { return s.Store.ReadAt(ctx, k, p, off) })
	}
	c := s.limits.begin(ctx, true)
	done := 0
	return c.end(string(k), s.r.doPartly(c, string(k), func() (bool, error) {
		from := done
		err := below.ReadAtProgress(c, k, p[from:], off+int64(from), func(n int) {
			s.limits.bytes.Add(int64(from + n - done))
			done = from + n
			came(done)
		})
		return done-from >= farStep, err
	}))
}

// farStep is how much of an object must come for the next try to be like a first one.
const farStep = 256 << 10

// Size implements Store.
func (s retryingStore) Size(ctx context.Context, k names.Key) (size int64, err error) {
	err = s.call(ctx, k, func(ctx context.Context) error { size, err = s.Store.Size(ctx, k); return err })
	return size, err
}

// Get implements Store.
func (s retryingStore) Get(ctx context.Context, k names.Key, seen origin.Tag) (value []byte, tag origin.Tag, err error) {
	err = s.call(ctx, k, func(ctx context.Context) error { value, tag, err = s.Store.Get(ctx, k, seen); return err })
	return value, tag, err
}

// List implements Store. It asks again for what comes behind the last object.
func (s retryingStore) List(ctx context.Context, prefix string, after names.Key) iter.Seq2[origin.Item, error] {
	return func(yield func(origin.Item, error) bool) {
		stopped := false
		c := s.limits.begin(ctx, false)
		err := c.end(prefix, s.r.do(c, prefix, func() error {
			for item, err := range s.Store.List(c, prefix, after) {
				if err != nil {
					return err
				}
				after = item.Key
				c.pause() // the caller's time is not the store's
				stopped = !yield(item, nil)
				c.resume()
				if stopped {
					return nil
				}
			}
			return nil
		}))
		if err != nil && !stopped {
			yield(origin.Item{}, err)
		}
	}
}

// ReadPart implements PartReader.
func (s retryingStore) ReadPart(ctx context.Context, k names.Key, off int64, n int) (part origin.Part, err error) {
	err = s.call(ctx, k, func(ctx context.Context) error { part, err = origin.ReadPart(ctx, s.Store, k, off, n); return err })
	return part, err
}

// ReadWhole implements WholeReader. Bytes that arrived are not requested again.
func (s retryingStore) ReadWhole(ctx context.Context, k names.Key, off int64, take func(b []byte, size int64) error) error {
	c := s.limits.begin(ctx, true)
	done := off
	return c.end(string(k), s.r.doPartly(c, string(k), func() (bool, error) {
		from := done
		err := origin.ReadWhole(c, s.Store, k, from, func(b []byte, size int64) error {
			s.limits.bytes.Add(int64(len(b)))
			done += int64(len(b))
			return take(b, size)
		})
		return done-from >= farStep, err
	}))
}

// Local implements origin.CostReporter.
func (s retryingStore) Local() bool { return origin.Local(s.Store) }

// RejectKey implements KeyRejecter.
func (s retryingStore) RejectKey(k names.Key) int {
	if r, ok := s.Store.(origin.KeyRejecter); ok {
		return r.RejectKey(k)
	}
	return 0
}

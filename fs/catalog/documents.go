package catalog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// ReadDocument reads a document. It reads a damaged one once more: the damage may be on
// the way.
func ReadDocument(ctx context.Context, s origin.Store, k names.Key, seen origin.Tag, doc names.Document) (origin.Tag, error) {
	return ReadObject(ctx, s, k, seen, func(value []byte) error { return names.Decode(value, doc) })
}

// ReadObject reads an object and decodes it. If the object is damaged, it does both once more, past the
// caches on the way. It returns the tag also for a damaged object.
func ReadObject(ctx context.Context, s origin.Store, k names.Key, seen origin.Tag, decode func([]byte) error) (tag origin.Tag, err error) {
	err = origin.Reread(ctx, func(ctx context.Context) (err error) {
		var value []byte
		if value, tag, err = s.Get(ctx, k, seen); err != nil {
			return err
		}
		if err = decode(value); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		return nil
	})
	return tag, err
}

// Modified returns when the store received an object, by the clock of the store. It lists the store.
func Modified(ctx context.Context, s origin.Store, k names.Key) (time.Time, error) {
	for item, err := range s.List(ctx, string(k), "") {
		if err != nil {
			return time.Time{}, err
		}
		if item.Key == k {
			return item.Modified, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s: not listed: %w", k, origin.ErrNotFound)
}

// maxRefs bounds the refs that are cached.
const maxRefs = 4096

// refs caches the refs that were read last with their tags, so that a store does not send an
// unchanged ref again. It is safe for concurrent use.
type refs struct {
	mu     sync.Mutex
	cached *lru.Cache[string, TaggedRef] // by symbol; guarded by mu
}

// A TaggedRef is a ref with its tag. It must not be changed.
type TaggedRef struct {
	Ref *names.Ref
	Tag origin.Tag
}

func newRefs() refs { return refs{cached: lru.New[string, TaggedRef](maxRefs, nil)} }

func (r *refs) get(symbol string) TaggedRef {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen, _ := r.cached.Get(symbol)
	return seen
}

func (r *refs) put(symbol string, seen TaggedRef) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cached.Remove(symbol)
	r.cached.Add(symbol, seen, 1)
}

// ReadRef returns the current ref of a symbol, or io/fs.ErrNotExist. The tag is set also
// for a damaged ref.
func (c *StoreCatalog) ReadRef(ctx context.Context, symbol string) (TaggedRef, error) {
	if err := names.CheckSymbol(symbol); err != nil {
		return TaggedRef{}, NewAbsentError(fmt.Sprintf("%q", symbol), "no name for a symbol: %v", err)
	}
	seen := c.refs.get(symbol)
	ref := new(names.Ref)
	tag, err := ReadDocument(ctx, c.store, names.RefKey(symbol), seen.Tag, ref)
	switch {
	case errors.Is(err, origin.ErrUnchanged):
		return seen, nil
	case errors.Is(err, origin.ErrNotFound):
		if err := c.checkPlace(ctx); err != nil {
			return TaggedRef{}, fmt.Errorf("%s: %w", symbol, err)
		}
		return TaggedRef{}, AbsentSymbolError(symbol)
	case err != nil:
		return TaggedRef{Tag: tag}, err
	case ref.Symbol != symbol:
		return TaggedRef{Tag: tag}, fmt.Errorf("%s: %w", names.RefKey(symbol), codec.Corrupt("vref", 0, "it is that of %.80q", ref.Symbol))
	}
	if err := c.sameStore(ctx); err != nil {
		return TaggedRef{}, fmt.Errorf("%s: %w", symbol, err)
	}
	seen = TaggedRef{ref, tag}
	c.refs.put(symbol, seen)
	return seen, nil
}

// maxVersionBytes bounds the cached elements of version lists by their encoded length.
const maxVersionBytes = 8 << 20

// versions caches elements of version lists, which never change. It is safe for concurrent
// use.
type versions struct {
	mu     sync.Mutex
	cached *lru.Cache[names.Key, *names.Version] // guarded by mu
}

func newVersions() versions {
	return versions{cached: lru.New[names.Key, *names.Version](maxVersionBytes, nil)}
}

func (v *versions) get(k names.Key) *names.Version {
	v.mu.Lock()
	defer v.mu.Unlock()
	version, _ := v.cached.Get(k)
	return version
}

func (v *versions) put(k names.Key, version *names.Version, size int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.cached.Add(k, version, int64(size))
}

// ReadVersion returns an element of a version list, which must not be changed.
func (c *StoreCatalog) ReadVersion(ctx context.Context, k names.Key) (*names.Version, error) {
	if v := c.versions.get(k); v != nil {
		return v, nil
	}
	var v *names.Version
	size := 0
	_, err := ReadObject(ctx, c.store, k, "", func(value []byte) (err error) {
		v, err = names.DecodeVersion(k, value)
		size = len(value)
		return err
	})
	if err != nil {
		return nil, err
	}
	c.versions.put(k, v, size)
	return v, nil
}

package catalog

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// ReadDocument reads a document. One that is damaged is read once more: somebody may be
// in between who damaged it.
func ReadDocument(ctx context.Context, s origin.Store, k names.Key, seen origin.Tag, doc names.Document) (origin.Tag, error) {
	return ReadObject(ctx, s, k, seen, func(value []byte) error { return names.Decode(value, doc) })
}

// ReadObject gets an object and decodes it, and does both again if it is damaged. The tag
// is that of the object even if it is.
func ReadObject(ctx context.Context, s origin.Store, k names.Key, seen origin.Tag, decode func([]byte) error) (origin.Tag, error) {
	for again := false; ; again = true {
		value, tag, err := s.Get(ctx, k, seen)
		if err != nil {
			return tag, err
		}
		if err = decode(value); err == nil {
			return tag, nil
		}
		if again || !errors.Is(err, codec.ErrCorrupt) {
			return tag, fmt.Errorf("%s: %w", k, err)
		}
	}
}

// maxRefs is how many symbols refs remembers.
const maxRefs = 4096

// refs remembers what the refs of symbols were when they were read last, so that a store
// need not send again what did not change. It is safe for concurrent use.
type refs struct {
	mu       sync.Mutex
	bySymbol map[string]TaggedRef // guarded by mu
}

// A TaggedRef is a ref that must not be changed any more, with its tag.
type TaggedRef struct {
	Ref *names.Ref
	Tag origin.Tag
}

func (r *refs) get(symbol string) TaggedRef {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bySymbol[symbol]
}

func (r *refs) put(symbol string, seen TaggedRef) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bySymbol == nil || len(r.bySymbol) >= maxRefs {
		r.bySymbol = map[string]TaggedRef{}
	}
	r.bySymbol[symbol] = seen
}

// ReadRef returns the ref of a symbol as it is now. It is io/fs.ErrNotExist if there is
// no such symbol.
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

// maxVersionBytes bounds the elements of version lists that are kept, by their encoded
// length.
const maxVersionBytes = 8 << 20

// versions keeps elements of version lists that were read: they never change. When it is
// full it begins anew, which costs one read for 128 versions. It is safe for concurrent
// use.
type versions struct {
	mu    sync.Mutex
	byKey map[names.Key]*names.Version // guarded by mu
	size  int                          // guarded by mu
}

func (v *versions) get(k names.Key) *names.Version {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.byKey[k]
}

func (v *versions) put(k names.Key, version *names.Version, size int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.byKey == nil || v.size+size > maxVersionBytes {
		v.byKey, v.size = map[names.Key]*names.Version{}, 0
	}
	if v.byKey[k] == nil {
		v.size += size
	}
	v.byKey[k] = version
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

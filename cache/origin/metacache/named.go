package metacache

import (
	"context"
	"fmt"
)

// Value returns the value that PutValue stored under a kind and an id. It is for sources with
// values of their own, which must check them: a value is intact, but proves nothing.
func (k *Cache) Value(ctx context.Context, kind string, id []byte) ([]byte, bool) {
	if k.backend == nil {
		return nil, false
	}
	key := k.key(kind, id)
	return get(ctx, k, key, func(b []byte) ([]byte, error) {
		body, err := unseal(key, b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		return body, nil
	})
}

// PutValue stores a value under a kind and an id, and replaces an older one.
func (k *Cache) PutValue(kind string, id, value []byte) {
	if k.backend == nil {
		return
	}
	key := k.key(kind, id)
	k.drop(key)
	b := appendHead(make([]byte, 0, minSize+len(value)), key)
	k.put(key, seal(append(b, value...)))
}

// DropValue removes the value of a kind and an id.
func (k *Cache) DropValue(kind string, id []byte) {
	if k.backend != nil {
		k.drop(k.key(kind, id))
	}
}

package origintest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// Memory returns an empty store in a map. The store is remote, so that layers above it read
// ahead and cache.
func Memory() origin.WriteStore { return MemoryAt(time.Now) }

// MemoryAt is Memory with a clock for Item.Modified. The store calls clock while it is locked.
func MemoryAt(clock func() time.Time) origin.WriteStore {
	return &memory{clock: clock, objects: map[names.Key]object{}}
}

// LocalMemory returns an empty store in a map that is local, like a folder.
func LocalMemory() origin.WriteStore {
	return &localMemory{memory{clock: time.Now, objects: map[names.Key]object{}}}
}

type memory struct {
	clock func() time.Time

	mu      sync.Mutex
	objects map[names.Key]object // guarded by mu
	puts    int                  // so far, for tags; guarded by mu
}

type localMemory struct{ memory }

// Local implements origin.CostReporter.
func (*localMemory) Local() bool { return true }

// An object never changes. A put replaces it.
type object struct {
	value    []byte
	tag      origin.Tag
	modified time.Time
}

func (m *memory) get(ctx context.Context, k names.Key) (object, error) {
	if err := ctx.Err(); err != nil {
		return object{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[k]
	if !ok {
		return object{}, fmt.Errorf("%s: %w", k, origin.ErrNotFound)
	}
	return o, nil
}

// ReadAt implements origin.Store.
func (m *memory) ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error {
	o, err := m.get(ctx, k)
	if err != nil {
		return err
	}
	if off < 0 || off+int64(len(p)) > int64(len(o.value)) {
		return codec.Corrupt("object", int64(len(o.value)), "it ends here, bytes [%d, %d) are requested: %v", off, off+int64(len(p)), io.EOF)
	}
	copy(p, o.value[off:])
	return nil
}

// Size implements origin.Store.
func (m *memory) Size(ctx context.Context, k names.Key) (int64, error) {
	o, err := m.get(ctx, k)
	return int64(len(o.value)), err
}

// Get implements origin.Store.
func (m *memory) Get(ctx context.Context, k names.Key, seen origin.Tag) ([]byte, origin.Tag, error) {
	o, err := m.get(ctx, k)
	if err != nil {
		return nil, "", err
	}
	if o.tag == seen {
		return nil, o.tag, origin.ErrUnchanged
	}
	return slices.Clone(o.value), o.tag, nil
}

// List implements origin.Store.
func (m *memory) List(ctx context.Context, prefix string, after names.Key) iter.Seq2[origin.Item, error] {
	return func(yield func(origin.Item, error) bool) {
		m.mu.Lock()
		objects := maps.Clone(m.objects)
		m.mu.Unlock()
		for _, k := range slices.Sorted(maps.Keys(objects)) {
			if err := ctx.Err(); err != nil {
				yield(origin.Item{}, err)
				return
			}
			if !strings.HasPrefix(string(k), prefix) || k <= after {
				continue
			}
			o := objects[k]
			if !yield(origin.Item{Key: k, Size: int64(len(o.value)), Modified: o.modified}, nil) {
				return
			}
		}
	}
}

// PutIfAbsent implements origin.WriteStore.
func (m *memory) PutIfAbsent(ctx context.Context, k names.Key, value []byte) (origin.Tag, error) {
	return m.put(ctx, k, value, func(_ object, exists bool) error {
		if exists {
			return origin.ErrExists
		}
		return nil
	})
}

// PutIfMatch implements origin.WriteStore.
func (m *memory) PutIfMatch(ctx context.Context, k names.Key, value []byte, tag origin.Tag) (origin.Tag, error) {
	return m.put(ctx, k, value, func(o object, exists bool) error {
		if !exists || o.tag != tag {
			return origin.ErrConflict
		}
		return nil
	})
}

func (m *memory) put(ctx context.Context, k names.Key, value []byte, check func(o object, exists bool) error) (origin.Tag, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o, exists := m.objects[k]
	if err := check(o, exists); err != nil {
		return "", fmt.Errorf("%s: %w", k, err)
	}
	m.puts++
	o = object{value: slices.Clone(value), tag: origin.Tag(fmt.Sprint(m.puts)), modified: m.clock()}
	m.objects[k] = o
	return o.tag, nil
}

// Delete implements origin.WriteStore.
func (m *memory) Delete(ctx context.Context, k names.Key) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.objects, k)
	return nil
}

// Sync implements origin.WriteStore.
func (m *memory) Sync(ctx context.Context) error { return ctx.Err() }

// CopyOf returns a store in a map with the objects of s.
func CopyOf(t testing.TB, s origin.Store) origin.WriteStore {
	t.Helper()
	m := Memory()
	for item, err := range s.List(t.Context(), "", "") {
		if err == nil {
			_, err = m.PutIfAbsent(t.Context(), item.Key, Get(t, s, item.Key))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// Replace puts an object, also if the key exists.
func Replace(s origin.WriteStore, k names.Key, value []byte) error {
	ctx := context.Background()
	_, tag, err := s.Get(ctx, k, "")
	if errors.Is(err, origin.ErrNotFound) {
		_, err = s.PutIfAbsent(ctx, k, value)
		return err
	}
	if err == nil {
		_, err = s.PutIfMatch(ctx, k, value, tag)
	}
	return err
}

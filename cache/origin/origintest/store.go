package origintest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// Samples returns exactly the objects that a store under test must hold. They are a shard and
// three xorbs, which are also valid for a store that names objects by content.
func Samples(t testing.TB) map[names.Key][]byte {
	b := NewBuilder(t, Form{XorbChunks: 3})
	b.Add(Text(1, 9000), 1000)
	return b.Objects()
}

// TestStore checks the contract of origin.Store with the store that open returns, which must hold
// Samples. For an origin.WriteStore, it checks that contract, too.
func TestStore(t *testing.T, open func(t *testing.T) origin.Store) {
	objects := Samples(t)
	keys := slices.Sorted(maps.Keys(objects))
	t.Run("ReadAt", func(t *testing.T) { testReadAt(t, open(t), keys[1], objects[keys[1]]) })
	t.Run("Size", func(t *testing.T) { testSize(t, open(t), objects) })
	t.Run("Get", func(t *testing.T) { testGet(t, open(t), objects) })
	t.Run("List", func(t *testing.T) { testList(t, open(t), objects) })
	t.Run("cancelled", func(t *testing.T) { testCancelled(t, open(t), keys[0]) })
	t.Run("concurrent", func(t *testing.T) { testConcurrent(t, open(t), objects) })
	if _, ok := open(t).(origin.WriteStore); ok {
		t.Run("write", func(t *testing.T) { testWrite(t, open) })
	}
}

var (
	absentXorb  = names.XorbKey(codec.Hash{1, 2, 3})
	absentShard = names.ShardKey(codec.Hash{1, 2, 3})
)

func testReadAt(t *testing.T, s origin.Store, key names.Key, value []byte) {
	size := int64(len(value))
	tests := []struct {
		name string
		key  names.Key
		off  int64
		n    int
		fail bool
		err  error // expected kind of a failure; nil: any
	}{
		{"from the start", key, 0, 4, false, nil},
		{"in the middle", key, 17, 100, false, nil},
		{"the last byte", key, size - 1, 1, false, nil},
		{"all of it", key, 0, int(size), false, nil},
		{"across the end", key, size - 2, 4, true, nil},
		{"from the end", key, size, 1, true, nil},
		{"far behind the end", key, size + 1<<40, 1, true, nil},
		{"no such xorb", absentXorb, 0, 1, true, origin.ErrNotFound},
		{"no such shard", absentShard, 0, 1, true, origin.ErrNotFound},
		{"not a key", "tdata", 0, 1, true, nil},
		{"a key that climbs", "tdata/../../../../../../etc/passwd", 0, 1, true, nil},
		{"no key", "", 0, 1, true, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := make([]byte, tt.n)
			err := s.ReadAt(t.Context(), tt.key, p, tt.off)
			now, ok := s.(origin.TryReader)
			if again := make([]byte, tt.n); ok && now.TryReadAt(tt.key, again, tt.off) && (tt.fail || !bytes.Equal(p, again)) {
				t.Errorf("TryReadAt(%d bytes at %d) gives other bytes than ReadAt", tt.n, tt.off)
			}
			switch {
			case !tt.fail && err != nil:
				t.Errorf("ReadAt: %v", err)
			case !tt.fail && !bytes.Equal(p, value[tt.off:][:tt.n]):
				t.Errorf("ReadAt(%d bytes at %d) gives other bytes", tt.n, tt.off)
			case tt.fail && err == nil:
				t.Errorf("ReadAt(%d bytes at %d) = nil, want an error", tt.n, tt.off)
			case tt.err != nil && !errors.Is(err, tt.err):
				t.Errorf("ReadAt = %v, want %v", err, tt.err)
			}
		})
	}
}

func testSize(t *testing.T, s origin.Store, objects map[names.Key][]byte) {
	for k, value := range objects {
		if n, err := s.Size(t.Context(), k); err != nil || n != int64(len(value)) {
			t.Errorf("Size(%s) = %d, %v, want %d", k, n, err, len(value))
		}
	}
	if _, err := s.Size(t.Context(), absentXorb); !errors.Is(err, origin.ErrNotFound) {
		t.Errorf("Size of no object = %v, want %v", err, origin.ErrNotFound)
	}
}

func testGet(t *testing.T, s origin.Store, objects map[names.Key][]byte) {
	for k, value := range objects {
		b, tag, err := s.Get(t.Context(), k, "")
		if err != nil || !bytes.Equal(b, value) {
			t.Errorf("Get(%s) = %d bytes, %v, want %d bytes", k, len(b), err, len(value))
			continue
		}
		if tag == "" {
			t.Errorf("Get(%s): no tag", k)
		}
		if _, _, err := s.Get(t.Context(), k, tag); !errors.Is(err, origin.ErrUnchanged) {
			t.Errorf("Get(%s) with its tag = %v, want %v", k, err, origin.ErrUnchanged)
		}
		if b, _, err := s.Get(t.Context(), k, "no such tag"); err != nil || !bytes.Equal(b, value) {
			t.Errorf("Get(%s) with another tag = %d bytes, %v", k, len(b), err)
		}
	}
	if _, _, err := s.Get(t.Context(), absentXorb, ""); !errors.Is(err, origin.ErrNotFound) {
		t.Errorf("Get of no object = %v, want %v", err, origin.ErrNotFound)
	}
}

func testList(t *testing.T, s origin.Store, objects map[names.Key][]byte) {
	keys := slices.Sorted(maps.Keys(objects))
	tests := []struct {
		name   string
		prefix string
		after  names.Key
	}{
		{"everything", "", ""},
		{"xorbs", names.XorbPrefix, ""},
		{"shards", names.ShardPrefix, ""},
		{"after the first", "", keys[0]},
		{"after the last", "", keys[len(keys)-1]},
		{"after an absent key", "", keys[1] + "x"},
		{"after all of the prefix", names.ShardPrefix, names.XorbPrefix},
		{"half a name", string(keys[2][:len(keys[2])-10]), ""},
		{"no such prefix", "nothing/", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var want, got []names.Key
			for _, k := range keys {
				if strings.HasPrefix(string(k), tt.prefix) && k > tt.after {
					want = append(want, k)
				}
			}
			for item, err := range s.List(t.Context(), tt.prefix, tt.after) {
				if errors.Is(err, errors.ErrUnsupported) {
					t.Skip("the store does not list")
				}
				if err != nil {
					t.Fatal(err)
				}
				if item.Size != int64(len(objects[item.Key])) || item.Modified.IsZero() {
					t.Errorf("%s: %d bytes of %v, want %d", item.Key, item.Size, item.Modified, len(objects[item.Key]))
				}
				got = append(got, item.Key)
			}
			if !slices.Equal(got, want) {
				t.Errorf("List(%q, %q) = %v, want %v", tt.prefix, tt.after, got, want)
			}
		})
	}
	for range s.List(t.Context(), "", "") {
		break // a loop that stops is not called again
	}
}

func testCancelled(t *testing.T, s origin.Store, k names.Key) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for item, err := range s.List(ctx, "", "") {
		if errors.Is(err, errors.ErrUnsupported) {
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("List yields %v, %v, want %v", item, err, context.Canceled)
		}
	}
	// A local store may succeed nevertheless, but it must not return another error.
	for op, err := range map[string]error{
		"ReadAt": s.ReadAt(ctx, k, make([]byte, 1), 0),
		"Size":   second(s.Size(ctx, k)),
	} {
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s = %v, want %v or nothing", op, err, context.Canceled)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func testConcurrent(t *testing.T, s origin.Store, objects map[names.Key][]byte) {
	var readers sync.WaitGroup
	for i := range 8 {
		readers.Go(func() {
			for k, value := range objects {
				p := make([]byte, len(value)-i)
				if err := s.ReadAt(t.Context(), k, p, int64(i)); err != nil || !bytes.Equal(p, value[i:]) {
					t.Errorf("ReadAt(%s, %d bytes at %d): %v", k, len(p), i, err)
				}
				if n, err := s.Size(t.Context(), k); err != nil || n != int64(len(value)) {
					t.Errorf("Size(%s) = %d, %v", k, n, err)
				}
			}
		})
	}
	readers.Wait()
}

func testWrite(t *testing.T, open func(t *testing.T) origin.Store) {
	tests := []struct {
		name string
		do   func(s origin.WriteStore, k names.Key) error
		want string // of the object afterwards; empty: absent
		err  error
	}{
		{"a new one", func(s origin.WriteStore, k names.Key) error {
			return second(s.PutIfAbsent(t.Context(), k, []byte("one")))
		}, "one", nil},
		{"an existing one", func(s origin.WriteStore, k names.Key) error {
			s.PutIfAbsent(t.Context(), k, []byte("one"))
			return second(s.PutIfAbsent(t.Context(), k, []byte("two")))
		}, "one", origin.ErrExists},
		{"instead of one", func(s origin.WriteStore, k names.Key) error {
			tag, _ := s.PutIfAbsent(t.Context(), k, []byte("one"))
			return second(s.PutIfMatch(t.Context(), k, []byte("two"), tag))
		}, "two", nil},
		{"the tag of Get", func(s origin.WriteStore, k names.Key) error {
			s.PutIfAbsent(t.Context(), k, []byte("one"))
			_, tag, _ := s.Get(t.Context(), k, "")
			return second(s.PutIfMatch(t.Context(), k, []byte("two"), tag))
		}, "two", nil},
		{"an old tag", func(s origin.WriteStore, k names.Key) error {
			tag, _ := s.PutIfAbsent(t.Context(), k, []byte("one"))
			s.PutIfMatch(t.Context(), k, []byte("two"), tag)
			return second(s.PutIfMatch(t.Context(), k, []byte("three"), tag))
		}, "two", origin.ErrConflict},
		{"instead of none", func(s origin.WriteStore, k names.Key) error {
			return second(s.PutIfMatch(t.Context(), k, []byte("two"), "tag"))
		}, "", origin.ErrConflict},
		{"deleted", func(s origin.WriteStore, k names.Key) error {
			s.PutIfAbsent(t.Context(), k, []byte("one"))
			return s.Delete(t.Context(), k)
		}, "", nil},
		{"deleting nothing", func(s origin.WriteStore, k names.Key) error {
			return s.Delete(t.Context(), k)
		}, "", nil},
		{"made durable", func(s origin.WriteStore, k names.Key) error {
			s.PutIfAbsent(t.Context(), k, []byte("one"))
			return s.Sync(t.Context())
		}, "one", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t).(origin.WriteStore)
			if err := tt.do(s, absentXorb); !errors.Is(err, tt.err) {
				t.Errorf("error = %v, want %v", err, tt.err)
			}
			b, _, err := s.Get(t.Context(), absentXorb, "")
			if got := string(b); got != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("afterwards it is %q, %v, want %q", got, err, tt.want)
			}
		})
	}
	t.Run("one of many wins", func(t *testing.T) { testRace(t, open(t).(origin.WriteStore)) })
	t.Run("what was put does not change", func(t *testing.T) { testOwn(t, open(t).(origin.WriteStore)) })
}

func testRace(t *testing.T, s origin.WriteStore) {
	var wins sync.Map
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			if _, err := s.PutIfAbsent(t.Context(), absentXorb, fmt.Append(nil, i)); err == nil {
				wins.Store(i, true)
			}
		})
	}
	writers.Wait()
	n := 0
	wins.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d of 8 created the object, want 1", n)
	}
}

// testOwn changes the bytes after they were put, and those that were got.
func testOwn(t *testing.T, s origin.WriteStore) {
	value := []byte("one")
	if _, err := s.PutIfAbsent(t.Context(), absentXorb, value); err != nil {
		t.Fatal(err)
	}
	value[0] = 'X'
	Get(t, s, absentXorb)[0] = 'Y'
	if got := Get(t, s, absentXorb); string(got) != "one" {
		t.Errorf("the object is %q, want %q", got, "one")
	}
}

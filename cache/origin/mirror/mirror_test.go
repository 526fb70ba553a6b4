package mirror_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/mirror"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
)

// A panicStore panics at every read.
type panicStore struct{ origin.Store }

// ReadAt implements origin.Store.
func (panicStore) ReadAt(context.Context, names.Key, []byte, int64) error { panic("in ReadAt") }

// Size implements origin.Store.
func (panicStore) Size(context.Context, names.Key) (int64, error) { panic("in Size") }

// A panic of the store is the error of Fetch.
func TestPanicOfFetch(t *testing.T) {
	m := mirror.New(panicStore{origintest.Memory()}, mirror.OpenFolder(t.TempDir(), 1<<20), nil)
	shards := []origin.Item{{Key: names.ShardKey(codec.Hash{1}), Size: 100}, {Key: names.ShardKey(codec.Hash{2}), Size: 100}}
	if _, err := m.Fetch(t.Context(), shards); err == nil || !strings.Contains(err.Error(), "panic") {
		t.Errorf("Fetch = %v", err)
	}
}

// A shard that is absent or damaged in the store is an error until it is stored, by any process.
func TestBadShardHeals(t *testing.T) {
	value := []byte("the bytes of a shard")
	k := names.ShardKey(merkle.Chunk(value))
	store := func(s origin.WriteStore, value []byte) error {
		_, err := s.PutIfAbsent(t.Context(), k, value)
		return err
	}
	putCopy := func(m mirror.Mirror, _ origin.WriteStore) error {
		m.Put(k, value)
		return nil
	}
	tests := []struct {
		name    string
		damaged bool
		heal    func(m mirror.Mirror, s origin.WriteStore) error
	}{
		{"damaged, copied by another process", true, func(m mirror.Mirror, s origin.WriteStore) error { return putCopy(mirror.New(s, m.Folder(), nil), s) }},
		{"absent, stored by another process", false, func(_ mirror.Mirror, s origin.WriteStore) error { return store(s, value) }},
		{"absent, stored by this process", false, putCopy},
		{"damaged, stored by this process", true, putCopy},
		{"damaged, listed again", true, func(m mirror.Mirror, s origin.WriteStore) error {
			err := errors.Join(s.Delete(t.Context(), k), store(s, value))
			_, fetchErr := m.Fetch(t.Context(), []origin.Item{{Key: k, Size: int64(len(value))}})
			return errors.Join(err, fetchErr)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := origintest.Memory()
			m := mirror.New(s, mirror.OpenFolder(t.TempDir(), 1<<20), nil)
			want := origin.ErrNotFound
			if tt.damaged {
				want = codec.ErrCorrupt
				if err := store(s, []byte("other bytes of a shard")); err != nil {
					t.Fatal(err)
				}
			}
			p := make([]byte, 5)
			if err := m.ReadAt(t.Context(), k, p, 0); !errors.Is(err, want) {
				t.Errorf("before: %v, want %v", err, want)
			}
			if err := tt.heal(m, s); err != nil {
				t.Fatal(err)
			}
			if err := m.ReadAt(t.Context(), k, p, 0); err != nil || string(p) != string(value[:5]) {
				t.Errorf("then: %q, %v", p, err)
			}
		})
	}
}

// A state is that of the last session with the same store. Anything else at its path is no state.
func TestState(t *testing.T) {
	path := t.TempDir()
	folder := mirror.OpenFolder(path, 1<<20)
	m := mirror.NewLocal(origintest.Memory(), folder, "a", nil)
	load := func(m mirror.Mirror) (state string, ok bool) {
		ok = m.LoadState("kind", &state)
		return state, ok
	}
	if got, ok := load(m); ok {
		t.Errorf("state before the first one: %q", got)
	}
	m.SaveState("kind", "first")
	m.SaveState("kind", "second")
	if got, ok := load(m); !ok || got != "second" {
		t.Errorf("state = %q, %v", got, ok)
	}
	for name, other := range map[string]mirror.Mirror{
		"another store":  mirror.NewLocal(origintest.Memory(), folder, "b", nil),
		"a remote store": mirror.New(origintest.Memory(), folder, nil),
	} {
		if got, ok := load(other); ok {
			t.Errorf("state of %s: %q", name, got)
		}
	}
	m.SaveState("kind", strings.Repeat("x", 5<<20))
	if got, ok := load(m); !ok || got != "second" {
		t.Errorf("state after one that is too large = %.20q, %v", got, ok)
	}

	file := filepath.Join(path, "state", "a-kind.json")
	for name, replace := range map[string]func() error{
		"pipe":   func() error { return unix.Mkfifo(file, 0o600) },
		"folder": func() error { return os.Mkdir(file, 0o700) },
		"sparse": func() error { return errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, 1<<40)) },
		"text":   func() error { return os.WriteFile(file, []byte("{"), 0o600) },
	} {
		if err := errors.Join(os.RemoveAll(file), replace()); err != nil {
			t.Fatal(name, err)
		}
		if got, ok := load(m); ok {
			t.Errorf("state of a %s: %.20q", name, got)
		}
	}
}

// Trim removes states that no session has saved for a month.
func TestTrimStates(t *testing.T) {
	path := t.TempDir()
	m := mirror.NewLocal(origintest.Memory(), mirror.OpenFolder(path, 1<<20), "a", nil)
	m.SaveState("old", "x")
	m.SaveState("new", "x")
	old := time.Now().Add(-31 * 24 * time.Hour)
	if err := os.Chtimes(filepath.Join(path, "state", "a-old.json"), old, old); err != nil {
		t.Fatal(err)
	}
	m.Trim()
	var state string
	if m.LoadState("old", &state) || !m.LoadState("new", &state) {
		t.Error("Trim leaves an old state, or removes a new one")
	}
}

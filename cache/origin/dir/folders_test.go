package dir_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
)

// A memoryCache is a FolderCache of several stores.
type memoryCache struct{ value []byte }

func (m *memoryCache) Load() ([]byte, error) {
	if m.value == nil {
		return nil, os.ErrNotExist
	}
	return m.value, nil
}

func (m *memoryCache) Save(value []byte) error {
	m.value = bytes.Clone(value)
	return nil
}

// openCached opens the store of a folder as a new process does.
func openCached(t *testing.T, root string, c dir.FolderCache) *dir.Store {
	t.Helper()
	s := openStore(t, root)
	if s.UseFolderCache(c); !s.HasFolderCache() {
		t.Skip("the file system of temporary files does not record changes")
	}
	return s
}

func xorbKey(i int) names.Key { return names.XorbKey(codec.Hash{0: byte(i), 7: byte(i % 5)}) }

func put(t *testing.T, s origin.WriteStore, k names.Key, value string) {
	t.Helper()
	if _, err := s.PutIfAbsent(t.Context(), k, []byte(value)); err != nil && !errors.Is(err, origin.ErrExists) {
		t.Fatal(err)
	}
}

// renew writes the listing some time after the last change.
func renew(t *testing.T, s *dir.Store, after time.Duration) {
	t.Helper()
	time.Sleep(after)
	s.SyncAll()
	if err := s.WriteListing(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
}

// data returns the shards and xorbs of a store as "key size", by ListData or List.
func data(t *testing.T, s *dir.Store, list func(context.Context, string) func(func(origin.Item, error) bool)) (found []string) {
	t.Helper()
	for _, prefix := range []string{names.ShardPrefix, names.XorbPrefix} {
		for item, err := range list(t.Context(), prefix) {
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, fmt.Sprintf("%s %d", item.Key, item.Size))
		}
	}
	return found
}

func listData(s *dir.Store) func(context.Context, string) func(func(origin.Item, error) bool) {
	return func(ctx context.Context, prefix string) func(func(origin.Item, error) bool) {
		return s.ListData(ctx, prefix)
	}
}

func listAll(s *dir.Store) func(context.Context, string) func(func(origin.Item, error) bool) {
	return func(ctx context.Context, prefix string) func(func(origin.Item, error) bool) {
		return s.List(ctx, prefix, "")
	}
}

// A later process finds the names that others changed, and does not read the other folders again.
func TestKnownFolders(t *testing.T) {
	settle := dir.ShortenSettleTime(t)
	root, kept := t.TempDir(), &memoryCache{}
	s := openCached(t, root, kept)
	for i := range 20 {
		put(t, s, xorbKey(i), "value")
	}
	renew(t, s, 2*settle)
	// A change that is no change of a name is not seen. It shows which folders are read.
	longer := filepath.Join(root, string(xorbKey(0)))
	if err := os.Chmod(longer, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(longer, []byte("longer value"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := openStore(t, root)
	put(t, other, xorbKey(21), "new")
	if err := other.Delete(t.Context(), xorbKey(2)); err != nil {
		t.Fatal(err)
	}
	s = openCached(t, root, kept)
	got, want := data(t, s, listData(s)), data(t, s, listAll(s))
	is := slices.Index(want, fmt.Sprintf("%s %d", xorbKey(0), len("longer value")))
	if is < 0 {
		t.Fatalf("List has %q", want)
	}
	want[is] = fmt.Sprintf("%s %d", xorbKey(0), len("value"))
	if !slices.Equal(got, want) {
		t.Errorf("ListData has\n%q\nwant\n%q", got, want)
	}
}

// The listing with known folders is the one without, after any changes.
func TestKnownFoldersListing(t *testing.T) {
	settle := dir.ShortenSettleTime(t)
	root, kept := t.TempDir(), &memoryCache{}
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 60 {
		s := openCached(t, root, kept)
		for range r.IntN(4) {
			k := xorbKey(r.IntN(40))
			if r.IntN(3) == 0 {
				if err := s.Delete(t.Context(), k); err != nil {
					t.Fatal(err)
				}
			} else {
				put(t, s, k, "value")
			}
		}
		if r.IntN(5) == 0 {
			put(t, s, names.ShardKey(codec.Hash{9: byte(round)}), "shard")
		}
		switch {
		case r.IntN(8) == 0: // a writer without the cache
			renew(t, openStore(t, root), 0)
		case r.IntN(8) == 0:
			kept.value = kept.value[:len(kept.value)/2]
		}
		renew(t, s, 2*settle)
		got, err := os.ReadFile(filepath.Join(root, string(listing.Key)))
		if err != nil {
			t.Fatal(err)
		}
		renew(t, openStore(t, root), 0)
		want, err := os.ReadFile(filepath.Join(root, string(listing.Key)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("round %d: the listing is\n%s\nwant\n%s", round, got, want)
		}
	}
}

// Folders that changed shortly before the Sync are read again: a later change may have the same
// time.
func TestKnownFoldersSettle(t *testing.T) {
	root, kept := t.TempDir(), &memoryCache{}
	s := openCached(t, root, kept)
	put(t, s, xorbKey(1), "value")
	renew(t, s, 0)
	if bytes.Contains(kept.value, []byte("tdata/xorb/")) {
		t.Errorf("a folder that changed just now is recorded: %s", kept.value)
	}
}

// A Sync of the names of others leaves out known folders, which are durable, and no other folder.
func TestKnownFoldersSync(t *testing.T) {
	settle := dir.ShortenSettleTime(t)
	root, kept := t.TempDir(), &memoryCache{}
	s := openCached(t, root, kept)
	put(t, s, xorbKey(1), "value")
	put(t, s, xorbKey(2), "value")
	renew(t, s, 2*settle)
	put(t, openStore(t, root), xorbKey(7), "value") // in the folder of 2
	s = openCached(t, root, kept)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Sync(canceled); !errors.Is(err, context.Canceled) {
		t.Fatalf("Sync = %v", err)
	}
	known, changed := filepath.Dir(string(xorbKey(1))), filepath.Dir(string(xorbKey(2)))
	if dirty := s.Dirty(); dirty[known] || !dirty[changed] || !dirty["tdata/xorb"] {
		t.Errorf("to be synced are %v, want %s and not %s", dirty, changed, known)
	}
}

package dir_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

func openKeyed(t *testing.T, root string) *dir.Keyed {
	t.Helper()
	s, err := dir.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	origintest.Close(t, s)
	return s
}

func TestKeyed(t *testing.T) {
	origintest.TestStore(t, func(t *testing.T) origin.Store {
		s := openKeyed(t, filepath.Join(t.TempDir(), "new", "store"))
		for k, value := range origintest.Samples(t) {
			if _, err := s.PutIfAbsent(t.Context(), k, value); err != nil {
				t.Fatal(err)
			}
		}
		return s
	})
}

// tree lists all files below a folder.
func tree(t *testing.T, root string) []string {
	t.Helper()
	var all []string
	err := filepath.Walk(root, func(p string, info os.FileInfo, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil && !info.IsDir() {
			all = append(all, strings.TrimPrefix(p, root+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What is written lies where its key says, read-only, and leaves nothing beside it.
func TestKeyedFiles(t *testing.T) {
	root := t.TempDir()
	s := openKeyed(t, root)
	var want []string
	for k, value := range origintest.Samples(t) {
		for range 2 { // the second time it is there
			_, err := s.PutIfAbsent(t.Context(), k, value)
			if err != nil && !errors.Is(err, origin.ErrExists) {
				t.Fatal(err)
			}
		}
		want = append(want, string(k))
		info, err := os.Stat(filepath.Join(root, string(k)))
		if err != nil || info.Mode().Perm()&0o222 != 0 {
			t.Errorf("%s: %v, %v", k, info.Mode(), err)
		}
	}
	if err := s.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if got := tree(t, root); !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
}

var (
	dataKey = names.XorbKey(codec.Hash{1})
	refKey  = names.Key("vref/somebody")
)

// What lies under a key that its content gives, and is something else, is replaced. Under
// other keys whatever is there is there.
func TestKeyedDamaged(t *testing.T) {
	tests := []struct {
		name string
		key  names.Key
		put  func(path string) error
		want string
		err  error
	}{
		{"too short", dataKey, func(p string) error { return os.WriteFile(p, []byte("va"), 0o444) }, "value", nil},
		{"empty", dataKey, func(p string) error { return os.WriteFile(p, nil, 0o444) }, "value", nil},
		{"too long", dataKey, func(p string) error { return os.WriteFile(p, []byte("values"), 0o444) }, "value", nil},
		{"a link", dataKey, func(p string) error { return os.Symlink("/etc/passwd", p) }, "value", nil},
		{"a pipe", dataKey, func(p string) error { return unix.Mkfifo(p, 0o644) }, "value", nil},
		{"as long", dataKey, func(p string) error { return os.WriteFile(p, []byte("eulav"), 0o444) }, "eulav", origin.ErrExists},
		{"a folder", dataKey, func(p string) error { return os.Mkdir(p, 0o755) }, "", origin.ErrUnavailable},
		{"a ref of another length", refKey, func(p string) error { return os.WriteFile(p, []byte("va"), 0o444) }, "va", origin.ErrExists},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			s := openKeyed(t, root)
			path := filepath.Join(root, string(tt.key))
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), tt.put(path)); err != nil {
				t.Fatal(err)
			}
			if _, err := s.PutIfAbsent(t.Context(), tt.key, []byte("value")); !errors.Is(err, tt.err) {
				t.Errorf("PutIfAbsent = %v, want %v", err, tt.err)
			}
			if got, _, _ := s.Get(t.Context(), tt.key, ""); string(got) != tt.want {
				t.Errorf("afterwards it is %q, want %q", got, tt.want)
			}
			if left := tree(t, filepath.Join(root, "tmp")); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// A full disk, a folder that may not be written to: an error that says so, and nothing
// half is left.
func TestKeyedCannotWrite(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small tmpfs")
	}
	root := t.TempDir()
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(root, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s := openKeyed(t, root)
	put := func(n int) error {
		_, err := s.PutIfAbsent(t.Context(), names.XorbKey(codec.Hash{byte(n >> 16)}), make([]byte, n))
		return err
	}
	if err := put(100_000); err != nil {
		t.Fatal(err)
	}
	err := put(2 << 20)
	if !errors.Is(err, origin.ErrUnavailable) || !strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("full disk: %v", err)
	}
	if left := tree(t, filepath.Join(root, "tmp")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if err := put(200_000); err != nil {
		t.Errorf("when there is room: %v", err)
	}
	if err := unix.Mount("", root, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if err := put(300_000); err == nil || !strings.Contains(err.Error(), "read-only file system") {
		t.Errorf("read-only: %v", err)
	}
}

// Many writers of the same and of other objects, and of names, do not hinder each other.
func TestKeyedConcurrent(t *testing.T) {
	root := t.TempDir()
	stores := []*dir.Keyed{openKeyed(t, root), openKeyed(t, root)} // two processes
	value := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 1000) }
	var writers sync.WaitGroup
	var mu sync.Mutex
	won := map[names.Key]int{}
	for w := range 8 {
		writers.Go(func() {
			s := stores[w%2]
			for i := range 50 {
				k := names.XorbKey(codec.Hash{byte(i % 5), byte(i)})
				_, err := s.PutIfAbsent(t.Context(), k, value(i))
				switch {
				case err == nil:
					mu.Lock()
					won[k]++
					mu.Unlock()
				case !errors.Is(err, origin.ErrExists):
					t.Error(err)
				}
				if err := s.Sync(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	for i := range 50 {
		k := names.XorbKey(codec.Hash{byte(i % 5), byte(i)})
		if b, _, err := stores[0].Get(t.Context(), k, ""); err != nil || !bytes.Equal(b, value(i)) || won[k] != 1 {
			t.Errorf("%s: %d bytes, %v, put %d times", k, len(b), err, won[k])
		}
	}
}

// What a killed writer left is removed when it is old, and not before.
func TestKeyedStray(t *testing.T) {
	root := t.TempDir()
	s := openKeyed(t, root)
	if err := s.RemoveStray(time.Hour); err != nil {
		t.Errorf("without tmp: %v", err)
	}
	now := time.Now()
	for name, age := range map[string]time.Duration{"tmp/old": 25 * time.Hour, "tmp/young": 23 * time.Hour, "tdata/old": 25 * time.Hour} {
		path := filepath.Join(root, name)
		write(t, path, []byte("x"))
		if err := os.Chtimes(path, now, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.RemoveStray(24 * time.Hour); err != nil {
		t.Fatal(err)
	}
	if got, want := tree(t, root), []string{"tdata/old", "tmp/young"}; !slices.Equal(got, want) {
		t.Errorf("left are %q, want %q", got, want)
	}
}

// What is being written is not there yet, for those who look for shards and xorbs. A
// folder that happens to be called tmp is looked at.
func TestBareOverlooksTmp(t *testing.T) {
	_, body, _ := sample(t, origintest.Form{})
	tests := []struct {
		files []string
		want  []string
	}{
		{[]string{"tdata/xorb/aa/a", "tmp/b", "locks/c", "deep/tmp/d"}, []string{"deep/tmp/d", "tdata/xorb/aa/a"}},
		{[]string{"a", "tmp/b", "locks/c"}, []string{"a", "locks/c", "tmp/b"}},
	}
	for _, tt := range tests {
		root := t.TempDir()
		for _, f := range tt.files {
			write(t, filepath.Join(root, f), body)
		}
		found, err := openBare(t, root).Files(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range found {
			got = append(got, f.Path)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("of %q it finds %q, want %q", tt.files, got, tt.want)
		}
	}
}

// A Sync that was given up is made up for by the next.
func TestKeyedSyncGivenUp(t *testing.T) {
	s := openKeyed(t, t.TempDir())
	if _, err := s.PutIfAbsent(t.Context(), dataKey, []byte("value")); err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Sync(canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("Sync = %v", err)
	}
	if got, want := slices.Sorted(maps.Keys(s.Dirty())), []string{".", "tdata", "tdata/xorb", "tdata/xorb/00"}; !slices.Equal(got, want) {
		t.Errorf("dirty are %q, want %q", got, want)
	}
	if err := s.Sync(t.Context()); err != nil || len(s.Dirty()) > 0 {
		t.Errorf("Sync = %v, dirty are %v", err, s.Dirty())
	}
}

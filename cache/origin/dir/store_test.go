package dir_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
)

func openStore(t *testing.T, root string) *dir.Store {
	t.Helper()
	s, err := dir.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	origintest.Close(t, s)
	return s
}

func TestStore(t *testing.T) {
	for _, tt := range []struct {
		name string
		like func(s *dir.Store)
	}{
		{"as it is", func(*dir.Store) {}},
		{"without hard links", (*dir.Store).NoLinks},
	} {
		t.Run(tt.name, func(t *testing.T) {
			origintest.TestStore(t, func(t *testing.T) origin.Store {
				s := openStore(t, filepath.Join(t.TempDir(), "new", "store"))
				tt.like(s)
				for k, value := range origintest.Samples(t) {
					if _, err := s.PutIfAbsent(t.Context(), k, value); err != nil {
						t.Fatal(err)
					}
				}
				return s
			})
		})
	}
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

// An object is written to the path of its key, read-only, and leaves no other file.
func TestStoreFiles(t *testing.T) {
	root := t.TempDir()
	s := openStore(t, root)
	var want []string
	for k, value := range origintest.Samples(t) {
		for range 2 { // the second time it exists
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

// A file of another type or length under a content key is replaced. Under other keys every file
// counts as present.
func TestStoreDamaged(t *testing.T) {
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
	for _, tt := range append(tests, tests...) {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			s := openStore(t, root)
			if strings.Contains(t.Name(), "#") { // the second time
				s.NoLinks()
			}
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

// An object that is longer than its kind may be is refused by the size of its file.
func TestStoreLong(t *testing.T) {
	for _, tt := range []struct {
		key   names.Key
		limit int64
	}{
		{refKey, listing.MaxSize}, // an unknown key
		{names.RefKey("s"), names.MaxDocument},
		{names.SettingsKey(), names.MaxDocument},
		{names.PageKey([32]byte{1}), page.MaxSize},
		{names.SnapshotKey("s"), names.MaxLongDocument},
	} {
		root := t.TempDir()
		s := openStore(t, root)
		path := filepath.Join(root, string(tt.key))
		write(t, path, nil)
		for size, want := range map[int64]error{tt.limit: nil, tt.limit + 1: codec.ErrCorrupt, 1 << 40: codec.ErrCorrupt} {
			if err := os.Truncate(path, size); err != nil {
				t.Fatal(err)
			}
			if b, _, err := s.Get(t.Context(), tt.key, ""); !errors.Is(err, want) || err == nil && int64(len(b)) != size {
				t.Errorf("%s of %d bytes: %d bytes, %v, want %v", tt.key, size, len(b), err, want)
			}
		}
	}
}

// onTmpfs mounts a file system in memory on a folder, and returns how to remount it.
func onTmpfs(t *testing.T, folder, options string) (remount func(flags uintptr, options string)) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small tmpfs")
	}
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, options); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(folder, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return func(flags uintptr, options string) {
		t.Helper()
		if err := unix.Mount("", folder, "", unix.MS_REMOUNT|flags, options); err != nil {
			t.Fatal(err)
		}
	}
}

// A full disk and a read-only folder return an error that names the cause. No partial file is
// left, and existing objects are unchanged.
func TestStoreCannotWrite(t *testing.T) {
	tests := []struct {
		name, options string
		cause         func(remount func(uintptr, string))
		want          string
		cure          func(remount func(uintptr, string))
	}{
		{"full in the middle of a value", "size=1m", nil, "no space left on device", func(remount func(uintptr, string)) { remount(0, "size=8m") }},
		{"no inode left for the value", "", func(remount func(uintptr, string)) { remount(0, "nr_inodes=10") }, "no space left on device", func(remount func(uintptr, string)) { remount(0, "nr_inodes=100") }},
		{"no inode left for its folder", "", func(remount func(uintptr, string)) { remount(0, "nr_inodes=11") }, "no space left on device", func(remount func(uintptr, string)) { remount(0, "nr_inodes=100") }},
		{"read-only", "", func(remount func(uintptr, string)) { remount(unix.MS_RDONLY, "") }, "read-only file system", func(remount func(uintptr, string)) { remount(0, "") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			remount := onTmpfs(t, root, tt.options)
			s := openStore(t, root) // 1 inode
			put := func(first byte, n int) error {
				_, err := s.PutIfAbsent(t.Context(), names.XorbKey(codec.Hash{7: first}), make([]byte, n)) // each in a folder of its own
				return err
			}
			tag, err := s.PutIfAbsent(t.Context(), refKey, []byte("old")) // and 3
			if err = errors.Join(err, put(0, 100_000)); err != nil {      // and 4
				t.Fatal(err)
			}
			_, err = s.PutIfMatch(t.Context(), refKey, []byte("before"), tag) // and 1, of the lock
			if err != nil {
				t.Fatal(err)
			}
			_, tag, _ = s.Get(t.Context(), refKey, "")
			if tt.cause != nil {
				tt.cause(remount)
			}
			_, matchErr := s.PutIfMatch(t.Context(), refKey, make([]byte, 2<<20), tag)
			for _, err := range []error{put(1, 2<<20), matchErr} {
				if err != nil && (!errors.Is(err, origin.ErrUnavailable) || !strings.Contains(err.Error(), tt.want)) {
					t.Errorf("error = %v, want %q", err, tt.want)
				}
			}
			if put(2, 2<<20) == nil {
				t.Error("it can be written")
			}
			if left := tree(t, filepath.Join(root, "tmp")); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
			if b, _, err := s.Get(t.Context(), refKey, ""); err != nil || matchErr != nil && string(b) != "before" {
				t.Errorf("the ref is %d bytes, %v", len(b), err)
			}
			tt.cure(remount)
			if err := put(3, 200_000); err != nil {
				t.Errorf("when that is over: %v", err)
			}
		})
	}
}

// A value cannot be linked to another file system, and the error says where that is.
func TestStoreAcrossFileSystems(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "tdata"), 0o755); err != nil {
		t.Fatal(err)
	}
	onTmpfs(t, filepath.Join(root, "tdata"), "")
	s := openStore(t, root)
	_, err := s.PutIfAbsent(t.Context(), dataKey, []byte("value"))
	if !errors.Is(err, origin.ErrUnavailable) || !strings.Contains(err.Error(), "another file system") {
		t.Errorf("PutIfAbsent = %v", err)
	}
	if left := tree(t, root); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// A replacement that fails leaves no temporary file.
func TestStoreCannotReplace(t *testing.T) {
	root := t.TempDir()
	folder := filepath.Join(root, filepath.Dir(string(refKey)))
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	onTmpfs(t, folder, "")
	if err := os.WriteFile(filepath.Join(root, string(refKey)), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, root)
	_, tag, err := s.Get(t.Context(), refKey, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutIfMatch(t.Context(), refKey, []byte("new"), tag); !errors.Is(err, origin.ErrUnavailable) {
		t.Errorf("PutIfMatch = %v", err)
	}
	if left := tree(t, filepath.Join(root, "tmp")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// A put makes the names of the folders above durable, also if another writer made them. The other
// one may have been killed before it synced them. Readers get the replaced object.
func TestStorePutOverOthers(t *testing.T) {
	root := t.TempDir()
	k := names.Key("vref/a/b")
	other, s := openStore(t, root), openStore(t, root)
	tag, err := other.PutIfAbsent(t.Context(), k, []byte("old"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{".", "vref", "vref/a"}
	if _, err := s.PutIfAbsent(t.Context(), k, []byte("new")); !errors.Is(err, origin.ErrExists) {
		t.Errorf("PutIfAbsent = %v", err)
	}
	if got := slices.Sorted(maps.Keys(s.Dirty())); !slices.Equal(got, want) {
		t.Errorf("the next Sync syncs %q, want %q", got, want)
	}
	b := make([]byte, 3)
	if err := s.ReadAt(t.Context(), k, b, 0); err != nil || string(b) != "old" {
		t.Errorf("read %q, %v", b, err)
	}
	synced := s.RecordSyncs()
	if _, err := s.PutIfMatch(t.Context(), k, []byte("new"), tag); err != nil {
		t.Fatal(err)
	}
	for i := range *synced {
		(*synced)[i], _ = filepath.Rel(root, (*synced)[i])
	}
	slices.Sort(*synced)
	if !slices.Equal(*synced, want) {
		t.Errorf("PutIfMatch synced %q, want %q", *synced, want)
	}
	if err := s.ReadAt(t.Context(), k, b, 0); err != nil || string(b) != "new" {
		t.Errorf("read %q, %v", b, err)
	}
}

// The umask decides the permissions of a store.
func TestStoreUmask(t *testing.T) {
	for _, tt := range []struct {
		mask                 int
		folder, object, lock os.FileMode
	}{
		{0o022, 0o755, 0o444, 0o644},
		{0o002, 0o775, 0o444, 0o664},
		{0o077, 0o700, 0o400, 0o600},
	} {
		root := filepath.Join(t.TempDir(), "store")
		old := unix.Umask(tt.mask)
		s := openStore(t, root)
		tag, err := s.PutIfAbsent(t.Context(), refKey, []byte("ref"))
		_, err2 := s.PutIfMatch(t.Context(), refKey, []byte("other"), tag)
		_, err3 := s.PutIfAbsent(t.Context(), dataKey, []byte("value"))
		unix.Umask(old)
		if err := errors.Join(err, err2, err3); err != nil {
			t.Fatal(err)
		}
		locks := tree(t, filepath.Join(root, "locks"))
		for path, want := range map[string]os.FileMode{
			"": tt.folder, "tmp": tt.folder, "tdata": tt.folder, "tdata/xorb": tt.folder, "vref": tt.folder,
			string(dataKey): tt.object, filepath.Join("locks", locks[0]): tt.lock,
		} {
			if info, err := os.Stat(filepath.Join(root, path)); err != nil || info.Mode().Perm() != want {
				t.Errorf("umask %o: %s has mode %v, %v, want %o", tt.mask, path, info.Mode(), err, want)
			}
		}
	}
}

// A large value has a tag, too, that is the same for all and changes with the value.
func TestStoreLargeTag(t *testing.T) {
	root := t.TempDir()
	s, other := openStore(t, root), openStore(t, root)
	value := bytes.Repeat([]byte("v"), 3<<20)
	tag, err := s.PutIfAbsent(t.Context(), dataKey, value)
	if err != nil {
		t.Fatal(err)
	}
	for _, reader := range []*dir.Store{s, other} {
		if _, _, err := reader.Get(t.Context(), dataKey, tag); !errors.Is(err, origin.ErrUnchanged) {
			t.Errorf("Get = %v, want %v", err, origin.ErrUnchanged)
		}
	}
	value[0]++
	newTag, err := other.PutIfMatch(t.Context(), dataKey, value, tag)
	if err != nil || newTag == tag {
		t.Fatalf("PutIfMatch = %q, %v", newTag, err)
	}
	if b, now, err := s.Get(t.Context(), dataKey, tag); err != nil || now != newTag || !bytes.Equal(b, value) {
		t.Errorf("Get = %d bytes, tag %q, %v, want %q", len(b), now, err, newTag)
	}
	if _, err := s.PutIfMatch(t.Context(), dataKey, value, tag); !errors.Is(err, origin.ErrConflict) {
		t.Errorf("PutIfMatch with the old tag = %v", err)
	}
	if info, err := os.Stat(filepath.Join(root, string(dataKey))); err != nil || info.Mode().Perm()&0o222 != 0 {
		t.Errorf("%v, %v: it can be written to", info.Mode(), err)
	}
}

// Large values are as they should be, whatever their size and wherever they lie.
func TestStoreLarge(t *testing.T) {
	s := openStore(t, t.TempDir())
	data := origintest.Random(1, 2<<20+8192)
	for i, n := range []int{1<<20 - 1, 1 << 20, 1<<20 + 1, 1<<20 + 4095, 1<<20 + 4096, 1<<20 + 4097, 2 << 20} {
		for from := range 2 { // the second does not lie at the beginning of a page
			k := names.XorbKey(codec.Hash{byte(i), byte(from)})
			if _, err := s.PutIfAbsent(t.Context(), k, data[from:from+n]); err != nil {
				t.Fatal(err)
			}
			if b, _, err := s.Get(t.Context(), k, ""); err != nil || !bytes.Equal(b, data[from:from+n]) {
				t.Errorf("%d bytes from %d: %d come back, %v", n, from, len(b), err)
			}
		}
	}
}

// A caller that waits for a lock of another process can give up.
func TestStoreLockHeld(t *testing.T) {
	root := t.TempDir()
	s := openStore(t, root)
	tag, err := s.PutIfAbsent(t.Context(), refKey, []byte("one"))
	if err == nil {
		tag, err = s.PutIfMatch(t.Context(), refKey, []byte("two"), tag)
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(root, "locks", tree(t, filepath.Join(root, "locks"))[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd := int(f.Fd())
	if err := unix.Flock(fd, unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	codectest.Within(t, codectest.Patience, "PutIfMatch", func() {
		if _, err := s.PutIfMatch(ctx, refKey, []byte("three"), tag); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("PutIfMatch = %v", err)
		}
	})
	time.AfterFunc(20*time.Millisecond, func() { unix.Flock(fd, unix.LOCK_UN) })
	if _, err := s.PutIfMatch(t.Context(), refKey, []byte("four"), tag); err != nil {
		t.Errorf("PutIfMatch = %v", err)
	}
}

// A deletion waits while PutIfMatch of another process is between its comparison and its rename, which
// would bring the object back.
func TestDeleteWaitsForLock(t *testing.T) {
	for _, k := range []names.Key{names.RefKey("org/model"), names.SnapshotKey("release"), names.SettingsKey(), names.SweepKey()} {
		synctest.Test(t, func(t *testing.T) {
			root := t.TempDir()
			s, other := openStore(t, root), openStore(t, root)
			if _, err := s.PutIfAbsent(t.Context(), k, []byte("value")); err != nil {
				t.Fatal(err)
			}
			unlock := dir.Lock(t, other, k)
			var deletion errgroup.Group
			deletion.Go(func() error { return s.Delete(t.Context(), k) })
			synctest.Wait()
			if _, err := os.Stat(filepath.Join(root, string(k))); err != nil {
				t.Errorf("the object is deleted during PutIfMatch: %v", err)
			}
			unlock()
			if err := deletion.Wait(); err != nil {
				t.Error(err)
			}
			if _, err := s.Size(t.Context(), k); !errors.Is(err, origin.ErrNotFound) {
				t.Errorf("Size of a deleted object = %v", err)
			}
		})
	}
}

// A folder that another process removed fails no Sync, and is made again when it is needed.
func TestStoreFolderRemoved(t *testing.T) {
	root := t.TempDir()
	s := openStore(t, root)
	for range 2 {
		if _, err := s.PutIfAbsent(t.Context(), dataKey, []byte("value")); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(root, "tdata")); err != nil {
			t.Fatal(err)
		}
		if err := s.Sync(t.Context()); err != nil {
			t.Errorf("Sync = %v", err)
		}
	}
}

// Many writers of the same and of other objects, and of names, do not hinder each other.
func TestStoreConcurrent(t *testing.T) {
	root := t.TempDir()
	stores := []*dir.Store{openStore(t, root), openStore(t, root)} // two processes
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

// Files of a killed writer are removed when they are old, and not before. Other files stay.
func TestStoreStray(t *testing.T) {
	root := t.TempDir()
	s := openStore(t, root)
	if n, err := s.RemoveStray(t.Context(), time.Hour); n != 0 || err != nil {
		t.Errorf("without tmp: %d, %v", n, err)
	}
	now := time.Now()
	old, young := "tmp/"+rand.Text(), "tmp/"+rand.Text()
	for name, age := range map[string]time.Duration{
		old: 25 * time.Hour, "tmp/scratch-1": 25 * time.Hour, young: 23 * time.Hour,
		"tdata/old": 25 * time.Hour, "tmp/model.xorb": 25 * time.Hour,
	} {
		path := filepath.Join(root, name)
		write(t, path, []byte("x"))
		if err := os.Chtimes(path, now, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.RemoveStray(t.Context(), 24*time.Hour); n != 2 || err != nil {
		t.Errorf("removed %d, %v, want 2", n, err)
	}
	if n, err := s.RemoveStray(t.Context(), 24*time.Hour); n != 0 || err != nil {
		t.Errorf("removed %d once more, %v", n, err)
	}
	if got, want := tree(t, root), slices.Sorted(slices.Values([]string{"tdata/old", young, "tmp/model.xorb"})); !slices.Equal(got, want) {
		t.Errorf("left are %q, want %q", got, want)
	}
}

// O30: OpenBare does not find values that are being written, also when a writer was killed
// before the store had its first object. Otherwise a pack would rely on a file in tmp that no
// reader finds afterwards. Other files in a folder that happens to be called tmp count.
func TestO30_BareOverlooksTmp(t *testing.T) {
	_, body, _ := sample(t, origintest.Form{})
	const value, lock = "tmp/ABCDEFGHIJKLMNOPQRSTUVWXYZ", "locks/0123456789abcdef0123456789abcdef"
	tests := []struct {
		files []string
		want  []string
	}{
		{[]string{"tdata/xorb/aa/a", value, lock, "deep/" + value}, []string{"deep/" + value, "tdata/xorb/aa/a"}},
		{[]string{value, lock, "tmp/scratch-1234"}, nil},
		{[]string{"a", value, "tmp/b", "locks/c"}, []string{"a", "locks/c", "tmp/b"}},
		{[]string{"a", "tdata/xorb/aa/a", "tmp/b"}, []string{"a", "tdata/xorb/aa/a", "tmp/b"}},
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

// The next Sync completes a Sync that was given up.
func TestStoreSyncGivenUp(t *testing.T) {
	s := openStore(t, t.TempDir())
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

// The first Sync makes the names of other writers durable, and so does the next one after
// SyncAll. A Sync that was given up does not count.
func TestStoreSyncsOthers(t *testing.T) {
	root := t.TempDir()
	s, other := openStore(t, root), openStore(t, root)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range byte(3) {
		if _, err := other.PutIfAbsent(t.Context(), names.XorbKey(codec.Hash{7: i}), []byte("value")); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			s.SyncAll()
		}
		if err := s.Sync(canceled); !errors.Is(err, context.Canceled) {
			t.Fatalf("Sync = %v", err)
		}
		if folder := filepath.Dir(string(names.XorbKey(codec.Hash{7: i}))); !s.Dirty()[folder] || !s.Dirty()["."] {
			t.Errorf("%s is not among %v", folder, s.Dirty())
		}
		if err := s.Sync(t.Context()); err != nil || len(s.Dirty()) > 0 {
			t.Errorf("Sync = %v, dirty are %v", err, s.Dirty())
		}
	}
}

// A Sync looks for the folders of data without the lock of puts, because many lookups may take long.
func TestStoreFindsFoldersWithoutLock(t *testing.T) {
	s := openStore(t, t.TempDir())
	if _, err := s.PutIfAbsent(t.Context(), names.XorbKey(codec.Hash{1}), []byte("value")); err != nil {
		t.Fatal(err)
	}
	codectest.Within(t, codectest.Patience, "dataFolders", func() {
		if n, complete := dir.DataFolders(s); n != 4 || !complete {
			t.Errorf("%d folders, complete %t, want ., tdata, tdata/xorb and one below", n, complete)
		}
	})
}

// A deletion removes a folder with its last object. Walks and syncs of a swept store then meet no
// empty folders.
func TestDeleteRemovesEmptyFolder(t *testing.T) {
	root := t.TempDir()
	s := openStore(t, root)
	gone, stays := names.XorbKey(codec.Hash{7: 1}), names.XorbKey(codec.Hash{7: 2})
	beside := names.XorbKey(codec.Hash{0: 1, 7: 2})
	for _, k := range []names.Key{gone, stays, beside} {
		if _, err := s.PutIfAbsent(t.Context(), k, []byte("value")); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range []names.Key{gone, beside} {
		if err := s.Delete(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	left, err := os.ReadDir(filepath.Join(root, "tdata/xorb"))
	if err != nil || len(left) != 1 || left[0].Name() != filepath.Base(filepath.Dir(string(stays))) {
		t.Errorf("left are %v, %v", left, err)
	}
	if err := s.Sync(t.Context()); err != nil {
		t.Error(err)
	}
}

// Writers put objects into a folder that deletions remove again and again, with and without hard
// links.
func TestPutBesideDelete(t *testing.T) {
	for _, hasLinks := range []bool{true, false} {
		t.Run(fmt.Sprint("links ", hasLinks), func(t *testing.T) {
			root := t.TempDir()
			var writers errgroup.Group
			for w := range byte(4) {
				s := openStore(t, root)
				if !hasLinks {
					s.NoLinks()
				}
				writers.Go(func() error {
					k := names.XorbKey(codec.Hash{0: w})
					for range 200 {
						if _, err := s.PutIfAbsent(t.Context(), k, []byte("value")); err != nil {
							return err
						}
						if _, _, err := s.Get(t.Context(), k, ""); err != nil {
							return err
						}
						if err := s.Delete(t.Context(), k); err != nil {
							return err
						}
					}
					return nil
				})
			}
			if err := writers.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

package dir_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/names"
)

// A store is read without a write to it. No file is made in an empty folder, and no missing
// folder is made.
func TestReadOnly(t *testing.T) {
	root := t.TempDir()
	s, err := dir.OpenReadOnly(root)
	if err != nil {
		t.Fatal(err)
	}
	origintest.Close(t, s)
	if _, _, err := s.Get(t.Context(), names.SettingsKey(), ""); !errors.Is(err, origin.ErrNotFound) {
		t.Errorf("Get = %v, want %v", err, origin.ErrNotFound)
	}
	if _, err := s.Size(t.Context(), names.SweepKey()); !errors.Is(err, origin.ErrNotFound) {
		t.Errorf("Size = %v, want %v", err, origin.ErrNotFound)
	}
	for item, err := range s.List(t.Context(), names.RefPrefix, "") {
		t.Errorf("List yields %v, %v", item, err)
	}
	if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
		t.Errorf("reading left %v behind, %v", left, err)
	}
	nowhere := filepath.Join(root, "nowhere")
	if _, err := dir.OpenReadOnly(nowhere); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenReadOnly = %v, want %v", err, fs.ErrNotExist)
	}
	if _, err := os.Stat(nowhere); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder was made: %v", err)
	}
}

// A read that has begun in a folder ends there, although another folder has its path now. The folder is
// closed later.
func TestRelocateDuringRead(t *testing.T) {
	top, k := t.TempDir(), names.XorbKey(codec.Hash{1})
	path, next, moved := filepath.Join(top, "store"), filepath.Join(top, "next"), filepath.Join(top, "moved")
	for _, folder := range []string{path, next} {
		if _, err := openStore(t, folder).PutIfAbsent(t.Context(), k, []byte(filepath.Base(folder))); err != nil {
			t.Fatal(err)
		}
	}
	s, err := dir.OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	origintest.Close(t, s)
	begun := dir.Current(s)
	if err := errors.Join(os.Rename(path, moved), os.Rename(next, path)); err != nil {
		t.Fatal(err)
	}
	if err := s.Relocate(t.Context(), func(context.Context, origin.Store) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, read := range []struct {
		in   origin.Store
		want string
	}{{begun, "store"}, {s, "next"}} {
		if size, err := read.in.Size(t.Context(), k); size != int64(len(read.want)) || err != nil {
			t.Errorf("Size = %d, %v, want %d", size, err, len(read.want))
		}
		if b, _, err := read.in.Get(t.Context(), k, ""); string(b) != read.want || err != nil {
			t.Errorf("Get = %q, %v, want %q", b, err, read.want)
		}
	}
}

// A folder that was replaced is closed when no read uses it.
func TestRelocateClosesFolder(t *testing.T) {
	top := t.TempDir()
	path, moved := filepath.Join(top, "store"), filepath.Join(top, "moved")
	if err := os.Mkdir(path, 0o777); err != nil {
		t.Fatal(err)
	}
	s, err := dir.OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	origintest.Close(t, s)
	if err := errors.Join(os.Rename(path, moved), os.Mkdir(path, 0o777)); err != nil {
		t.Fatal(err)
	}
	if err := s.Relocate(t.Context(), func(context.Context, origin.Store) error { return nil }); err != nil {
		t.Fatal(err)
	}
	codectest.Within(t, codectest.Patience, "closing the folder", func() {
		for isOpen(t, moved) {
			runtime.GC()
		}
	})
}

// isOpen reports whether this process has a folder open.
func isOpen(t *testing.T, folder string) bool {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Error(err)
	}
	return slices.ContainsFunc(fds, func(fd fs.DirEntry) bool {
		name, _ := os.Readlink("/proc/self/fd/" + fd.Name())
		return name == folder
	})
}

// The layers above the data of a catalog have hashes in their names. They do not count as
// damaged shards or xorbs.
func TestBareOverCatalog(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	b.Add(origintest.Text(1, 3000), 1000)
	root := t.TempDir()
	store, err := dir.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	origintest.Close(t, store)
	b.Put(store)
	above := []names.Key{names.PageKey([32]byte{1}), names.SweepListKey(nil), names.SymbolKey(names.Symbol{Name: "a"})}
	count := func() int {
		t.Helper()
		s, err := dir.OpenBare(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		files, err := s.Files(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	for _, k := range above {
		if err := origintest.Replace(store, k, []byte("not data")); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(); n != 2+len(above) {
		t.Errorf("%d files in a folder that is no catalog, want shard, xorb and the %d that have the names of some", n, len(above))
	}
	if err := origintest.Replace(store, names.SettingsKey(), []byte("settings")); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != 2 {
		t.Errorf("%d files in a catalog, want shard and xorb", n)
	}
}

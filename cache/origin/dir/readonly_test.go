package dir_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/origintest"
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

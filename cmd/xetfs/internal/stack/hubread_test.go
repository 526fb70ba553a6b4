package stack

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/hub/hubtest"
	"github.com/xetfs/xetfs/codec/names"
)

// readHub reads a whole file.
func readHub(t *testing.T, s *Source, path string) ([]byte, error) {
	t.Helper()
	tree, err := s.Stored.Open(t.Context(), s.Symbol, names.AsOf{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := tree.Lookup(t.Context(), path)
	if err != nil {
		return nil, err
	}
	f, err := s.Reader.Open(t.Context(), e.ID)
	if err != nil {
		return nil, err
	}
	got := make([]byte, f.Size())
	if n, err := f.ReadAt(t.Context(), got, 0); err != nil && !errors.Is(err, io.EOF) {
		return got[:n], err
	}
	return got, nil
}

// Files outside Xet are read through all layers, and a second read comes from memory.
func TestHubSource(t *testing.T) {
	s := hubtest.New(t)
	big := bytes.Repeat([]byte("0123456789abcdef"), 40_000)
	s.Commit("model/org/m", "main", hubtest.File{Path: "a/git", Content: []byte("small")}, hubtest.File{Path: "lfs", Content: big, LFS: true})
	s.Token = hubCanary
	src, err := openHubSource(t, s, "hf://org/m", map[string]string{"HF_TOKEN": hubCanary})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for path, want := range map[string][]byte{"a/git": []byte("small"), "lfs": big} {
			if got, err := readHub(t, src, path); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: other bytes, or %v", path, err)
			}
		}
	}
	if n := len(s.Requests("/resolve/")); n != 2 {
		t.Errorf("%d requests for content, want 2: %q", n, s.Requests(""))
	}
	if leaked := s.Leaked(); len(leaked) > 0 {
		t.Errorf("the content server received tokens: %q", leaked)
	}
}

// Damaged content is an error, not bytes.
func TestHubSourceDamaged(t *testing.T) {
	s := hubtest.New(t)
	s.Commit("model/org/m", "main", hubtest.File{Path: "git", Content: []byte("small")})
	src, err := openHubSource(t, s, "hf://org/m", nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Lock()
	s.Damage = func(path string, content []byte) []byte { return bytes.ToUpper(content) }
	s.Unlock()
	if got, err := readHub(t, src, "git"); err == nil {
		t.Errorf("read %q", got)
	}
	s.Lock()
	s.Damage = nil
	s.Unlock()
	if got, err := readHub(t, src, "git"); err != nil || string(got) != "small" {
		t.Errorf("after the damage: %q, %v", got, err)
	}
}

// Without a folder of all caches, the catalog is in a temporary folder.
func TestHubSourceWithoutCaches(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := hubtest.New(t)
	s.Commit("model/org/m", "main", hubtest.File{Path: "git", Content: []byte("small")})
	src, err := openHubSource(t, s, "hf://org/m", nil, func(o *Options) { o.Remote.CacheDir = "" })
	if err != nil {
		t.Fatal(err)
	}
	if got, err := readHub(t, src, "git"); err != nil || string(got) != "small" {
		t.Errorf("%q, %v", got, err)
	}
	src.Close()
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// A small file that is written out is fetched once, although it is checked before its first byte.
func TestHubSourceVerifiedOnce(t *testing.T) {
	s := hubtest.New(t)
	want := bytes.Repeat([]byte("0123456789abcdef"), 40_000)
	s.Commit("model/org/m", "main", hubtest.File{Path: "git", Content: []byte("small")}, hubtest.File{Path: "lfs", Content: want, LFS: true})
	src, err := openHubSource(t, s, "hf://org/m", nil)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := src.Stored.Open(t.Context(), src.Symbol, names.AsOf{})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]byte{"git": []byte("small"), "lfs": want} {
		e, err := tree.Lookup(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := src.Reader.Open(t.Context(), e.ID)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(f.VerifyReader(t.Context(), e.SHA256)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v", path, len(got), err)
		}
	}
	if n := len(s.Requests("/resolve/")); n != 2 {
		t.Errorf("%d requests for two files: %q", n, s.Requests("/resolve/"))
	}
}

package fs

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/fs/catalog/bare"
	"github.com/xetfs/xetfs/reconstruct"
)

// The files of the real client are read through the kernel, under each name. A read of a corrupt
// shard returns right bytes or an error.
func TestVectors(t *testing.T) {
	needFUSE(t)
	root := os.Getenv("XETFS_VECTORS")
	if root == "" {
		t.Skip("XETFS_VECTORS is not set")
	}
	b, err := os.ReadFile(filepath.Join(root, "core", "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Files map[string]struct {
			Size   int64
			SHA256 string
		}
	}
	if err := json.Unmarshal(b, &manifest); err != nil {
		t.Fatal(err)
	}
	good256 := map[string]bool{}
	for _, f := range manifest.Files {
		good256[f.SHA256] = true
	}
	store, err := dir.OpenBare(t.Context(), filepath.Join(root, "core"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	names, err := bare.Open(t.Context(), store, bare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := cache.New(objects.New(store, objects.Options{}), cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	at := t.TempDir()
	s, err := Mount(at, names, reconstruct.New(c, reconstruct.Options{}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(0)
	if err := s.RefusePoll(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(hangLimit(t), func() { s.device.Abort() })
	defer late.Stop()
	t.Logf("%d shards are left out", len(names.Damaged()))

	good := 0
	err = filepath.WalkDir(at, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		sum, size, err := sumOf(path)
		name := filepath.Base(path)
		want, known := manifest.Files[name]
		switch {
		case err != nil:
			t.Logf("%s: %v", name, err)
			if known && filepath.Base(filepath.Dir(path)) == "by-hash" {
				t.Errorf("a good file cannot be read: %s: %v", name, err)
			}
		case known && (sum != want.SHA256 || size != want.Size):
			t.Errorf("%s: %d bytes with SHA-256 %s, want %d with %s", path, size, sum, want.Size, want.SHA256)
		case known:
			good++
		case filepath.Base(filepath.Dir(path)) == "by-sha256" && good256[name] && sum != name:
			t.Errorf("%s: SHA-256 is %s", path, sum) // only a read proves the other names
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if good < len(manifest.Files) {
		t.Errorf("%d names were right, want %d and more", good, len(manifest.Files))
	}
}

func sumOf(path string) (sum string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	size, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), size, err
}

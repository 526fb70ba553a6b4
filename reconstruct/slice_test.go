package reconstruct_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/reconstruct"
)

func TestSlice(t *testing.T) {
	v := os.Getenv("XETFS_VECTORS")
	if v == "" {
		t.Skip()
	}
	start := time.Now()
	s, err := dir.OpenBare(t.Context(), filepath.Join(v, "core"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	t.Log("open", time.Since(start))
	b, _ := os.ReadFile(filepath.Join(v, "core", "manifest.json"))
	var m struct {
		Files map[string]struct {
			Size   int64
			Sha256 string
		}
	}
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	c, err := cache.New(origin.Objects(s, 0), cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := reconstruct.New(c, reconstruct.Options{})
	var total int64
	start = time.Now()
	for text, want := range m.Files {
		h, _ := codec.ParseHash(text)
		f, err := r.Open(context.Background(), codec.FileID{File: h})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if f.Size() != want.Size {
			t.Errorf("size %d", f.Size())
		}
		sum := sha256.New()
		n, err := io.CopyBuffer(sum, struct{ io.Reader }{io.NewSectionReader(at{f}, 0, f.Size())}, make([]byte, 1<<20))
		if err != nil || hex.EncodeToString(sum.Sum(nil)) != want.Sha256 {
			t.Errorf("%s: %d %v", text, n, err)
		}
		sum.Reset()
		n, err = io.Copy(sum, f.Whole(t.Context()))
		if err != nil || hex.EncodeToString(sum.Sum(nil)) != want.Sha256 {
			t.Errorf("%s whole: %d %v", text, n, err)
		}
		total += n
		if f.Verified(t.Context()) != "chunk" {
			t.Errorf("%s", f.Verified(t.Context()))
		}
	}
	t.Log(total, time.Since(start), c.Stats())
}

type at struct{ f *reconstruct.File }

func (a at) ReadAt(p []byte, off int64) (int, error) { return a.f.ReadAt(context.Background(), p, off) }

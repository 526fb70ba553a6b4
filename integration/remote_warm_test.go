package integration

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// A smallFileTree is a folder of small files, each of one chunk, in a catalog and in a store without
// names.
type smallFileTree struct {
	folder string
	stores map[string]string // "catalog", "bare"
	files  int
	bytes  int64
	want   treeList
}

func newSmallFileTree(t *testing.T, files int) *smallFileTree {
	t.Helper()
	dir := t.TempDir()
	c := &smallFileTree{folder: filepath.Join(dir, "folder"), files: files}
	for i := range files {
		in := filepath.Join(c.folder, fmt.Sprintf("%02d", i/100))
		if i%100 == 0 {
			if err := os.MkdirAll(in, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		content := harness.Noise(uint64(i), 2000+i%7*2500)
		c.bytes += int64(len(content))
		harness.WriteFile(t, filepath.Join(in, fmt.Sprint(i)), content)
	}
	c.stores = map[string]string{"catalog": filepath.Join(dir, "catalog"), "bare": filepath.Join(dir, "bare")}
	newCatalog(t, c.stores["catalog"])
	harness.Publish(t, c.stores["catalog"], "tree", c.folder)
	pack(t, c.stores["bare"], c.folder)
	c.want, _ = listPatiently(t, c.folder)
	return c
}

// Thousands of small files that share xorbs need a few large requests. Each byte of their data and
// File Infos is fetched once. A second warm requests no data.
func TestRemoteWarmManySmallFiles(t *testing.T) {
	harness.NeedFuse(t)
	t.Parallel()
	c := newSmallFileTree(t, 1500)
	for name, store := range c.stores {
		s := harness.ServeRemote(t, store, "--delay=5ms")
		var args []string
		if name == "catalog" {
			args = []string{"tree"}
		}
		for _, flag := range []string{"", "--chunks"} {
			t.Run(name+flag, func(t *testing.T) {
				args := args
				if flag != "" {
					args = append([]string{flag}, args...)
				}
				cache, before := newCacheFolder(t), s.Traffic()
				w := cache.warm(s.URL, args...)
				sent := s.Since(before)
				t.Logf("%d files of %d bytes: %+v", c.files, c.bytes, sent)
				if w.Files != int64(c.files) || w.Bytes != c.bytes || w.Failed != 0 || w.Already != 0 {
					t.Errorf("%+v", w)
				}
				if most := int64(c.files / 50); sent.Requests > most || sent.Bytes > c.bytes*11/10 {
					t.Errorf("%d requests for %d bytes; want %d for %d", sent.Requests, sent.Bytes, most, c.bytes)
				}
				before = s.Traffic()
				if w = cache.warm(s.URL, args...); w.Already != w.Files || w.Fetched != 0 || s.Since(before).DataRequests != 0 {
					t.Errorf("the second time %+v, %+v", w, s.Since(before))
				}
				cache.wantSound()
				if name == "catalog" {
					m := harness.MountSource(t, s.URL, cache.flags()...)
					checkTree(t, m, c.want)
					if sent := s.Since(before); sent.DataRequests != 0 {
						t.Errorf("a mount fetched %d bytes of what was warmed", sent.DataBytes)
					}
					m.Quiet()
				}
			})
		}
	}
}

// A warm of some files fetches little of the others.
func TestRemoteWarmSome(t *testing.T) {
	t.Parallel()
	c := newSmallFileTree(t, 2000)
	s := harness.ServeRemote(t, c.stores["catalog"], "--delay=5ms")
	cache, before := newCacheFolder(t), s.Traffic()
	w := cache.warm(s.URL, "tree", "03", "07/700", "07/750", "11")
	sent := s.Since(before)
	if w.Files != 202 || w.Failed != 0 {
		t.Errorf("%+v", w)
	}
	const footers = 300 << 10
	if sent.DataBytes > w.Bytes*12/10+footers || sent.DataRequests > 20 {
		t.Errorf("%+v for %d bytes", sent, w.Bytes)
	}
}

// Damaged and missing data fails only its own files, named one by one.
func TestRemoteWarmDamaged(t *testing.T) {
	t.Parallel()
	remote := serveNoise(t, 8000, 200, 20_000)
	xorbs, err := filepath.Glob(filepath.Join(remote.dir, "*.xorb"))
	if err != nil || len(xorbs) != 1 {
		t.Fatal(xorbs, err)
	}
	b, err := os.ReadFile(xorbs[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{50_000, 51_000, 1_000_000} { // two are in one file
		b[at] ^= 4
	}
	if err := os.Chmod(xorbs[0], 0o644); err != nil {
		t.Fatal(err)
	}
	harness.WriteFile(t, xorbs[0], b)
	for _, args := range [][]string{nil, {"--chunks"}} {
		cache := newCacheFolder(t)
		cmd := cache.warmCommand(remote.URL, args...)
		var said bytes.Buffer
		cmd.Stderr = &said
		out, _ := cmd.Output()
		if code := cmd.ProcessState.ExitCode(); code != 6 || !bytes.Contains(out, []byte(`"failed": 2,`)) {
			t.Errorf("%v: exit status %d: %s", args, code, out)
		}
		if lines := bytes.Count(said.Bytes(), []byte("\n")); lines != 2 || bytes.Count(said.Bytes(), []byte("its hash is")) != 2 {
			t.Errorf("%v: %s", args, said.Bytes())
		}
		kept := cache.kept()
		if args == nil && kept.Files != len(remote.files)-2 {
			t.Errorf("%d files of %d are kept", kept.Files, len(remote.files)-2)
		}
		cache.wantSound()
	}
}

// Over a link that damages and cuts off one answer in fifty all of it comes, and is right.
func TestRemoteWarmOverABadLink(t *testing.T) {
	harness.NeedFuse(t)
	t.Parallel()
	c := newSmallFileTree(t, 1000)
	s := harness.ServeRemote(t, c.stores["catalog"], "--corrupt=2%", "--truncate=2%", "--fail=2%")
	cache := newCacheFolder(t)
	if w := cache.warm(s.URL, "tree"); w.Failed != 0 || w.Files != int64(c.files) {
		t.Errorf("%+v", w)
	}
	cache.wantSound()
	checkTree(t, harness.MountSource(t, c.stores["catalog"], cache.flags()...), c.want)
}

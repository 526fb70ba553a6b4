package integration

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// K52: a store that disappears does not look like an empty tree. The mount shows what it
// showed, says why once, and uses the store again when it is back.
func TestK52_StoreGone(t *testing.T) {
	t.Parallel() // it mostly waits
	for _, remote := range []bool{false, true} {
		name := map[bool]string{false: "folder", true: "web server"}[remote]
		t.Run(name, func(t *testing.T) {
			work := t.TempDir()
			folder, store := filepath.Join(work, "folder"), filepath.Join(work, "store")
			cached, uncached := harness.Noise(1, 1<<20), harness.Noise(2, 1<<20)
			if err := os.MkdirAll(filepath.Join(folder, "sub"), 0o755); err != nil {
				t.Fatal(err)
			}
			harness.WriteFile(t, filepath.Join(folder, "cached"), cached)
			harness.Publish(t, store, "org/two", folder)
			harness.WriteFile(t, filepath.Join(folder, "sub", "uncached"), uncached) // in another xorb
			harness.Publish(t, store, "org/one", folder)
			source := store
			if remote {
				server := httptest.NewServer(http.FileServer(http.Dir(store)))
				defer server.Close()
				source = server.URL
			}
			m := harness.MountSource(t, source, "--follow=100ms", "--cache-dir="+filepath.Join(work, "cache"))
			m.Shows(t, "org/one/cached", cached)
			if got := strings.Join(namesIn(t, m.Path("org/one/sub")), " "); got != "uncached" {
				t.Errorf("sub has %q", got)
			}

			moved := filepath.Join(work, "moved")
			if err := os.CopyFS(moved, os.DirFS(store)); err != nil {
				t.Fatal(err)
			}
			gone := filepath.Join(work, "gone") // all of it at once
			if err := os.Rename(store, gone); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(gone); err != nil {
				t.Fatal(err)
			}
			m.AwaitGone(t, false)
			checkShown := func(what string) {
				t.Helper()
				if got := strings.Join(namesIn(t, m.Path("org")), " "); got != "one two" {
					t.Errorf("%s: the symbols are %q", what, got)
				}
				if b, err := os.ReadFile(m.Path("org/one/cached")); err != nil || !bytes.Equal(b, cached) {
					t.Errorf("%s: a cached file cannot be read: %v", what, err)
				}
				for _, path := range []string{"org/one/sub/uncached", "org/two/cached", "org/one/.versions/0/cached"} {
					if _, err := os.ReadFile(m.Path(path)); err == nil || !strings.Contains(err.Error(), syscall.EIO.Error()) {
						t.Errorf("%s: %s: %v, want an input/output error", what, path, err)
					}
				}
			}
			checkShown("the store is gone")

			// Another catalog in its place is not shown, and named.
			harness.WriteFile(t, filepath.Join(folder, "cached"), []byte("of another catalog"))
			harness.Publish(t, store, "org/one", folder)
			harness.Publish(t, store, "org/three", folder)
			line := m.AwaitGone(t, true)
			if id, found := line.Text("id"), line.Text("found"); len(id) != 32 || len(found) != 32 || id == found ||
				!strings.Contains(line.Text("err"), id) || !strings.Contains(line.Text("err"), found) {
				t.Errorf("the event does not name both catalogs: %v", line)
			}
			if got := strings.Join(namesIn(t, m.Path("org")), " "); got != "one two" {
				t.Errorf("another catalog: the symbols are %q", got)
			}
			m.Shows(t, "org/one/cached", cached)

			// The same catalog is seen again, and followed.
			if err := os.RemoveAll(store); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(moved, store); err != nil {
				t.Fatal(err)
			}
			if _, ok := m.Log.Wait(harness.Patience, harness.Event("store_back")); !ok {
				t.Fatalf("the store is not seen again:\n%s", m.Log)
			}
			m.Shows(t, "org/one/sub/uncached", uncached)
			m.Shows(t, "org/two/cached", cached)
			harness.Publish(t, store, "org/one", folder)
			m.Shows(t, "org/one/cached", []byte("of another catalog"))
		})
	}
}

// A restored copy of a store is watched like the store before it.
func TestK52_RestoredStoreIsWatched(t *testing.T) {
	t.Parallel() // it mostly waits
	work := t.TempDir()
	folder, store := filepath.Join(work, "folder"), filepath.Join(work, "store")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	harness.WriteFile(t, filepath.Join(folder, "f"), []byte("zero"))
	harness.Publish(t, store, "s", folder)
	m := harness.MountSource(t, store, "--follow=1s", "--log-level=debug")
	m.Shows(t, "s/f", []byte("zero"))
	moved := filepath.Join(work, "moved")
	if err := os.Rename(store, moved); err != nil {
		t.Fatal(err)
	}
	m.AwaitGone(t, false)
	if err := os.CopyFS(store, os.DirFS(moved)); err != nil {
		t.Fatal(err)
	}
	if _, ok := m.Log.Wait(harness.Patience, harness.Event("store_back")); !ok {
		t.Fatalf("the store is not seen again:\n%s", m.Log)
	}
	harness.WaitUntil(t, "the copy is watched", func() bool { return watches(t, m.Pid(), filepath.Join(store, "vref")) })
	harness.WriteFile(t, filepath.Join(folder, "f"), []byte("one"))
	harness.Publish(t, store, "s", folder, "--checksum")
	m.Shows(t, "s/f", []byte("one"))
}

// watches reports whether a process has an inotify watch on a folder.
func watches(t *testing.T, pid int, dir string) bool {
	t.Helper()
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(" ino:%x ", info.Sys().(*syscall.Stat_t).Ino)
	all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	for _, path := range all {
		if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), want) {
			return true
		}
	}
	return false
}

package integration

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// mountAfterWrongBytes mounts a repository with the equal files a and b. A read of a returned wrong bytes,
// and one of b an error, before the server became sound. The file a stays open, unless closes.
func mountAfterWrongBytes(t *testing.T, closes bool, flags ...string) (m *harness.Mount, a *os.File, content []byte) {
	t.Helper()
	folder, store := t.TempDir(), filepath.Join(t.TempDir(), "store")
	content = harness.Noise(7, 24<<20)
	for _, path := range []string{"a", "b"} {
		harness.WriteFile(t, filepath.Join(folder, path), content)
	}
	harness.Publish(t, store, "org/model", folder)
	hub := newLiar(t, serveHub(t, store), func(r *http.Request, body []byte) []byte {
		if strings.Contains(r.URL.Path, "/transfer/") && len(body) > 200 {
			body[100] ^= 1
		}
		return body
	})
	useHub(t, hub.URL)
	m = harness.MountSource(t, "hf://org/model", flags...)
	a, err := os.Open(m.Path("a"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	got := make([]byte, 1<<20)
	if _, err := io.ReadFull(a, got); err != nil || bytes.Equal(got, content[:len(got)]) {
		t.Fatalf("the first read has no wrong bytes, or fails: %v", err)
	}
	if closes {
		a.Close()
	}
	if _, err := os.ReadFile(m.Path("b")); err == nil {
		t.Fatal("no error of wrong bytes")
	}
	hub.active.Store(false)
	return m, a, content
}

// F54: a server returns wrong bytes of a file that has two paths. The SHA-256 of earlier wrong reads does
// not become that of the file, which a sound server then returns.
func TestF54_HubWrongBytesOfTwoPaths(t *testing.T) {
	harness.NeedFuse(t)
	for name, flags := range map[string][]string{"disk": {"--cache-dir=" + t.TempDir()}, "never": {"--cache-dir=" + t.TempDir(), "--materialize=never"}, "no disk": {"--cache-dir=off"}} {
		t.Run(name, func(t *testing.T) {
			m, first, want := mountAfterWrongBytes(t, false, flags...)
			second, err := os.Open(m.Path("b")) // the first handle of another File
			if err != nil {
				t.Fatal(err)
			}
			defer second.Close()
			wantContent(t, m, want, "a", "a", "b")
			first.Close()
			second.Close()
			m.Unmount()
			m = harness.MountSource(t, "hf://org/model", flags...)
			wantContent(t, m, want, "a", "b")
		})
	}
}

// F54: a server returns wrong bytes of a file that has two paths. The error is of one path, and the pages
// of the other, which is closed, are not shown later.
func TestF54_HubPagesOfOtherPath(t *testing.T) {
	harness.NeedFuse(t)
	m, _, want := mountAfterWrongBytes(t, true, "--cache-dir="+t.TempDir(), "--materialize=never")
	wantContent(t, m, want, "b", "a", "b")
}

// wantContent reads files of a mount, which must have a content.
func wantContent(t *testing.T, m *harness.Mount, want []byte, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if got, err := os.ReadFile(m.Path(path)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, equal %v, %v", path, len(got), bytes.Equal(got, want), err)
		}
	}
}

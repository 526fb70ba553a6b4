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

// F54: a server returns wrong bytes of a file that has two paths. The SHA-256 of earlier wrong reads does
// not become that of the file, which a sound server then returns.
func TestF54_HubWrongBytesOfTwoPaths(t *testing.T) {
	harness.NeedFuse(t)
	for name, flags := range map[string][]string{"disk": {"--cache-dir=" + t.TempDir()}, "never": {"--cache-dir=" + t.TempDir(), "--materialize=never"}, "no disk": {"--cache-dir=off"}} {
		t.Run(name, func(t *testing.T) {
			folder, store := t.TempDir(), filepath.Join(t.TempDir(), "store")
			want := harness.Noise(7, 24<<20)
			for _, path := range []string{"a", "b"} {
				harness.WriteFile(t, filepath.Join(folder, path), want)
			}
			harness.Publish(t, store, "org/model", folder)
			hub := newLiar(t, serveHub(t, store), func(r *http.Request, body []byte) []byte {
				if strings.Contains(r.URL.Path, "/transfer/") && len(body) > 200 {
					body[100] ^= 1
				}
				return body
			})
			useHub(t, hub.URL)
			m := harness.MountSource(t, "hf://org/model", flags...)
			first, err := os.Open(m.Path("a"))
			if err != nil {
				t.Fatal(err)
			}
			defer first.Close()
			got := make([]byte, 1<<20)
			if _, err := io.ReadFull(first, got); err != nil || bytes.Equal(got, want[:len(got)]) {
				t.Fatalf("the first read has no wrong bytes, or fails: %v", err)
			}
			if _, err := os.ReadFile(m.Path("b")); err == nil {
				t.Fatal("no error of wrong bytes")
			}
			hub.active.Store(false)
			second, err := os.Open(m.Path("b")) // the first handle of another File
			if err != nil {
				t.Fatal(err)
			}
			defer second.Close()
			for _, path := range []string{"a", "a", "b"} {
				if got, err := os.ReadFile(m.Path(path)); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s: %d bytes, equal %v, %v", path, len(got), bytes.Equal(got, want), err)
				}
			}
			first.Close()
			second.Close()
			m.Unmount()
			m = harness.MountSource(t, "hf://org/model", flags...)
			for _, path := range []string{"a", "b"} {
				if got, err := os.ReadFile(m.Path(path)); err != nil || !bytes.Equal(got, want) {
					t.Errorf("later mount, %s: %d bytes, equal %v, %v", path, len(got), bytes.Equal(got, want), err)
				}
			}
		})
	}
}

// F54: a server returns wrong bytes of a file that has two paths. The error is of one path, and the pages
// of the other, which is closed, are not shown later.
func TestF54_HubPagesOfOtherPath(t *testing.T) {
	harness.NeedFuse(t)
	folder, store := t.TempDir(), filepath.Join(t.TempDir(), "store")
	want := harness.Noise(7, 24<<20)
	for _, path := range []string{"a", "b"} {
		harness.WriteFile(t, filepath.Join(folder, path), want)
	}
	harness.Publish(t, store, "org/model", folder)
	hub := newLiar(t, serveHub(t, store), func(r *http.Request, body []byte) []byte {
		if strings.Contains(r.URL.Path, "/transfer/") && len(body) > 200 {
			body[100] ^= 1
		}
		return body
	})
	useHub(t, hub.URL)
	m := harness.MountSource(t, "hf://org/model", "--cache-dir="+t.TempDir(), "--materialize=never")
	first, err := os.Open(m.Path("a"))
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 1<<20)
	if _, err := io.ReadFull(first, got); err != nil || bytes.Equal(got, want[:len(got)]) {
		t.Fatalf("the first read has no wrong bytes, or fails: %v", err)
	}
	first.Close()
	if _, err := os.ReadFile(m.Path("b")); err == nil {
		t.Fatal("no error of wrong bytes")
	}
	hub.active.Store(false)
	for _, path := range []string{"b", "a", "b"} {
		if got, err := os.ReadFile(m.Path(path)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, equal %v, %v", path, len(got), bytes.Equal(got, want), err)
		}
	}
}

package integration

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/xetfs/xetfs/integration/internal/harness"
	"golang.org/x/sys/unix"
)

// A mount that follows shows a new version without a request. Open and mapped files keep their
// content, and a listing continues in the version in which it began.
func TestK38_Follow(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	folder, store := filepath.Join(work, "folder"), filepath.Join(work, "store")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	smallFiles(t, folder, 300)
	old, changed := harness.Noise(1, 3<<20), harness.Noise(2, 3<<20)
	large := filepath.Join(folder, "large")
	harness.WriteFile(t, large, old)
	harness.Publish(t, store, "s", folder)
	m := harness.MountSource(t, store, "--follow=100ms")
	listTree(t, folder).same(t, "first version", listTree(t, m.Path("s")))

	open, err := os.Open(m.Path("s/large"))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	mapped := mapFile(t, m.Path("s/large"), len(old), unix.PROT_READ, unix.MAP_SHARED)
	if !bytes.Equal(mapped[:4096], old[:4096]) {
		t.Error("the mapping begins with something else")
	}
	listing, err := os.Open(m.Path("s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listing.Close()
	if _, err := listing.Readdirnames(1); err != nil {
		t.Fatal(err)
	}
	harness.WriteFile(t, large, changed)
	newEditor(t, folder, 3).edit(50)
	harness.WriteFile(t, large, changed)
	harness.Publish(t, store, "s", folder)
	want := listTree(t, folder)
	m.Shows(t, "s/large", changed)
	want.same(t, "second version", listTree(t, m.Path("s")))
	b := make([]byte, len(old))
	if _, err := open.ReadAt(b, 0); err != nil || string(b) != string(old) {
		t.Errorf("the open file is not what it was (%v)", err)
	}
	if !bytes.Equal(mapped, old) {
		t.Error("the mapped file is not what it was")
	}
	if rest, err := listing.Readdirnames(-1); err != nil || len(rest) == 0 {
		t.Errorf("the listing that had begun ends with %d names (%v)", len(rest), err)
	}
}

// A mount sees changes of a folder at once, long before the next poll. Changes are new and deleted
// versions and symbols.
func TestK38_FollowAtOnce(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	folder, store := filepath.Join(work, "folder"), filepath.Join(work, "store")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	version := func(symbol, text string) {
		t.Helper()
		harness.WriteFile(t, filepath.Join(folder, "f"), []byte(text))
		harness.Publish(t, store, symbol, folder, "--checksum")
	}
	version("s", "zero")
	m := harness.MountSource(t, store, "--follow=1h", "--log-level=debug")
	m.Shows(t, "s/f", []byte("zero"))
	for _, text := range []string{"one", "two", "three"} {
		version("s", text)
		start := time.Now()
		m.Shows(t, "s/f", []byte(text))
		t.Logf("seen after %v", time.Since(start).Round(time.Millisecond))
	}
	version("org/new", "new")
	m.Shows(t, "org/new/f", []byte("new"))
	harness.Run(t, "", harness.Program(t), "delete", store, "s@3")
	m.Shows(t, "s/f", []byte("two"))
	harness.Run(t, "", harness.Program(t), "delete", store, "org/new@0")
	harness.WaitUntil(t, "org/new is gone", func() bool {
		_, err := os.Stat(m.Path("org"))
		return os.IsNotExist(err)
	})
	switched, deleted := m.Log.After(harness.Event("version_switched")), m.Log.After(harness.Event("version_deleted"))
	if len(switched) != 4 || switched[0]["symbol"] != "s" || switched[0]["from"] != 0.0 || switched[0]["to"] != 1.0 || switched[0]["published"] == nil {
		t.Errorf("version_switched: %v", switched)
	}
	if len(deleted) == 0 || deleted[0]["symbol"] != "s" || deleted[0]["version"] != 3.0 || deleted[0]["published"] == nil {
		t.Errorf("version_deleted: %v", deleted)
	}
}

// A mount ends although new versions arrive at the same time. A reader with an open file continues
// in the version that it opened.
func TestK38_ShutdownWhileFollowing(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	folder, store := filepath.Join(work, "folder"), filepath.Join(work, "store")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	content := harness.Noise(1, 1<<20)
	harness.WriteFile(t, filepath.Join(folder, "f"), content)
	smallFiles(t, folder, 500)
	harness.Publish(t, store, "s", folder)
	m := harness.MountSource(t, store, "--follow=100ms")
	m.Ended = true
	listTree(t, m.Path("s"))
	open, err := os.Open(m.Path("s/f"))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	newEditor(t, folder, 1).edit(200)
	harness.WriteFile(t, filepath.Join(folder, "f"), content[1:])
	harness.Publish(t, store, "s", folder)
	m.Signal(syscall.SIGTERM)
	if _, ok := m.Log.Wait(harness.Patience, harness.Event("unmount_busy")); !ok {
		t.Errorf("no line says unmount_busy:\n%s", m.Log)
	}
	switches := len(m.Log.Find(harness.Event("version_switched")))
	harness.WriteFile(t, filepath.Join(folder, "f"), content[2:])
	harness.Publish(t, store, "s", folder)
	b := make([]byte, len(content))
	if _, err := open.ReadAt(b, 0); err != nil || !bytes.Equal(b, content) {
		t.Errorf("the open file is not what it was (%v)", err)
	}
	open.Close()
	if code, ok := m.Wait(harness.Patience); !ok || code != 0 {
		t.Errorf("exit status %d, ended %t", code, ok)
	}
	if now := len(m.Log.Find(harness.Event("version_switched"))); now > switches {
		t.Errorf("%d versions were switched to after the end had begun", now-switches)
	}
	checkGone(t, m)
}

package integration

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A mount that follows shows a new version without being asked, while files that are
// open stay what they were, and a listing that began goes on with what it began with.
func TestF47_Follow(t *testing.T) {
	work := t.TempDir()
	folder, store := filepath.Join(work, "folder"), filepath.Join(work, "store")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	smallFiles(t, folder, 300)
	old, changed := noise(1, 3<<20), noise(2, 3<<20)
	large := filepath.Join(folder, "large")
	writeFile(t, large, old)
	publish(t, store, "s", folder)
	m := mount(t, store, "--follow=100ms")
	listTree(t, folder).same(t, "first version", listTree(t, m.Path("s")))

	open, err := os.Open(m.Path("s/large"))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	listing, err := os.Open(m.Path("s"))
	if err != nil {
		t.Fatal(err)
	}
	defer listing.Close()
	if _, err := listing.Readdirnames(1); err != nil {
		t.Fatal(err)
	}
	writeFile(t, large, changed)
	newEditor(t, folder, 3).edit(50)
	writeFile(t, large, changed)
	publish(t, store, "s", folder)
	want := listTree(t, folder)
	deadline := time.Now().Add(10 * time.Second)
	for {
		b, err := os.ReadFile(m.Path("s/large"))
		if err == nil && string(b) == string(changed) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the new version is not shown: %d bytes, %v", len(b), err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	want.same(t, "second version", listTree(t, m.Path("s")))
	b := make([]byte, len(old))
	if _, err := open.ReadAt(b, 0); err != nil || string(b) != string(old) {
		t.Errorf("the open file is not what it was (%v)", err)
	}
	if rest, err := listing.Readdirnames(-1); err != nil || len(rest) == 0 {
		t.Errorf("the listing that had begun ends with %d names (%v)", len(rest), err)
	}
}

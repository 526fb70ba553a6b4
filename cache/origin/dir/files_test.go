package dir

import (
	"os"
	"path/filepath"
	"testing"
)

// A file that is replaced while somebody opens it is not read for ever.
func TestReplacedWhileOpened(t *testing.T) {
	folder := t.TempDir()
	root, err := os.OpenRoot(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	put := func(text string) {
		if err := os.WriteFile(filepath.Join(folder, "new"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := root.Rename("new", "a"); err != nil {
			t.Fatal(err)
		}
	}
	var files openFiles
	files.init(root)
	defer files.close()
	put("old")
	_, drops := files.get("a")
	opened, err := openRegular(root, "a")
	if err != nil {
		t.Fatal(err)
	}
	put("new")
	files.drop("a")
	f := files.add("a", opened, drops)
	b := make([]byte, 3)
	if _, err := f.f.ReadAt(b, 0); err != nil || string(b) != "old" {
		t.Errorf("who opened it before reads %q, %v", b, err)
	}
	files.release(f)
	if err := files.readAt("a", b, 0); err != nil || string(b) != "new" {
		t.Errorf("who reads it later finds %q, %v", b, err)
	}
	if _, err := opened.Stat(); err == nil {
		t.Error("the old file is still open")
	}
}

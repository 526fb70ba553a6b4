package dir

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
)

// openFolder returns a folder and its open files, until the end of the test.
func openFolder(t *testing.T, folder string) (*os.Root, *openFiles) {
	t.Helper()
	root, err := os.OpenRoot(folder)
	if err != nil {
		t.Fatal(err)
	}
	files := new(openFiles)
	files.init(root)
	t.Cleanup(func() {
		files.close()
		root.Close()
	})
	return root, files
}

// A file that is replaced during its open is not read without end.
func TestReplacedWhileOpened(t *testing.T) {
	folder := t.TempDir()
	root, files := openFolder(t, folder)
	put := func(text string) {
		if err := os.WriteFile(filepath.Join(folder, "new"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := root.Rename("new", "a"); err != nil {
			t.Fatal(err)
		}
	}
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

// TryReadAt of an open file succeeds for bytes in memory, and for no others.
func TestTryReadAt(t *testing.T) {
	folder := t.TempDir()
	value := bytes.Repeat([]byte("0123456789"), 10_000)
	if err := os.WriteFile(filepath.Join(folder, "a"), value, 0o644); err != nil {
		t.Fatal(err)
	}
	_, files := openFolder(t, folder)
	p := make([]byte, 8000)
	if files.tryRead("a", p, 5000) {
		t.Error("a file was opened to be read now")
	}
	if err := files.readAt("a", p, 5000); err != nil {
		t.Fatal(err)
	}
	if !files.tryRead("a", p, 5000) {
		t.Skip("this kernel, or this file system, does not tell what is in memory")
	}
	if !bytes.Equal(p, value[5000:13_000]) {
		t.Error("other bytes")
	}
	if files.tryRead("a", p, int64(len(value))-10) {
		t.Error("bytes behind the end were read")
	}
}

// A file that another process has deleted is not there any more, although it is still open here and
// has a second name. Publishers rely on it. After a replacement, the size is that of the new file.
func TestSizeOfOpenFile(t *testing.T) {
	folder := t.TempDir()
	_, files := openFolder(t, folder)
	name := filepath.Join(folder, "a")
	for _, content := range []string{"old", "newer"} {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(name, name+content); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time it is open
			if n, err := files.size("a"); err != nil || n != int64(len(content)) {
				t.Fatalf("size %d, %v", n, err)
			}
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		if content == "newer" {
			continue
		}
		if _, err := files.size("a"); !errors.Is(err, origin.ErrNotFound) {
			t.Errorf("a deleted file: %v", err)
		}
		if err := os.WriteFile(name, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
		if n, err := files.size("a"); err != nil || n != 1 {
			t.Fatalf("size %d, %v", n, err)
		}
		if err := os.Remove(name); err != nil { // replaced while it is open
			t.Fatal(err)
		}
	}
}

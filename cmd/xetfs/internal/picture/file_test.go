package picture

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A page replaces the file behind links, which may be absent. A replaced file keeps its mode.
func TestFileReplaces(t *testing.T) {
	tests := []struct {
		name, path, target string
		mode               fs.FileMode // of the target before; 0: absent
	}{
		{"private file", "old", "old", 0o600},
		{"file of a group", "old", "old", 0o664},
		{"link", "link", "old", 0o600},
		{"dangling link", "link", "old", 0},
		{"chain of links", "sub/chain", "old", 0},
		{"link through a linked folder", "linked/up", "deep/old", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, folder := range []string{"sub", "deep/folder"} {
				if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for name, to := range map[string]string{"link": "old", "sub/chain": "../link", "linked": "deep/folder", "deep/folder/up": "../old"} {
				if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			target := filepath.Join(dir, tt.target)
			if tt.mode != 0 {
				if err := os.WriteFile(target, []byte("before"), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(target, tt.mode); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(dir, tt.path)
			before, wasLink := os.Readlink(path)
			f, err := Create(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Write([]byte("page")); err != nil {
				t.Fatal(err)
			}
			if err := f.Commit(); err != nil {
				t.Fatal(err)
			}
			if b, err := os.ReadFile(target); err != nil || string(b) != "page" {
				t.Errorf("the target has %q, %v", b, err)
			}
			if info, err := os.Lstat(target); err != nil || !info.Mode().IsRegular() || tt.mode != 0 && info.Mode().Perm() != tt.mode {
				t.Errorf("the target: %v, %v, want mode %v", info, err, tt.mode)
			}
			if after, isLink := os.Readlink(path); (isLink == nil) != (wasLink == nil) || after != before {
				t.Errorf("the link leads to %q, want %q", after, before)
			}
		})
	}
}

// A chain of links without an end is an error, and leaves no file.
func TestFileLinkLoop(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "loop")
	if err := os.Symlink("loop", path); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(path, nil); err == nil {
		t.Error("no error")
	}
	if found, err := os.ReadDir(dir); len(found) != 1 {
		t.Errorf("%d files, %v", len(found), err)
	}
}

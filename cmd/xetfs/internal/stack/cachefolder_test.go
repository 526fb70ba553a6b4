package stack

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRealPath(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "there"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("there", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		"there":         "there",
		"link":          "there",
		"link/not/yet":  "there/not/yet",
		"not/yet":       "not/yet",
		"there/not/yet": "there/not/yet",
	} {
		if got, err := realPath(filepath.Join(dir, in)); err != nil || got != filepath.Join(dir, want) {
			t.Errorf("realPath(%s) = %s, %v, want %s", in, got, err, want)
		}
	}
}

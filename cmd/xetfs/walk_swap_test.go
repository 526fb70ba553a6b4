package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// S32: another process exchanges a folder and a link to one outside all the time. Neither
// pack nor publish takes a file outside FOLDER.
func TestS32_ExchangedFolders(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	in, outside := t.TempDir(), t.TempDir()
	const files = 30
	if err := os.Mkdir(filepath.Join(in, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range files {
		writeFile(t, filepath.Join(in, "sub", fmt.Sprint(i)), noisy(5000)[i:])
		writeFile(t, filepath.Join(outside, fmt.Sprint(i)), []byte("secret"))
	}
	if err := os.Symlink(outside, filepath.Join(in, "swap")); err != nil {
		t.Fatal(err)
	}
	folder, link := filepath.Join(in, "sub"), filepath.Join(in, "swap")
	if err := unix.Renameat2(unix.AT_FDCWD, folder, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE); err != nil {
		t.Skip(err)
	}
	stop := changeAllTheTime(folder, func(string, int) {
		for range 20 {
			_ = unix.Renameat2(unix.AT_FDCWD, folder, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
		}
	})
	defer stop()
	for range 20 {
		r := packJSON(t, t.Context(), t.TempDir(), in)
		if r.status != exitGood && r.status != exitIncomplete {
			t.Fatalf("status %d, %s", r.status, r.stderr)
		}
		for _, f := range r.List {
			if f.Size == int64(len("secret")) {
				t.Fatalf("packed from outside: %+v", f)
			}
		}
		store := t.TempDir()
		if r := publishJSON(t, t.Context(), store, "x", in); r.status != exitGood && r.status != exitIncomplete {
			t.Fatalf("status %d, %s", r.status, r.stderr)
		}
		for path, e := range treeOf(t, store, "x") {
			if e.Size == int64(len("secret")) {
				t.Fatalf("published from outside: %s", path)
			}
		}
	}
}

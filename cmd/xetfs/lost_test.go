package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// smallPages makes the catalog of a new store, whose trees have many pages.
func smallPages(t *testing.T, store string) {
	t.Helper()
	s, err := dir.Open(store)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	settings := names.DefaultSettings("", time.Time{})
	settings.Page = page.Sizes{Min: 200, Max: 800, Bits: 1, Restart: 4}
	if _, err := writer.Open(t.Context(), s, origin.Pages(s), writer.Options{Settings: settings}); err != nil {
		t.Fatal(err)
	}
}

// get and warm count a missing index page as damage, whichever it is. A missing symbol or version is
// none.
func TestLostPage(t *testing.T) {
	t.Parallel()
	store, in := filepath.Join(t.TempDir(), "store"), t.TempDir()
	smallPages(t, store)
	for i := range 40 {
		writeFile(t, filepath.Join(in, fmt.Sprintf("file%02d", i)), noisy(20))
	}
	mustPublish(t, store, "m", in)
	status := func(command string, args ...string) int {
		args = append([]string{command, "--cache-dir", t.TempDir(), store}, args...)
		if command == "get" {
			args = append(args, t.TempDir())
		}
		return run(t.Context(), args, nil, io.Discard, io.Discard)
	}
	pages, err := filepath.Glob(filepath.Join(store, "tindex", "*", "*"))
	if err != nil || len(pages) < 4 {
		t.Fatal(pages, err)
	}
	for _, command := range []string{"get", "warm"} {
		for i, p := range pages {
			if err := os.Rename(p, p+".lost"); err != nil {
				t.Fatal(err)
			}
			if got := status(command, "m"); got != exitDamage {
				t.Errorf("%s without page %d of %d: status %d", command, i, len(pages), got)
			}
			if err := os.Rename(p+".lost", p); err != nil {
				t.Fatal(err)
			}
		}
		for arg, want := range map[string]int{"m": exitGood, "m@0": exitGood, "m@7": exitNotFound, "other": exitNotFound} {
			if got := status(command, arg); got != want {
				t.Errorf("%s %s: status %d, want %d", command, arg, got, want)
			}
		}
	}
}

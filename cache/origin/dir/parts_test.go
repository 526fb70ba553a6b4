package dir_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/listing"
	"github.com/xetfs/xetfs/codec/names"
)

// checkParts checks that all parts of the listing exist and are sound. It returns their number.
func checkParts(t *testing.T, root string) int {
	t.Helper()
	l, err := listing.Decode(readListing(t, root))
	if err != nil {
		t.Fatal(err)
	}
	parts := l.Parts("")
	for _, p := range parts {
		b, err := os.ReadFile(filepath.Join(root, string(p.Key())))
		if err == nil {
			err = p.Check(b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return len(parts)
}

func filesOfParts(t *testing.T, root string) int {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root, "xetfs.parts"))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// A part that the listing has lost stays for ten minutes. A listing without parts needs none.
func TestLostParts(t *testing.T) {
	dir.SetMinParts(t, 0)
	root := t.TempDir()
	s := openStore(t, root)
	write := func(parts, files int) {
		t.Helper()
		if _, err := s.WriteListing(t.Context(), nil, dir.ListedState{}); err != nil {
			t.Fatal(err)
		}
		if n := checkParts(t, root); n != parts {
			t.Errorf("the listing has %d parts, want %d", n, parts)
		}
		if n := filesOfParts(t, root); n != files {
			t.Errorf("%d files of parts, want %d", n, files)
		}
	}
	putTen(t, s)
	write(5, 5)
	put(t, s, names.ShardKey(codec.Hash{}), "shard")
	put(t, s, xorbKey(11), "value")
	write(6, 7) // one is lost
	write(6, 7)
	dir.SetClock(t, time.Hour)
	write(6, 6)

	// A writer may have been killed before it wrote the listing.
	stray := filepath.Join(root, "xetfs.parts", codec.Hash{1: 2}.String())
	if err := os.WriteFile(stray, []byte("stray"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir.SetClock(t, 0)
	write(6, 7)
	dir.SetClock(t, time.Hour)
	write(6, 6)
	dir.SetMinParts(t, 1<<20)
	write(0, 6)
	dir.SetClock(t, 2*time.Hour)
	write(0, 0)
}

// A listing has no part that is absent or cut off, even if its folder has not changed.
func TestAbsentPart(t *testing.T) {
	dir.SetMinParts(t, 0)
	root := t.TempDir()
	s := openStore(t, root)
	putTen(t, s)
	dir.SetClock(t, time.Hour)
	var state dir.ListedState
	for _, damage := range []func(path string) error{
		func(string) error { return nil },
		os.Remove,
		func(path string) error { return os.Truncate(path, 10) },
		func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
		func(string) error { return nil },
	} {
		var err error
		if state, err = s.WriteListing(t.Context(), nil, state); err != nil {
			t.Fatal(err)
		}
		if n := checkParts(t, root); n != 5 {
			t.Fatalf("%d parts", n)
		}
		files, err := filepath.Glob(filepath.Join(root, "xetfs.parts", "*"))
		if err == nil {
			err = damage(files[0])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A whole listing replaces damaged parts.
func TestDamagedPart(t *testing.T) {
	dir.SetMinParts(t, 0)
	root := t.TempDir()
	s := openStore(t, root)
	putTen(t, s)
	for range 2 {
		if _, err := s.WriteListing(t.Context(), nil, dir.ListedState{}); err != nil {
			t.Fatal(err)
		}
		if n := checkParts(t, root); n != 5 {
			t.Fatalf("%d parts", n)
		}
		files, err := filepath.Glob(filepath.Join(root, "xetfs.parts", "*"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(files[0], []byte("damage"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(files[1]); err != nil {
			t.Fatal(err)
		}
	}
}

// Anything else at the path of a part is replaced.
func TestNoPartAtPath(t *testing.T) {
	dir.SetMinParts(t, 0)
	root := t.TempDir()
	s := openStore(t, root)
	put(t, s, xorbKey(1), "value")
	write := func() {
		t.Helper()
		if _, err := s.WriteListing(t.Context(), nil, dir.ListedState{}); err != nil {
			t.Fatal(err)
		}
		if n := checkParts(t, root); n != 1 {
			t.Fatalf("%d parts", n)
		}
	}
	write()
	files, err := filepath.Glob(filepath.Join(root, "xetfs.parts", "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	for name, replace := range map[string]func() error{
		"pipe":   func() error { return errors.Join(os.Remove(files[0]), unix.Mkfifo(files[0], 0o600)) },
		"sparse": func() error { return os.Truncate(files[0], 1<<40) },
		"folder": func() error {
			return errors.Join(os.Remove(files[0]), os.MkdirAll(filepath.Join(files[0], "x"), 0o700))
		},
		"link": func() error { return errors.Join(os.Remove(files[0]), os.Symlink("/dev/zero", files[0])) },
	} {
		if err := replace(); err != nil {
			t.Fatal(name, err)
		}
		write()
	}
}

// Parts are no shards, although their names have hashes.
func TestPartsAreNoData(t *testing.T) {
	dir.SetMinParts(t, 0)
	root := t.TempDir()
	s := openStore(t, root)
	put(t, s, xorbKey(1), "value")
	if _, err := s.WriteListing(t.Context(), nil, dir.ListedState{}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(root, string(xorbKey(1)))); err != nil {
		t.Fatal(err)
	}
	files, err := openBare(t, root).Files(t.Context())
	if err != nil || len(files) > 0 {
		t.Errorf("files: %v, %v", files, err)
	}
	if name, err := dir.ForeignEntry(root); name != "" || err != nil {
		t.Errorf("%q is foreign, %v", name, err)
	}
	for item := range s.List(t.Context(), "", "") {
		if item.Key != listing.Key {
			t.Errorf("List yields %s", item.Key)
		}
	}
}

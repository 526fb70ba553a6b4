package ingest

import (
	"bytes"
	"context"
	"errors"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ignore"
	"github.com/xetfs/xetfs/codec/page"
)

// listed returns the paths of a folder in the order of the lister, and the skipped ones.
func listed(t fataler, root string, patterns ...string) (paths, skipped []string) {
	t.Helper()
	l := newLister(root, ignoring(t, patterns...))
	l.out = func(b *batch) error {
		for _, e := range b.entries {
			if e.state == stateSkipped {
				skipped = append(skipped, e.Path)
			} else {
				paths = append(paths, e.Path)
			}
		}
		b.release()
		return nil
	}
	if err := l.run(context.Background()); err != nil {
		t.Fatalf("%v", err)
	}
	return paths, skipped
}

// walked returns the paths of a folder as filepath.WalkDir finds them, the root first.
func walked(t fataler, root string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, _ iofs.DirEntry, err error) error {
		paths = append(paths, strings.TrimPrefix(strings.TrimPrefix(path, root), "/"))
		return err
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	slices.SortFunc(paths, page.ComparePaths)
	return paths
}

// The lister finds everything in the order of keys, with any names.
func TestListOrder(t *testing.T) {
	name := rapid.Custom(func(t *rapid.T) string {
		var b strings.Builder
		for range rapid.IntRange(1, 3).Draw(t, "length") {
			b.WriteByte(rapid.SampledFrom([]byte{1, 'a', 'b', '-', '.', '0', '/' - 1, '/' + 1, 0x7f, 0xff, '\n'}).Draw(t, "byte"))
		}
		return b.String()
	}).Filter(func(s string) bool { return s != "." && s != ".." })
	rapid.Check(t, func(rt *rapid.T) {
		root, err := os.MkdirTemp(t.TempDir(), "") //nolint:usetesting // one for each draw
		if err != nil {
			rt.Fatal(err)
		}
		for _, names := range rapid.SliceOfN(rapid.SliceOfN(name, 1, 5), 0, 30).Draw(rt, "paths") {
			path := filepath.Join(append([]string{root}, names...)...)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
				_ = os.WriteFile(path, nil, 0o600) // or it is a folder already
			}
		}
		got, skipped := listed(rt, root)
		if want := walked(rt, root); !slices.Equal(got, want) || len(skipped) > 0 {
			rt.Fatalf("listed  %q\nwant    %q\nskipped %q", got, want, skipped)
		}
	})
}

// A folder with more names than one call of the kernel returns.
func TestListLargeFolder(t *testing.T) {
	root := t.TempDir()
	for i := range 3000 {
		writeFile(t, filepath.Join(root, strings.Repeat("x", 1+i%200)+string(rune('a'+i/200))), nil)
	}
	got, _ := listed(t, root)
	if want := walked(t, root); !slices.Equal(got, want) {
		t.Errorf("listed %d of %d, or not in order", len(got), len(want))
	}
}

func TestListPatterns(t *testing.T) {
	root := t.TempDir()
	for _, path := range []string{"a/b/c", "a/x.tmp", "keep.tmp", "x.tmp", "build/x", "a/build/x"} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(path)), 0o700); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(root, path), nil)
	}
	got, _ := listed(t, root, "*.tmp", "!/keep.tmp", "/build/", "b")
	if want := []string{"", "a", "keep.tmp", "a/build", "a/build/x"}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
}

// The longest path limits the depth. Deeper entries are skipped.
func TestListDeep(t *testing.T) {
	root := t.TempDir()
	fd, err := unix.Open(root, unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	const depth = 600 // of names of 7 bytes
	for range depth {
		if err := unix.Mkdirat(fd, "folder7", 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, "folder7", unix.O_DIRECTORY, 0)
		unix.Close(fd)
		if err != nil {
			t.Fatal(err)
		}
		fd = next
	}
	unix.Close(fd)
	before := openFiles(t)
	got, skipped := listed(t, root)
	if want := 1 + (page.MaxPath+1)/8; len(got) != want || len(skipped) != 1 {
		t.Errorf("listed %d folders, passed over %d; want %d and 1", len(got), len(skipped), want)
	}
	if n := openFiles(t); n != before {
		t.Errorf("%d files are open, before it were %d", n, before)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(all)
}

// A direntList survives any bytes of the kernel.
func FuzzDirents(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x18\x00\x08abc\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		l := new(direntList)
		l.add(b)
		l.sort()
		var before []byte
		for name, _ := range l.all {
			if len(name) == 0 || bytes.IndexByte(name, 0) >= 0 || before != nil && bytes.Compare(before, name) >= 0 {
				t.Errorf("%q after %q", name, before)
			}
			before = name
		}
	})
}

func TestListRefuses(t *testing.T) {
	root := t.TempDir()
	writeFile(t, filepath.Join(root, versionsName), nil)
	l := newLister(root, new(ignore.Matcher))
	l.out = func(*batch) error { return nil }
	if err := l.run(t.Context()); err == nil || !strings.Contains(err.Error(), "old versions are found under this name; --exclude /.versions leaves it out") {
		t.Errorf("a root with %s: %v", versionsName, err)
	}
	if got, _ := listed(t, root, "/"+versionsName); len(got) != 1 {
		t.Errorf("listed %q", got)
	}
	l.o.Folders[0] = filepath.Join(root, "nowhere")
	if err := l.run(t.Context()); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
	l.o.Folders[0] = "/proc/self"
	if err := l.run(t.Context()); err == nil || !strings.Contains(err.Error(), "in a proc file system") {
		t.Errorf("/proc/self: %v", err)
	}
}

func newLister(root string, m *ignore.Matcher) *lister {
	return &lister{o: &Options{Folders: []string{root}, Ignore: m}, files: newDescriptors(false, nil)}
}

func writeFile(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

func ignoring(t fataler, patterns ...string) *ignore.Matcher {
	t.Helper()
	g := new(ignore.Matcher)
	for _, pattern := range patterns {
		if err := g.Add(pattern); err != nil {
			t.Fatalf("%v", err)
		}
	}
	return g
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

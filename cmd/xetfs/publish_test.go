package main

import (
	"bytes"
	"context"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/publish"
	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

// A publishAnswer is what one run of publish says.
type publishAnswer struct {
	status         int
	stderr         string
	Published      bool
	Version        int64
	Root           string
	Entries        int64
	Added          int64
	Changed        int64
	Removed        int64
	UnchangedFiles int64 `json:"unchanged_files"`
	NewBytes       int64 `json:"new_bytes"`
	Skipped        []ui.Skipped
}

func publishJSON(t *testing.T, ctx context.Context, args ...string) publishAnswer {
	t.Helper()
	var r publishAnswer
	r.status, r.stderr = runJSON(t, ctx, &r, append([]string{"publish", "--json"}, args...)...)
	return r
}

// mustPublish is publish that must succeed.
func mustPublish(t *testing.T, args ...string) publishAnswer {
	t.Helper()
	r := publishJSON(t, t.Context(), args...)
	if r.status != exitGood {
		t.Fatalf("publish %q: status %d, %s", args, r.status, r.stderr)
	}
	return r
}

// treeOf returns the entries of the newest version of a symbol, by path.
func treeOf(t *testing.T, store, symbol string) map[string]page.Entry {
	t.Helper()
	s, err := dir.OpenReadOnly(store)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := catalog.Open(t.Context(), s, origin.Pages(s))
	if err != nil {
		t.Fatal(err)
	}
	tree, err := c.Open(t.Context(), symbol, names.AsOf{})
	if err != nil {
		t.Fatal(err)
	}
	entries := map[string]page.Entry{}
	for e, err := range tree.All(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		entries[e.Path] = e
	}
	return entries
}

// content returns a file of the newest version of a symbol.
func content(t *testing.T, store, symbol, path string) []byte {
	t.Helper()
	var out, errOut bytes.Buffer
	if status := run(t.Context(), []string{"cat", "--", store, symbol, path}, strings.NewReader(""), &out, &errOut); status != exitGood {
		t.Errorf("cat %q: status %d, %s", path, status, errOut.Bytes())
	}
	return out.Bytes()
}

// isCatalogSound checks that catalog check finds nothing wrong.
func isCatalogSound(t *testing.T, store string) {
	t.Helper()
	var out bytes.Buffer
	if status := run(t.Context(), []string{"catalog", "check", "--data", store}, strings.NewReader(""), &out, &out); status != exitGood {
		t.Errorf("catalog check: status %d\n%s", status, out.Bytes())
	}
}

// walked returns the paths of a folder, the root first, in the order of keys.
func walked(t *testing.T, root string) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, _ iofs.DirEntry, err error) error {
		paths = append(paths, strings.TrimPrefix(strings.TrimPrefix(path, root), "/"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(paths, page.ComparePaths)
	return paths
}

// statEntry returns the entry of a file without its content.
func statEntry(t *testing.T, path string) (e page.Entry) {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	e.Mode, e.ModTime = st.Mode&0o7777, time.Unix(st.Mtim.Unix())
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		e.Type = page.Dir
	case unix.S_IFLNK:
		e.Type = page.Symlink
	default:
		e.Type, e.Size = page.File, st.Size
	}
	return e
}

// isPublished compares a folder with the newest version of a symbol: names, types, modes,
// times, links and contents.
func isPublished(t *testing.T, folder, store, symbol string) {
	t.Helper()
	tree := treeOf(t, store, symbol)
	paths := walked(t, folder)
	if len(tree) != len(paths) {
		t.Errorf("%d entries, %d in the folder", len(tree), len(paths))
	}
	for _, path := range paths {
		want := statEntry(t, filepath.Join(folder, path))
		got, ok := tree[path]
		if !ok || got.Type != want.Type || got.Mode != want.Mode || !got.ModTime.Equal(want.ModTime) || got.Size != want.Size {
			t.Errorf("%q: %+v, want %+v", path, got, want)
		}
		switch want.Type {
		case page.File:
			b, err := os.ReadFile(filepath.Join(folder, path))
			if err != nil || !bytes.Equal(content(t, store, symbol, path), b) {
				t.Errorf("%q has another content; %v", path, err)
			}
		case page.Symlink:
			if target, err := os.Readlink(filepath.Join(folder, path)); target != got.Target {
				t.Errorf("%q leads to %q, want %q; %v", path, got.Target, target, err)
			}
		}
	}
}

// Names, modes and times that are hard to keep.
func TestPublishHardTree(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	in, store := t.TempDir(), t.TempDir()
	deep := strings.Repeat("d/", 199)
	for i, path := range []string{
		strings.Repeat("n", 255), "\xff\xfe", "a\nb", "-rf", "Case", "case", "...", "~", "*", "*s", "%41!41", "a ", " ",
		"ä", "a\u0308", "a", "a-b", "a.b", "tmp", "sub/.versions", deep + "x", "a\x01", "\\", "'\"$(x)", ".xetfsignore",
	} {
		path = filepath.Join(in, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, path, bytes.Repeat([]byte("#"), i*i*i))
		mode := []os.FileMode{0o644, 0o4755, 0o2755, 0o1644, 0o400, 0o777, 0}[i%7]
		if err := unix.Chmod(path, uint32(mode)); err != nil {
			t.Fatal(err)
		}
		when := []time.Time{time.Unix(0, 0), time.Unix(-1, 5), time.Unix(1<<33, 999_999_999), time.Unix(1, 0)}[i%4]
		if err := os.Chtimes(path, time.Time{}, when); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"up": "../../../etc/passwd", "abs": "/proc/self/environ", "loop": "loop", "odd": "\xff\n", "long": strings.Repeat("x/", 2000)} {
		if err := os.Symlink(target, filepath.Join(in, "link-"+name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(in, "void", "void"), 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 { // root reads files of mode 0
		t.Skip("needs root")
	}
	mustPublish(t, store, "x", in)
	isPublished(t, in, store, "x")
	isCatalogSound(t, store)
}

// Attributes that are kept with an option.
func TestPublishOwnerAndXattrs(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	in, store := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(in, "f"), []byte("x"))
	if err := unix.Setxattr(in, "user.of", []byte("folder\x00"), 0); err != nil {
		t.Skip(err)
	}
	for name, value := range map[string]string{"user.a": "1", "user.b": "", "user.large": strings.Repeat("v", 2000)} {
		if err := unix.Setxattr(filepath.Join(in, "f"), name, []byte(value), 0); err != nil {
			t.Skip(err)
		}
	}
	sizes := map[string]int{"empty": 0, "inline": 256, "content": 257, "large": 200_000}
	for path, size := range sizes {
		path = filepath.Join(in, path)
		writeFile(t, path, noisy(size))
		if err := unix.Setxattr(path, "user.size", fmt.Append(nil, size), 0); err != nil {
			t.Skip(err)
		}
	}
	mustPublish(t, store, "x", in)
	if e := treeOf(t, store, "x")["f"]; e.Owner != nil || e.Xattrs != nil {
		t.Errorf("kept without being asked: %+v", e)
	}
	mustPublish(t, "--owner", "--xattrs", store, "x", in)
	tree := treeOf(t, store, "x")
	f, root := tree["f"], tree[""]
	if len(f.Xattrs) != 3 || f.Xattrs["user.a"] != "1" || len(f.Xattrs["user.large"]) != 2000 || root.Xattrs["user.of"] != "folder\x00" {
		t.Errorf("attributes %v, of the root %v", f.Xattrs, root.Xattrs)
	}
	for path, size := range sizes {
		if got := tree[path].Xattrs["user.size"]; got != fmt.Sprint(size) {
			t.Errorf("a file of %d bytes: user.size is %q", size, got)
		}
	}
	if want := (page.Owner{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}); f.Owner == nil || root.Owner == nil || f.Owner.UID != want.UID {
		t.Errorf("owner %v of %v", f.Owner, want)
	}
}

// S05: a file that changes all the time is published as it was at some moment, or named and
// left out. The other files are published.
func TestS05_PublishFileThatChanges(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, size := range []int{150, 30_000, 300_000} {
		a, b := bytes.Repeat([]byte("a"), size), bytes.Repeat([]byte("b"), 2*size/3)
		for _, tt := range changingFiles(a, b) {
			t.Run(fmt.Sprintf("%d bytes, %s", size, tt.name), func(t *testing.T) {
				in, store := t.TempDir(), filepath.Join(t.TempDir(), "store")
				path := filepath.Join(in, "m")
				writeFile(t, filepath.Join(in, "a"), a[:100])
				writeFile(t, path, a)
				writeFile(t, filepath.Join(in, "z"), b[:100])
				stop := changeAllTheTime(path, tt.change)
				defer stop()
				for range 3 {
					r := publishJSON(t, t.Context(), store, "x", in)
					if !isIncomplete(r.status, r.Skipped, path) {
						t.Fatalf("status %d, skipped %+v, %s", r.status, r.Skipped, r.stderr)
					}
					tree := treeOf(t, store, "x")
					if tree["a"].Size != 100 || tree["z"].Size != 100 {
						t.Errorf("the others: %+v, %+v", tree["a"], tree["z"])
					}
					e, ok := tree["m"]
					if !ok {
						continue
					}
					got := content(t, store, "x", "m")
					if !slices.ContainsFunc(tt.states(e.Size), func(s []byte) bool { return bytes.Equal(s, got) }) {
						t.Errorf("published in a state that never was: %+v", e)
					}
				}
				stop()
				mustPublish(t, "--exclude", "m", store, "x", in)
				isCatalogSound(t, store)
			})
		}
	}
}

// S05: a socket is named and left out.
func TestS05_PublishSocket(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	in, store := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(in, "file"), []byte("there"))
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Skip(err)
	}
	defer unix.Close(fd)
	t.Chdir(in) // the path of a socket must be short
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: "socket"}); err != nil {
		t.Skip(err)
	}
	r := mustPublish(t, store, "x", in)
	if len(r.Skipped) != 1 || r.Skipped[0].Path != filepath.Join(in, "socket") || r.Entries != 2 {
		t.Errorf("%d entries, skipped: %+v", r.Entries, r.Skipped)
	}
}

// After a sweep of reused pages or shards the error has a next step.
func TestPublishSwept(t *testing.T) {
	swept := fmt.Errorf("x: tindex/ab/abc: %w", writer.ErrSwept)
	err := new(publishRun).finish(t.Context(), publish.Result{}, 0, swept)
	const want = "x: tindex/ab/abc: a sweep has deleted what was to be used again; publish once more"
	if err == nil || err.Error() != want || exitStatus(t.Context(), err) != exitConflict {
		t.Errorf("status %d, %v, want %q", exitStatus(t.Context(), err), err, want)
	}
}

// O31: several publish to one symbol at once. All versions exist.
func TestO31_PublishersAtOnce(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	store := t.TempDir()
	const publishers, times = 4, 3
	var running sync.WaitGroup
	for n := range publishers {
		in := t.TempDir()
		running.Go(func() {
			for i := range times {
				writeFile(t, filepath.Join(in, fmt.Sprint(n)), bytes.Repeat([]byte{byte(n), byte(i)}, 5000))
				r := publishJSON(t, t.Context(), "--update", store, "x", in)
				if r.status != exitGood || !r.Published {
					t.Errorf("publisher %d: %+v", n, r)
				}
			}
		})
	}
	running.Wait()
	var out bytes.Buffer
	if status := run(t.Context(), []string{"history", store, "x"}, strings.NewReader(""), &out, &out); status != exitGood || bytes.Count(out.Bytes(), []byte("\n")) < publishers*times {
		t.Errorf("status %d, history\n%s", status, out.Bytes())
	}
	tree := treeOf(t, store, "x")
	for n := range publishers {
		if _, ok := tree[fmt.Sprint(n)]; !ok {
			t.Errorf("what publisher %d added is lost", n)
		}
	}
	isCatalogSound(t, store)
}

// An interrupted publish leaves a sound store, and the next one continues.
func TestPublishInterrupted(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	in, store := t.TempDir(), t.TempDir()
	noise := noisy(3_000_000)
	for i := range 300 {
		writeFile(t, filepath.Join(in, fmt.Sprint(i)), noise[i*1000:i*1000+7*i])
	}
	writeFile(t, filepath.Join(in, "large"), noise)
	for i := range 12 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*8)*time.Millisecond)
		r := publishJSON(t, ctx, store, "x", in)
		cancel()
		if r.status != exitGood && (r.status != exitInterrupted || r.stderr != "xetfs publish: interrupted\n") {
			t.Errorf("status %d, %s", r.status, r.stderr)
		}
	}
	mustPublish(t, store, "x", in)
	isPublished(t, in, store, "x")
	isCatalogSound(t, store)
}

// noisy returns bytes that cannot be packed, the same each time.
func noisy(n int) []byte {
	b := make([]byte, n)
	x := uint64(1)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x >> 32)
	}
	return b
}

// The stat cache is used only while the shard of a file exists.
func TestPublishShardIsGone(t *testing.T) {
	t.Parallel()
	in, store := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(in, "f"), noisy(100_000))
	writeFile(t, filepath.Join(in, "tiny"), []byte("x"))
	time.Sleep(2100 * time.Millisecond)
	mustPublish(t, store, "x", in)
	if r := mustPublish(t, store, "x", in); r.UnchangedFiles != 2 || r.Published {
		t.Fatalf("a second time: %+v", r)
	}
	shards, err := filepath.Glob(filepath.Join(store, "tdata", "shard", "*", "*"))
	if err != nil || len(shards) != 1 {
		t.Fatalf("shards %q, %v", shards, err)
	}
	if err := os.Remove(shards[0]); err != nil {
		t.Fatal(err)
	}
	if r := mustPublish(t, store, "x", in); r.UnchangedFiles != 1 || !r.Published || r.NewBytes != 0 {
		t.Errorf("without its shard: %+v", r)
	}
	if got := content(t, store, "x", "f"); !bytes.Equal(got, noisy(100_000)) {
		t.Error("another content")
	}
}

// Laid over a tree, a folder changes what it has, and nothing else, whatever is in the
// place of what.
func TestPublishUpdate(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	base, over, store := t.TempDir(), t.TempDir(), t.TempDir()
	fill := func(root string, paths ...string) {
		for _, path := range paths {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755); err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(root, path), []byte(filepath.Base(root)+path))
		}
	}
	fill(base, "keep", "replaced", "d/keep", "d/replaced", "d/e/keep", "becomes-file/x/y", "becomes-folder")
	fill(over, "replaced", "new", "d/replaced", "d/e/new", "becomes-file", "becomes-folder/x", "other/deep/new")
	mustPublish(t, store, "x", base)
	r := mustPublish(t, "--update", store, "x", over)
	want := []string{
		"", "becomes-file", "becomes-folder", "becomes-folder/x", "d", "d/e", "d/e/keep", "d/e/new", "d/keep", "d/replaced",
		"keep", "new", "other", "other/deep", "other/deep/new", "replaced",
	}
	tree := treeOf(t, store, "x")
	var got []string
	for path, e := range tree {
		got = append(got, path)
		from := base
		if _, err := os.Lstat(filepath.Join(over, path)); err == nil {
			from = over
		}
		if e.Type == page.File && string(e.Inline) != filepath.Base(from)+path {
			t.Errorf("%s: %q", path, e.Inline)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the tree is %q\nwant        %q", got, want)
	}
	if again := mustPublish(t, "--update", store, "x", over); again.Published || again.Root != r.Root {
		t.Errorf("once more: %+v", again)
	}
	isCatalogSound(t, store)
}

// A publish that cannot write has one line of error, and continues when it can.
func TestPublishCannotWrite(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	disk, remount := smallDisk(t)
	in := t.TempDir()
	writeFile(t, filepath.Join(in, "a"), noisy(4_000_000))
	store := filepath.Join(disk, "store")
	step := func(status int, line string) {
		t.Helper()
		r := publishJSON(t, t.Context(), store, "x", in)
		checkEnd(t, r.status, r.stderr, status, line)
	}
	step(exitFailed, "no space left on device")
	remount(0, "size=200m")
	step(exitGood, "")
	isPublished(t, in, store, "x")
	isCatalogSound(t, store)
	remount(unix.MS_RDONLY, "")
	step(exitFailed, store+": read-only file system")
}

// The store has lost a xorb of an unchanged file: no publish makes a version without its content, and
// --checksum mends it.
func TestPublishChecksumMends(t *testing.T) {
	t.Parallel()
	in, store := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(in, "f"), noisy(100_000))
	time.Sleep(2100 * time.Millisecond)
	first := mustPublish(t, store, "x", in).Version
	xorbs, err := filepath.Glob(filepath.Join(store, "tdata", "xorb", "*", "*"))
	if err != nil || len(xorbs) != 1 {
		t.Fatalf("xorbs %q, %v", xorbs, err)
	}
	if err := os.Remove(xorbs[0]); err != nil {
		t.Fatal(err)
	}
	refused := func(flags ...string) {
		t.Helper()
		r := publishJSON(t, t.Context(), append(flags, store, "x", in)...)
		checkEnd(t, r.status, r.stderr, exitDamage, "no new version of x: "+store+" lacks 1 object of unchanged files")
	}
	refused()
	refused("--update")
	refused("--force")
	writeFile(t, filepath.Join(in, "g"), []byte("another file"))
	refused()
	refused("--update")
	if r := mustPublish(t, "--checksum", store, "x", in); r.Version != first+1 || r.UnchangedFiles != 0 || r.NewBytes != 100_000 {
		t.Errorf("read again: %+v", r)
	}
	if got := content(t, store, "x", "f"); !bytes.Equal(got, noisy(100_000)) {
		t.Error("another content")
	}
}

// A dry run counts an entry once, also if several of the changes remove it.
func TestPublishDryRemoved(t *testing.T) {
	folder, file := t.TempDir(), t.TempDir()
	for _, path := range []string{"a/b", "a/c/d", "e", "f/g"} {
		path = filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("content"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(file, "a"), []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		remove  []string
		folder  []string
		removed int64
	}{
		{[]string{"a"}, nil, 4},
		{[]string{"a", "a/b"}, nil, 4},
		{[]string{"a/b", "a"}, nil, 4},
		{[]string{"a", "e", "a/c/d"}, nil, 5},
		{[]string{"a/c", "a/c/d", "a", "f", "f/g"}, nil, 6},
		{[]string{"a/b", "a/c"}, nil, 3},
		{[]string{"a/c/d"}, []string{file}, 3},
	}
	for _, tt := range tests {
		store := filepath.Join(t.TempDir(), "store")
		mustPublish(t, store, "m", folder)
		args := []string{"--update", store, "m"}
		for _, path := range tt.remove {
			args = append(args, "--remove="+path)
		}
		args = append(args, tt.folder...)
		dry, done := mustPublish(t, append(args, "--dry-run")...), mustPublish(t, args...)
		if dry.Removed != tt.removed || done.Removed != tt.removed {
			t.Errorf("--remove %q with %q: %d removed, %d by a dry run, want %d", tt.remove, tt.folder, done.Removed, dry.Removed, tt.removed)
		}
	}
}

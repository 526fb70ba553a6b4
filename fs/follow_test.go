package fs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
)

// mountFollowing mounts a symbol so that look makes it follow, and nothing else.
func mountFollowing(t *testing.T, c *fakeCatalog, e *fakeEngine, o Options) (m mountFixture, look func()) {
	t.Helper()
	o.Follow = time.Hour
	m = mountFake(t, c, e, o)
	return m, func() { m.s.follow.poll(context.Background()) }
}

// The names that the kernel cached of the old version are new at once, not after a minute.
func TestFollow(t *testing.T) {
	e := newFakeEngine()
	c := newFakeCatalog()
	exec := e.text("mode", "m")
	exec.Mode = 0o555
	c.publish("m",
		e.text("same", "s"), e.text("changed", "old"), e.text("gone", "g"), e.text("mode", "m"), e.text("time", "t"),
		e.text("becomes a directory", "file"), e.text("becomes a file/x", "x"),
		page.Entry{Path: "link", Type: page.Symlink, Target: "same"},
		e.text("d/changed", "old"), e.text("d/same", "s"), e.text("gone too/deep/x", "x"), e.text("big/zz", ""),
	)
	m, look := mountFollowing(t, c, e, Options{Symbol: "m"})
	before := map[string]string{
		"same": "s", "changed": "old", "gone": "g", "mode": "m", "time": "t", "becomes a directory": "file",
		"becomes a file/x": "x", "link": "s", "d/changed": "old", "d/same": "s", "gone too/deep/x": "x",
		"new": "", "d/new": "", "new too/x": "", "becomes a directory/y": "",
	}
	for name, text := range before {
		m.see(t, name, text)
	}
	same, dir := m.ino(t, "same"), m.ino(t, "d")
	for _, d := range []string{"", "d", "becomes a file", "gone too"} {
		if _, err := os.ReadDir(m.path(d)); err != nil {
			t.Fatal(err)
		}
	}
	c.publish("m",
		e.text("same", "s"), e.text("changed", "new!"), exec, at(e.text("time", "t"), then.AddDate(1, 0, 0)),
		e.text("becomes a directory/y", "y"), e.text("becomes a file", "file now"),
		page.Entry{Path: "link", Type: page.Symlink, Target: "changed"},
		e.text("d/changed", "new!"), e.text("d/same", "s"), e.text("d/new", "n"), e.text("new", "n"), e.text("new too/x", "x"), e.text("big/zz", ""),
	)
	look()
	if got := m.ino(t, "same"); got != same {
		t.Error("a file that is the same has another inode")
	}
	if got := m.ino(t, "d"); got != dir {
		t.Error("a directory has another inode")
	}
	info, err := os.Stat(m.path("mode"))
	if err != nil || info.Mode() != 0o555 {
		t.Errorf("mode = %v, %v", info.Mode(), err)
	}
	info, err = os.Stat(m.path("time"))
	if err != nil || !info.ModTime().Equal(then.AddDate(1, 0, 0)) {
		t.Errorf("time = %v, %v", info.ModTime(), err)
	}
	after := map[string]string{
		"same": "s", "changed": "new!", "gone": "", "mode": "m", "time": "t", "becomes a directory": "",
		"becomes a directory/y": "y", "becomes a file/x": "", "becomes a file": "file now", "link": "new!",
		"d/changed": "new!", "d/same": "s", "gone too/deep/x": "", "gone too": "", "new": "n", "d/new": "n", "new too/x": "x",
	}
	for name, text := range after {
		if b, err := os.ReadFile(m.path(name)); text != "" && (string(b) != text || err != nil) || text == "" && err == nil {
			t.Errorf("%s: %q, %v, want %q", name, b, err, text)
		}
	}
	lists := map[string]string{
		"":                    "becomes a directory, becomes a file, big, changed, d, link, mode, new, new too, same, time",
		"d":                   "changed, new, same",
		"becomes a directory": "y",
	}
	for dir, want := range lists {
		if got := strings.Join(namesIn(t, m.path(dir)), ", "); got != want {
			t.Errorf("%q holds %q, want %q", dir, got, want)
		}
	}
	m.see(t, ".versions/0/changed", "old")
}

func namesIn(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range list {
		names = append(names, d.Name())
	}
	return names
}

// A file that is open is read to its end as it was; so is one that is mapped.
func TestK38_OpenFile(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		t.Run(fmt.Sprintf("stateless %t", stateless), func(t *testing.T) {
			e := newFakeEngine()
			c := newFakeCatalog()
			old, now := bytes.Repeat([]byte("old "), 1<<18), bytes.Repeat([]byte("now "), 1<<17)
			c.publish("m", e.text("d/f", string(old)))
			m, look := mountFollowing(t, c, e, Options{Symbol: "m", Stateless: stateless})
			f, err := os.Open(m.path("d/f"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			p := make([]byte, len(old))
			if _, err := f.ReadAt(p[:4096], 0); err != nil {
				t.Fatal(err)
			}
			ino := m.ino(t, "d/f")
			c.publish("m", e.text("d/f", string(now)))
			look()
			m.see(t, "d/f", string(now))
			if m.ino(t, "d/f") == ino {
				t.Error("a changed file has the inode of the old")
			}
			m.forgetAttributes(t, ino)
			if info, err := f.Stat(); err != nil || info.Size() != int64(len(old)) {
				t.Errorf("the open file has %d bytes, %v", info.Size(), err)
			}
			if n, err := f.ReadAt(p, 0); err != nil || !bytes.Equal(p[:n], old) {
				t.Errorf("the open file: %d bytes, %v, or others", n, err)
			}
			c.publish("m", e.text("other", ""))
			look()
			if n, err := f.ReadAt(p[:100], 500_000); err != nil || !bytes.Equal(p[:n], old[:100]) {
				t.Errorf("the open file after it is gone: %q, %v", p[:n], err)
			}
			m.see(t, "d/f", "")
		})
	}
}

func (m mountFixture) forgetAttributes(t *testing.T, ino uint64) {
	t.Helper()
	if status := m.s.files.kernel.InodeNotify(ino, 0, 0); !status.Ok() {
		t.Fatal(status)
	}
}

// An open directory is listed to its end as it was. The kernel caches nothing of that listing
// for later readers. Without handles the first read decides about the version.
func TestK38_OpenDirectory(t *testing.T) {
	tests := []struct {
		name    string
		part    int // entries read before the version changes
		between int // how often it is listed anew before the old one is closed
	}{
		{"nothing read", 0, 2},
		{"nothing read, then closed", 0, 0},
		{"some read", 50, 2},
		{"some read, then closed", 50, 0},
		{"all read", 10_000, 0},
	}
	for i := range 2 * len(tests) {
		tt, handles := tests[i/2], i%2 == 0
		t.Run(fmt.Sprintf("%s, handles %t", tt.name, handles), func(t *testing.T) {
			e := newFakeEngine()
			c := newFakeCatalog()
			entries := func(from, to int) (list []page.Entry) {
				for i := from; i < to; i++ {
					list = append(list, e.text(fmt.Sprintf("d/%05d", i), "x"))
				}
				return list
			}
			names := func(from, to int) (list []string) {
				for i := from; i < to; i++ {
					list = append(list, fmt.Sprintf("%05d", i))
				}
				return list
			}
			c.publish("m", entries(0, 3000)...)
			m, look := mountFollowing(t, c, e, Options{Symbol: "m", DirHandles: handles})
			fd := openDir(t, m.path("d"))
			var old []dirent
			for len(old) < tt.part {
				some := getdents(t, fd, 1024)
				if len(some) == 0 {
					break
				}
				old = append(old, some...)
			}
			c.publish("m", entries(1000, 4000)...)
			look()
			if got := namesIn(t, m.path("d")); !slices.Equal(got, names(1000, 4000)) {
				t.Errorf("%d names while the old directory is open", len(got))
			}
			old = append(old, readAll(t, fd, 1024)...)
			want := names(0, 3000)
			if tt.part == 0 && !handles {
				want = names(1000, 4000)
			}
			if got := namesOf(old)[2:]; !slices.Equal(got, want) {
				t.Errorf("the open directory has %d names from %s, want %d from %s", len(got), got[0], len(want), want[0])
			}
			if _, err := os.Stat(m.path("d/00000")); !errors.Is(err, unix.ENOENT) {
				t.Errorf("a name that the old listing had: %v", err)
			}
			for range tt.between {
				if got := namesIn(t, m.path("d")); !slices.Equal(got, names(1000, 4000)) {
					t.Errorf("%d names after the old directory was read", len(got))
				}
			}
			unix.Close(fd)
			for range 3 {
				if got := namesIn(t, m.path("d")); !slices.Equal(got, names(1000, 4000)) {
					t.Errorf("%d names after the old directory was closed", len(got))
				}
			}
		})
	}
}

// folderOf3000 is more than the kernel requests at once: the files d/00000 to d/02999.
func folderOf3000(e *fakeEngine) (entries []page.Entry) {
	for i := range 3000 {
		entries = append(entries, e.text(fmt.Sprintf("d/%05d", i), "x"))
	}
	return entries
}

// A listing that the kernel keeps is new even if it never knew the names that changed.
func TestFollowListing(t *testing.T) {
	e := newFakeEngine()
	c := newFakeCatalog()
	entries := folderOf3000(e)
	c.publish("m", entries...)
	m, look := mountFollowing(t, c, e, Options{Symbol: "m"})
	for range 2 {
		if got := namesIn(t, m.path("d")); len(got) != 3000 {
			t.Errorf("%d names", len(got))
		}
	}
	c.publish("m", append(entries[:2999], e.text("d/03000", "x"))...)
	look()
	list := readAll(t, openDir(t, m.path("d")), 1024)
	if last := list[len(list)-1].name; last != "03000" {
		t.Errorf("the last of %d names is %s", len(list), last)
	}
}

// A mount forgets which listings the kernel must drop with the inodes of the kernel.
func TestFollowListingForgotten(t *testing.T) {
	e := newFakeEngine()
	c := newFakeCatalog()
	c.publish("m", e.text("d/a", "x"))
	m, look := mountFollowing(t, c, e, Options{Symbol: "m", DirHandles: true})
	d, err := os.Open(m.path("d"))
	if err != nil {
		t.Fatal(err)
	}
	c.publish("m", e.text("d/b", "x"))
	look()
	d.Close()
	drops := func() int {
		s := &m.s.files.stale
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.drop)
	}
	eventually(t, "the old directory is closed", func() bool { return drops() == 1 })
	m.dropCaches(t)
	eventually(t, "the mount forgets it", func() bool { return drops() == 0 })
}

// A directory may be opened after the switch and before the invalidation. Its listing is new
// from the first name to the last. Without handles it may also be all of the old one.
func TestFollowListingMeanwhile(t *testing.T) {
	t.Run("handles", func(t *testing.T) { testListingMeanwhile(t, true) })
	t.Run("no handles", func(t *testing.T) { testListingMeanwhile(t, false) })
}

func testListingMeanwhile(t *testing.T, handles bool) {
	e := newFakeEngine()
	c := newFakeCatalog()
	entries := folderOf3000(e)
	c.publish("m", entries...)
	m, look := mountFollowing(t, c, e, Options{Symbol: "m", DirHandles: handles})
	namesIn(t, m.path("d"))
	c.publish("m", entries[10:]...)
	var fd int
	var list []dirent
	c.changing = func() {
		fd = openDir(t, m.path("d"))
		list = getdents(t, fd, 1024)
	}
	look()
	list = append(list, readAll(t, fd, 1024)...)
	isNew, isOld := len(list) == 2992 && list[2].name == "00010", len(list) == 3002 && list[2].name == "00000"
	if !isNew && (handles || !isOld) {
		t.Errorf("%d names, the first is %s", len(list)-2, list[2].name)
	}
	if list := namesIn(t, m.path("d")); len(list) != 2990 || list[0] != "00010" {
		t.Errorf("then %d names, the first is %s", len(list), list[0])
	}
}

// The answer to a lookup that began before the tree was new is old. The kernel takes it,
// and then forgets it.
func TestK38_LookupInFlight(t *testing.T) {
	e := newFakeEngine()
	c := newFakeCatalog()
	old := c.publish("m", e.text("d/f", "old"))
	requested := make(chan bool)
	c.trees[old.Root].slow = map[string]chan bool{"d/f": requested}
	m, look := mountFollowing(t, c, e, Options{Symbol: "m"})
	dir := openDir(t, m.path("d"))
	c.publish("m", e.text("d/f", "new one"))
	size := make(chan int64, 1)
	go func() {
		var st unix.Stat_t
		if err := unix.Fstatat(dir, "f", &st, 0); err != nil {
			t.Error(err)
		}
		size <- st.Size
	}()
	<-requested
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		look()
	}()
	eventually(t, "the new tree is shown", func() bool { return m.s.files.root.current.Load().row.Number == 1 })
	requested <- true
	if n := <-size; n != 3 {
		t.Errorf("the lookup got %d bytes, want the 3 of the old file", n)
	}
	<-ended
	m.see(t, "d/f", "new one")
	var st unix.Stat_t
	if err := unix.Fstatat(dir, "f", &st, 0); err != nil || st.Size != 7 {
		t.Errorf("%d bytes, %v, want the 7 of the new file", st.Size, err)
	}
}

// A store that is being deleted may lose the list of its symbols first. Only a list that is
// absent in two looks is a problem of the list.
func TestFollowListOnce(t *testing.T) {
	e, c, log := newFakeEngine(), newFakeCatalog(), newSyncBuffer()
	c.publish("m", e.text("f", "zero"))
	m, look := mountFollowing(t, c, e, Options{Logger: logger(log)})
	for i, err := range []error{origin.ErrNotFound, nil, origin.ErrNotFound, origin.ErrNotFound, origin.ErrNotFound} {
		c.fail(err)
		look()
		if got, want := log.lines("event=follow_failed"), max(0, min(i-2, 1)); len(got) != want {
			t.Errorf("look %d: %d lines, want %d: %q", i, len(got), want, got)
		}
	}
	c.fail(nil)
	m.see(t, "m/f", "zero")
}

// A working directory that is gone has no entries; a version stays the same.
func TestFollowWorkingDirectory(t *testing.T) {
	e := newFakeEngine()
	c := newFakeCatalog()
	c.publish("m", e.text("d/sub/f", "old"))
	m, look := mountFollowing(t, c, e, Options{Symbol: "m"})
	in := openDir(t, m.path("d/sub"))
	version := openDir(t, m.path(".versions/0/d/sub"))
	root := openDir(t, m.dir)
	c.publish("m", e.text("other", "new"))
	look()
	open := func(dir int, name string) error {
		fd, err := unix.Openat(dir, name, unix.O_RDONLY, 0)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
	tests := []struct {
		name string
		dir  int
		path string
		want error
	}{
		{"a file in a directory that is gone", in, "f", unix.ENOENT},
		{"a new file by the root", root, "other", nil},
		{"an old file by the root", root, "d/sub/f", unix.ENOENT},
		{"a file of a version", version, "f", nil},
	}
	for _, tt := range tests {
		if err := open(tt.dir, tt.path); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(in, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		t.Errorf("the directory that is gone: %v", err)
	}
}

func TestFollowTrouble(t *testing.T) {
	e := newFakeEngine()
	c := newFakeCatalog()
	log := newSyncBuffer()
	c.publish("m", e.text("f", "zero"))
	m, look := mountFollowing(t, c, e, Options{Symbol: "m", Logger: logger(log)})
	m.see(t, "f", "zero")
	expect := func(event string, want int) {
		t.Helper()
		if got := log.lines("event=" + event); len(got) != want {
			t.Errorf("%d lines of %s, want %d: %q", len(got), event, want, got)
		}
	}
	expectError := func(want string) {
		t.Helper()
		if got := m.s.files.stats().FollowError; !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("error of the follower %q, want %q", got, want)
		}
	}
	expectError("")
	c.fail(codec.Corrupt("vref", 0, "its checksum is wrong"))
	look()
	look()
	m.see(t, "f", "zero")
	expect("follow_failed", 1)
	expectError("follow_failed: ")
	c.fail(nil)
	look()
	expectError("")
	c.fail(codec.Corrupt("vref", 0, "its checksum is wrong"))
	look()
	expect("follow_failed", 2)
	c.fail(nil)

	broken := c.publish("m", e.text("f", "broken"))
	c.trees[broken.Root].err = map[string]error{"": codec.Corrupt("page", 0, "it is broken")}
	look()
	m.see(t, "f", "zero")
	expect("follow_failed", 3)
	c.delete("m", broken.Number)

	c.publish("m", e.text("f", "two"))
	look()
	m.see(t, "f", "two")
	c.delete("m", 2)
	look()
	m.see(t, "f", "zero")
	expect("version_deleted", 1)
	expect("version_switched", 2)
	c.delete("m", 0)
	look()
	look()
	m.see(t, "f", "zero")
	expect("version_deleted", 2)
	c.publish("m", e.text("f", "three"))
	look()
	m.see(t, "f", "three")
}

// If what changed cannot be found out, the kernel forgets everything.
func TestFollowWithoutChanges(t *testing.T) {
	e := newFakeEngine()
	c := newFakeCatalog()
	c.publish("m", e.text("d/e/f", "old"), e.text("d/g", "old"), e.text("h", "old"))
	m, look := mountFollowing(t, c, e, Options{Symbol: "m"})
	for _, name := range []string{"d/e/f", "d/g", "h"} {
		m.see(t, name, "old")
	}
	namesIn(t, m.path("d"))
	c.publish("m", e.text("d/e/f", "new"), e.text("d/e2/f", "new"), e.text("h", "new"))
	c.diffErr = errors.New("no such page")
	look()
	for name, want := range map[string]string{"d/e/f": "new", "d/e2/f": "new", "h": "new", "d/g": ""} {
		if b, err := os.ReadFile(m.path(name)); string(b) != want {
			t.Errorf("%s = %q, %v, want %q", name, b, err, want)
		}
	}
	if got := namesIn(t, m.path("d")); !slices.Equal(got, []string{"e", "e2"}) {
		t.Errorf("d holds %q", got)
	}
}

func TestFollowSymbols(t *testing.T) {
	e := newFakeEngine()
	c := newFakeCatalog()
	for _, s := range []string{"a/one", "a/two", "b"} {
		c.publish(s, e.text("f", s))
	}
	m, look := mountFollowing(t, c, e, Options{})
	m.see(t, "a/one/f", "a/one")
	m.see(t, "a/two/f", "a/two")
	m.see(t, "b/f", "b")
	m.see(t, "a/three/f", "")
	m.see(t, "c/d/f", "")
	namesIn(t, m.dir)
	namesIn(t, m.path("a"))
	c.publish("a/three", e.text("f", "three"))
	c.publish("c/d", e.text("f", "c/d"))
	c.publish("a/one", e.text("f", "newer"))
	c.delete("b", 0)
	look()
	for name, want := range map[string]string{"a/one/f": "newer", "a/two/f": "a/two", "a/three/f": "three", "c/d/f": "c/d", "b/f": ""} {
		if b, err := os.ReadFile(m.path(name)); string(b) != want {
			t.Errorf("%s = %q, %v, want %q", name, b, err, want)
		}
	}
	if got := namesIn(t, m.dir); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("the root holds %q", got)
	}
	if got := namesIn(t, m.path("a")); !slices.Equal(got, []string{"one", "three", "two"}) {
		t.Errorf("a holds %q", got)
	}
	m.dropCaches(t)
	eventually(t, "the kernel forgets", func() bool { return m.s.files.nodes.len() < 3 })
	in := m.s.files.root.nested.(*symbols)
	look()
	open := in.all()
	if len(open) < 4 {
		t.Errorf("%d symbols are open that were looked at just now", len(open))
	}
	in.mu.Lock()
	for _, v := range open {
		v.used = v.used.Add(-2 * minute)
	}
	in.mu.Unlock()
	_, before := c.counts()
	look()
	_, after := c.counts()
	if open := in.all(); len(open) != 0 || before != after {
		t.Errorf("%d unused symbols are open, with %d requests", len(open), after-before)
	}
	m.see(t, "a/one/f", "newer")
}

// dropCaches makes the kernel forget the names of this mount, as each remount does. Other mounts keep
// theirs.
func (m mountFixture) dropCaches(t *testing.T) {
	t.Helper()
	const flags = unix.MS_REMOUNT | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV
	if err := unix.Mount("", m.dir, "", flags, ""); err != nil {
		t.Skip("names cannot be dropped: ", err)
	}
}

// Readers see one version of each file during many publishes, and never wait for the
// invalidation. In the end all files are those of the last version.
func TestFollowUnderLoad(t *testing.T) {
	e := newFakeEngine()
	c := newFakeCatalog()
	const files, versions = 40, 60
	entries := func(v int) (list []page.Entry) {
		for i := range files {
			size := 10 + (v*7+i*13)%20_000
			if (i+v)%5 > 0 {
				list = append(list, e.text(fmt.Sprintf("d%d/f%d", i%4, i), strings.Repeat(string(rune('A'+v)), size)))
			}
		}
		return list
	}
	all := make([][]page.Entry, versions)
	for v := range all {
		all[v] = entries(v)
	}
	c.publish("m", all[0]...)
	m, look := mountFollowing(t, c, e, Options{Symbol: "m"})
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for r := range 4 {
		readers.Go(func() {
			for n := r; !isClosed(stop); n++ {
				b, err := os.ReadFile(m.path(fmt.Sprintf("d%d/f%d", n%4, n%files)))
				if err != nil && !errors.Is(err, unix.ENOENT) || len(b) > 0 && bytes.Count(b, b[:1]) != len(b) {
					t.Errorf("%d bytes, %v, or of two versions", len(b), err)
					return
				}
				if _, err := os.ReadDir(m.path(fmt.Sprintf("d%d", n%4))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for v := 1; v < versions; v++ {
		c.publish("m", all[v]...)
		look()
	}
	close(stop)
	readers.Wait()
	var want, got []string
	for _, en := range all[versions-1] {
		want = append(want, fmt.Sprintf("%s %d", en.Path, en.Size))
	}
	err := filepath.WalkDir(m.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			got = append(got, fmt.Sprintf("%s %d", path[len(m.dir)+1:], info.Size()))
		}
		return err
	})
	slices.Sort(want)
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("at the end, %v:\n got %q\nwant %q", err, got, want)
	}
}

// The clock alone makes a mount follow, and it ends with the mount.
func TestFollowByClock(t *testing.T) {
	e := newFakeEngine()
	c := newFakeCatalog()
	c.publish("m", e.text("f", "old"))
	m := mountFake(t, c, e, Options{Symbol: "m", Follow: 5 * time.Millisecond})
	m.see(t, "f", "old")
	c.publish("m", e.text("f", "new"))
	m.see(t, "f", "new")
	f, err := os.Open(m.path("f"))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.s.Unmount(); !errors.Is(err, unix.EBUSY) {
		t.Errorf("Unmount: %v, want EBUSY", err)
	}
	c.publish("m", e.text("f", "newer"))
	m.see(t, "f", "newer")
	f.Close()
}

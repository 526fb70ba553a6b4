package fs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// history has a symbol "m" with versions 0 to 12, without 3 and 11. Version n has a file "n"
// with that text, and one file that is the same in all. Snapshot old has version 11, new has 12.
func history(e *fakeEngine) *fakeCatalog {
	c := newFakeCatalog()
	for n := range 13 {
		c.publish("m", e.text("n", fmt.Sprint(n)), e.text("d/same", "same"))
		switch n {
		case 11:
			c.snapshot("old", "m")
		case 12:
			c.snapshot("new", "m")
		}
	}
	c.delete("m", 3)
	c.delete("m", 11)
	return c
}

func TestVersionsDirectory(t *testing.T) {
	e := newFakeEngine()
	c := history(e)
	m := mountFake(t, c, e, Options{Symbol: "m"})
	root := names.AsOf{Form: names.ByIdentity, Identity: c.snapshots["old"].Rows["m"].Identity}.String()
	tests := []struct{ name, link, n string }{
		{"0", "", "0"},
		{"12", "", "12"},
		{"latest", "12", "12"},
		{"-1", "12", "12"},
		{"-2", "10", "10"},
		{"-11", "0", "0"},
		{"2024-05-08", "2", "2"}, // a day is its last moment
		{"2024-05-09", "2", "2"}, // 3 was deleted
		{"2024-05-10", "4", "4"},
		{"2024-05-11T12:00:00+02:00", "5", "5"},
		{"snap:new", "12", "12"},
		{"snap:old", root, "11"}, // which is deleted
		{root, "", "11"},
		{strings.ToUpper(root[4:]), "", ""},
		{"3", "", ""},
		{"11", "", ""},
		{"13", "", ""},
		{"012", "", ""},
		{"-0", "", ""},
		{"-12", "", ""},
		{"2024-01-01", "", ""},
		{"snap:none", "", ""},
		{"ver:" + strings.Repeat("77", 32), "", ""},
		{"x", "", ""},
		{"latest ", "", ""},
		{".versions", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			at := filepath.Join(".versions", tt.name)
			b, err := os.ReadFile(m.path(at + "/n"))
			switch {
			case tt.n == "" && !errors.Is(err, unix.ENOENT):
				t.Errorf("error = %v, want ENOENT", err)
			case tt.n != "" && (err != nil || string(b) != tt.n):
				t.Errorf("n = %q, %v, want %q", b, err, tt.n)
			}
			if link, err := os.Readlink(m.path(at)); tt.link != "" && (link != tt.link || err != nil) {
				t.Errorf("link = %q, %v, want %q", link, err, tt.link)
			}
		})
	}
	var listed []string
	for _, d := range readAll(t, openDir(t, m.path(".versions")), 128) {
		listed = append(listed, d.name)
	}
	if want := strings.Fields(". .. 0 1 2 4 5 6 7 8 9 10 12"); !slices.Equal(listed, want) {
		t.Errorf("listed are %q, want %q", listed, want)
	}
	if list := namesOf(readAll(t, openDir(t, m.dir), 4096)); !slices.Equal(list, []string{".", "..", "d", "n"}) {
		t.Errorf("the root holds %q", list)
	}
	if _, err := os.Stat(m.path("d/.versions")); !errors.Is(err, unix.ENOENT) {
		t.Errorf(".versions in a directory: %v, want ENOENT", err)
	}
}

// A listing in progress has all live versions, also if versions are deleted and others read the directory.
func TestVersionsDirectory_Deletion(t *testing.T) {
	const versions = 3 * batchSize
	for _, handles := range []bool{false, true} {
		t.Run(fmt.Sprintf("handles %t", handles), func(t *testing.T) {
			e := newFakeEngine()
			c := newFakeCatalog()
			for n := range versions {
				c.publish("m", e.text("n", fmt.Sprint(n)))
			}
			m := mountFake(t, c, e, Options{Symbol: "m", DirHandles: handles})
			fd := openDir(t, m.path(".versions"))
			listed := map[string]bool{}
			read := func(size int) int {
				list := getdents(t, fd, size)
				for _, d := range list {
					if listed[d.name] {
						t.Errorf("%s is listed twice", d.name)
					}
					listed[d.name] = true
				}
				return len(list)
			}
			for first := 1; read(1024) > 0; first += 8 {
				for n := first; n < first+8 && n%5 > 0; n++ {
					c.delete("m", uint64(n))
				}
				m.forgetVersions()
				namesIn(t, m.path(".versions"))
			}
			for _, row := range c.rows("m") {
				if !listed[fmt.Sprint(row.Number)] {
					t.Errorf("version %d is not listed", row.Number)
				}
			}
		})
	}
}

// forgetVersions makes the mount read the live versions again.
func (m mountFixture) forgetVersions() {
	v := m.s.files.root.nested.(*hiddenVersions)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.listed = time.Time{}
}

// A version is read on demand, and the number of open versions stays bounded.
func TestVersionsLazy(t *testing.T) {
	e := newFakeEngine()
	c := newFakeCatalog()
	for n := range 50 {
		c.publish("m", e.text("n", fmt.Sprint(n)))
	}
	m := mountFake(t, c, e, Options{Symbol: "m"})
	_, err := os.Stat(m.path(".versions"))
	if opened, requested := c.counts(); err != nil || opened != 1 || requested != 1 {
		t.Errorf("%v, %d trees opened, %d questions, want one of each, to mount", err, opened, requested)
	}
	list, err := os.ReadDir(m.path(".versions"))
	if opened, _ := c.counts(); len(list) != 50 || err != nil || opened != 1 {
		t.Errorf("%d versions, %v, %d trees opened", len(list), err, opened)
	}
	for n := range 50 {
		if _, err := os.Stat(m.path(fmt.Sprintf(".versions/%d/n", n))); err != nil {
			t.Fatal(err)
		}
	}
	v := m.s.files.root.nested.(*hiddenVersions)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.open.Len() != maxVersions {
		t.Errorf("%d versions are kept open, want %d", v.open.Len(), maxVersions)
	}
}

// A version has its own inodes. Its files may have other times than those of the newest one, and
// each directory has one name.
func TestVersionsInodes(t *testing.T) {
	e := newFakeEngine()
	c := newFakeCatalog()
	f := e.text("d/f", "same")
	c.publish("m", f)
	c.publish("m", at(f, then.AddDate(1, 0, 0)))
	m := mountFake(t, c, e, Options{Symbol: "m"})
	seen := map[uint64]string{}
	for _, path := range []string{"", "d", "d/f", ".versions", ".versions/0", ".versions/0/d", ".versions/0/d/f", ".versions/1/d/f"} {
		var st unix.Stat_t
		if err := unix.Lstat(m.path(path), &st); err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[st.Ino]; ok {
			t.Errorf("%s and %s have one inode", path, other)
		}
		seen[st.Ino] = path
		year := int64(2024)
		if path == "d/f" || path == ".versions/1/d/f" {
			year = 2025
		}
		if got := then.Unix() + (year-2024)*365*86400; strings.HasSuffix(path, "f") && st.Mtim.Sec != got {
			t.Errorf("%s is of second %d, want %d", path, st.Mtim.Sec, got)
		}
	}
	for path, want := range map[string]string{".versions": "", ".versions/0": ".versions", ".versions/0/d": ".versions/0"} {
		var st unix.Stat_t
		if err := unix.Lstat(m.path(want), &st); err != nil {
			t.Fatal(err)
		}
		if up := readAll(t, openDir(t, m.path(path)), 4096)[1]; up.name != ".." || up.ino != st.Ino {
			t.Errorf("above %s is %v, want inode %d", path, up, st.Ino)
		}
	}
}

func TestVersionsXattrs(t *testing.T) {
	e := newFakeEngine()
	c := history(e)
	rows := c.rows("m")
	m := mountFake(t, c, e, Options{Symbol: "m"})
	old := c.snapshots["old"].Rows["m"].Root
	tests := []struct{ path, attr, want string }{
		{"", "symbol", "m"},
		{"", "version", "12"},
		{"n", "version", "12"},
		{"d", "tindex", rows[0].Root.String()},
		{".versions/latest/n", "version", "12"},
		{".versions/-2/n", "version", "10"},
		{".versions/0/d", "tindex", rows[len(rows)-1].Root.String()},
		{".versions/snap:old/n", "tindex", old.String()},
		{".versions/snap:old/n", "version", ""},
		{".versions/snap:old/n", "symbol", "m"},
	}
	for _, tt := range tests {
		p := make([]byte, 100)
		n, err := unix.Getxattr(m.path(tt.path), "user.xet."+tt.attr, p)
		if got := string(p[:max(0, n)]); got != tt.want || tt.want == "" && err != unix.ENODATA {
			t.Errorf("%s of %s = %q, %v, want %q", tt.attr, tt.path, got, err, tt.want)
		}
	}
	p := make([]byte, 1000)
	n, err := unix.Listxattr(m.path("n"), p)
	const want = "user.xet.symbol user.xet.tindex user.xet.version user.xet.hash user.xet.verified "
	if got := strings.ReplaceAll(string(p[:max(0, n)]), "\x00", " "); got != want || err != nil {
		t.Errorf("list = %q, %v, want %q", got, err, want)
	}
}

func TestVersionsDirOption(t *testing.T) {
	e := newFakeEngine()
	c := newFakeCatalog()
	c.publish("m", e.text(".versions", "mine"))
	log := newSyncBuffer()
	tests := []struct {
		option, there, absent string
	}{
		{"", ".versions/0/.versions", "@"},
		{"@old", "@old/0", "@old/@old"},
		{NoVersionsDir, ".versions", "-"},
	}
	for _, tt := range tests {
		m := mountFake(t, c, e, Options{Symbol: "m", VersionsDir: tt.option, Logger: logger(log)})
		if _, err := os.Stat(m.path(tt.there)); err != nil {
			t.Errorf("%q: %v", tt.option, err)
		}
		if _, err := os.Stat(m.path(tt.absent)); !errors.Is(err, unix.ENOENT) {
			t.Errorf("%q: %s: %v", tt.option, tt.absent, err)
		}
		list, err := os.ReadDir(m.dir)
		if hidden := len(list) == 0; err != nil || hidden != (tt.option == "") {
			t.Errorf("%q: the root holds %v, %v", tt.option, list, err)
		}
	}
	if n := len(log.lines("event=name_rejected")); n != 1 {
		t.Errorf("%d lines tell that a name is hidden", n)
	}
	for _, bad := range []string{"a/b", "..", strings.Repeat("x", 256)} {
		if s, err := mount(t.TempDir(), c, e, Options{Symbol: "m", VersionsDir: bad}); err == nil {
			t.Errorf("VersionsDir %q was taken", bad)
			s.Shutdown(0)
		}
	}
}

// A store that is damaged or gone is no missing version.
func TestVersionsDamaged(t *testing.T) {
	e := newFakeEngine()
	c := history(e)
	m := mountFake(t, c, e, Options{Symbol: "m"})
	c.fail(codec.Corrupt("ver", 3, "its checksum is wrong"))
	for _, name := range []string{"5", "latest", "-2", "snap:old"} {
		if _, err := os.Lstat(m.path(".versions/" + name)); !errors.Is(err, unix.EIO) {
			t.Errorf("%s: %v, want EIO", name, err)
		}
	}
	if _, err := os.Lstat(m.path(".versions/nothing")); !errors.Is(err, unix.ENOENT) {
		t.Errorf("a name that is none: %v, want ENOENT", err)
	}
	m.see(t, "n", "12")
	c.fail(nil)
	m.see(t, ".versions/5/n", "5")
}

func TestSnapshotMount(t *testing.T) {
	e := newFakeEngine()
	c := newFakeCatalog()
	for _, symbol := range []string{"a/x", "a/y", "b"} {
		c.publish(symbol, e.text("f", symbol+" old"))
	}
	c.snapshot("s", "a/x", "b")
	c.publish("b", e.text("f", "new"))
	c.delete("b", 0)
	m := mountFake(t, c, e, Options{Snapshot: "s", Follow: 1})
	m.see(t, "a/x/f", "a/x old")
	m.see(t, "b/f", "b old")
	m.see(t, "b/.versions/latest/f", "new")
	m.see(t, "a/y/f", "")
	one := mountFake(t, c, e, Options{Snapshot: "s", Symbol: "b"})
	one.see(t, "f", "b old")
	for _, o := range []Options{{Snapshot: "none"}, {Snapshot: "s", Symbol: "a/y"}} {
		if _, err := mount(t.TempDir(), c, e, o); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%+v: %v, want ErrNotExist", o, err)
		}
	}
	if _, err := mount(t.TempDir(), newFakeTree(), e, Options{Snapshot: "s"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a catalog without snapshots: %v", err)
	}
}

// Thousands of symbols are not opened to be mounted, nor to be listed.
func TestSymbolsLazy(t *testing.T) {
	e := newFakeEngine()
	c := newFakeCatalog()
	for i := range 3000 {
		c.publish(fmt.Sprintf("org%d/m%d", i%30, i), e.text("f", fmt.Sprint(i)))
	}
	c.publish("org1/m1/inside", e.text("f", "hidden"))
	log := newSyncBuffer()
	m := mountFake(t, c, e, Options{Logger: logger(log)})
	orgs, err := os.ReadDir(m.dir)
	if err != nil || len(orgs) != 30 {
		t.Errorf("%d directories, %v", len(orgs), err)
	}
	list, err := os.ReadDir(m.path("org1"))
	if err != nil || len(list) != 100 || !list[0].IsDir() {
		t.Errorf("%d symbols, %v", len(list), err)
	}
	if opened, _ := c.counts(); opened != 0 {
		t.Errorf("%d trees were opened", opened)
	}
	m.see(t, "org1/m1/f", "1")
	m.see(t, "org1/m1/.versions/0/f", "1")
	if opened, _ := c.counts(); opened != 2 {
		t.Errorf("%d trees were opened, want that of the symbol and of its version", opened)
	}
	m.see(t, "org1/m1/inside/f", "")
	if lines := log.lines("event=symbol_hidden"); len(lines) != 1 || !strings.Contains(lines[0], "symbol=org1/m1/inside") {
		t.Errorf("log = %q", lines)
	}
	var st unix.Stat_t
	if err := unix.Lstat(m.path("org1/m1"), &st); err != nil {
		t.Fatal(err)
	}
	for _, d := range readAll(t, openDir(t, m.path("org1")), 4096) {
		if d.name == "m1" && d.ino != st.Ino {
			t.Errorf("m1 is inode %d in the listing, %d in stat", d.ino, st.Ino)
		}
	}
	if up := readAll(t, openDir(t, m.path("org1/m1")), 4096)[1]; up.ino != m.ino(t, "org1") {
		t.Errorf("above a symbol is inode %d", up.ino)
	}
}

func (m mountFixture) ino(t *testing.T, name string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(m.path(name), &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

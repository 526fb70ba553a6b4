package fs

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/page"
)

// A dirent is an entry as getdents64(2) gives it.
type dirent struct {
	name string
	ino  uint64
	off  int64
	kind byte
}

// getdents reads one buffer of entries.
func getdents(t *testing.T, fd, size int) []dirent {
	t.Helper()
	b := make([]byte, size)
	n, err := unix.Getdents(fd, b)
	if err != nil {
		t.Fatal(err)
	}
	var list []dirent
	for b = b[:n]; len(b) > 0; {
		length := binary.NativeEndian.Uint16(b[16:])
		name, _, _ := strings.Cut(string(b[19:length]), "\x00")
		list = append(list, dirent{name, binary.NativeEndian.Uint64(b), int64(binary.NativeEndian.Uint64(b[8:])), b[18]})
		b = b[length:]
	}
	return list
}

// readAll reads a directory to its end.
func readAll(t *testing.T, fd, size int) []dirent {
	t.Helper()
	var all []dirent
	for {
		some := getdents(t, fd, size)
		if len(some) == 0 {
			return all
		}
		all = append(all, some...)
	}
}

func openDir(t *testing.T, path string) int {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// bigTree has a folder "big" of n files, a folder and a link.
func bigTree(e *fakeEngine, n int) *fakeTree {
	entries := []page.Entry{
		{Path: "big/link", Type: page.Symlink, Target: "x"},
		{Path: "big/sub", Type: page.Dir, Mode: 0o555},
	}
	for i := range n {
		entries = append(entries, e.file(fmt.Sprintf("big/%06d", i), nil))
	}
	return newFakeTree(entries...)
}

func namesOf(list []dirent) []string {
	var s []string
	for _, d := range list {
		s = append(s, d.name)
	}
	return s
}

func TestK26_Readdir(t *testing.T) {
	const n = 3000
	e := newFakeEngine()
	tree := bigTree(e, n)
	m := mountFake(t, tree, e, Options{})
	want := []string{".", ".."}
	for _, en := range tree.byDir["big"] {
		want = append(want, nameOf("big", en.Path))
	}
	for _, size := range []int{128, 4096, 32 << 10, 1 << 20} { // the first fills the kernel's cache
		t.Run(fmt.Sprintf("buffer of %d", size), func(t *testing.T) {
			fd := openDir(t, m.path("big"))
			list := readAll(t, fd, size)
			if !slices.Equal(namesOf(list), want) {
				t.Fatalf("%d entries, want %d, or in another order", len(list), len(want))
			}
			for _, d := range list[:50] {
				var st unix.Stat_t
				if err := unix.Lstat(m.path("big/"+d.name), &st); err != nil || st.Ino != d.ino {
					t.Errorf("%s: inode %d in the listing, %d in stat, %v", d.name, d.ino, st.Ino, err)
				}
			}
			kinds := map[string]byte{".": unix.DT_DIR, "..": unix.DT_DIR, "sub": unix.DT_DIR, "link": unix.DT_LNK, "000000": unix.DT_REG}
			for _, d := range list {
				if k, ok := kinds[d.name]; ok && k != d.kind {
					t.Errorf("type of %s = %d, want %d", d.name, d.kind, k)
				}
			}
		})
	}
}

func TestK26_Seekdir(t *testing.T) {
	const n = 3000
	e := newFakeEngine()
	m := mountFake(t, bigTree(e, n), e, Options{})
	fd := openDir(t, m.path("big"))
	all := readAll(t, fd, 4096)
	// Another descriptor seeks where it has never been, and back, with the offsets of
	// the first.
	other := openDir(t, m.path("big"))
	for _, i := range []int{2500, 10, 1, 0, 1025, len(all) - 2, 1024, 1026, 2048} {
		if _, err := unix.Seek(other, all[i].off, unix.SEEK_SET); err != nil {
			t.Fatal(err)
		}
		if got := getdents(t, other, 256); len(got) == 0 || got[0] != all[i+1] {
			t.Errorf("behind entry %d: %v, want %v", i, got, all[i+1])
		}
	}
	if _, err := unix.Seek(other, 0, unix.SEEK_SET); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, other, 8192); !slices.Equal(got, all) {
		t.Errorf("after rewinding: %d entries, want %d", len(got), len(all))
	}
}

func TestK26_TwoAtOnce(t *testing.T) {
	e := newFakeEngine()
	m := mountFake(t, bigTree(e, 1000), e, Options{})
	a, b := openDir(t, m.path("big")), openDir(t, m.path("big"))
	var fromA, fromB []dirent
	for range 2000 {
		fromA = append(fromA, getdents(t, a, 128)...)
		fromB = append(fromB, getdents(t, b, 200)...)
	}
	if len(fromA) != 1004 || !slices.Equal(fromA, fromB) {
		t.Errorf("%d and %d entries, want 1004 twice", len(fromA), len(fromB))
	}
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			if list, err := os.ReadDir(m.path("big")); len(list) != 1002 || err != nil {
				t.Errorf("%d entries, %v", len(list), err)
			}
		})
	}
	readers.Wait()
}

func TestK26_InodesOverRemount(t *testing.T) {
	e := newFakeEngine()
	tree := bigTree(e, 100)
	inodes := func() map[string]uint64 {
		m := mountFake(t, tree, e, Options{})
		seen := map[string]uint64{}
		for _, d := range readAll(t, openDir(t, m.path("big")), 4096) {
			seen[d.name] = d.ino
		}
		return seen
	}
	first, second := inodes(), inodes()
	if len(first) != 104 {
		t.Errorf("%d entries", len(first))
	}
	for name, ino := range first {
		if second[name] != ino {
			t.Errorf("%s: inode %d, then %d", name, ino, second[name])
		}
	}
	if first[".."] != 1 {
		t.Errorf("the root has inode %d, want 1", first[".."])
	}
}

// The nodes are freed after the kernel has forgotten them.
func TestForget(t *testing.T) {
	e := newFakeEngine()
	m := mountFake(t, bigTree(e, 500), e, Options{})
	entries, err := os.ReadDir(m.path("big"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range entries {
		if _, err := d.Info(); err != nil {
			t.Fatal(err)
		}
	}
	if n := m.s.files.nodes.len(); n < 500 {
		t.Errorf("%d nodes, want 500 and more", n)
	}
	m.dropCaches(t)
	eventually(t, "the nodes are forgotten", func() bool { return m.s.files.nodes.len() < 10 })
	if _, err := os.Stat(m.path("big/000001")); err != nil {
		t.Error(err)
	}
}

package fs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/page"
)

// Whatever is a name in Linux is one here, in the real catalog too.
func TestK27_HardNames(t *testing.T) {
	hard := []string{
		strings.Repeat("n", 255), strings.Repeat("\xff", 255), "a\xffb", "new\nline", "-rf", "--", "*", "?", "a b", " ", "...", "..a",
		"a", "A", "é", "e\u0301", "~", "\x01", "\x7f", "\\", "'", "\"", "$(x)", "CON", "name.", "\u202etxt.exe",
	}
	var entries []page.Entry
	for _, dir := range []string{"", "d/", strings.Repeat("x", 255) + "/"} {
		for i, name := range hard {
			entries = append(entries, note(dir+name, fmt.Sprint(i)))
		}
	}
	p := newPublisher(t, smallPages)
	p.publish("m", entries...)
	m := mountFake(t, p.Catalog(), newFakeEngine(), Options{Symbol: "m"})
	for _, e := range entries {
		if b, err := os.ReadFile(m.path(e.Path)); string(b) != string(e.Inline) {
			t.Errorf("%q = %q, %v", e.Path, b, err)
		}
	}
	want := slices.Sorted(slices.Values(hard))
	if got := namesIn(t, m.path("d")); !slices.Equal(got, want) {
		t.Errorf("listed are %q, want %q", got, want)
	}
	for name, want := range map[string]error{"d/aA": unix.ENOENT, "d/" + strings.Repeat("n", 254): unix.ENOENT, "d/" + strings.Repeat("n", 256): unix.ENAMETOOLONG} {
		var st unix.Stat_t
		if err := unix.Lstat(m.path(name), &st); err != want {
			t.Errorf("%.10q: %v, want %v", name, err, want)
		}
	}
}

func TestDepth(t *testing.T) {
	const depth = 200
	path := strings.Repeat("d/", depth) + "f"
	p := newPublisher(t, smallPages)
	p.publish("m", note(path, "deep"))
	m := mountFake(t, p.Catalog(), newFakeEngine(), Options{Symbol: "m"})
	m.see(t, path, "deep")
	m.see(t, ".versions/0/"+path, "deep")
	if got := namesIn(t, m.path(parent(path))); !slices.Equal(got, []string{"f"}) {
		t.Errorf("the deepest directory holds %q", got)
	}
}

// A listing omits entries outside its directory and entries without names, and continues.
func TestS01_HostileTree(t *testing.T) {
	e := newFakeEngine()
	tree := newFakeTree(e.file("d/good", nil), e.file("d/zz", nil))
	hostile := []string{"", "d", "d/", "d/.", "d/..", "d/../x", "/etc/passwd", "e/x", "dd", "d\x00/x", "d/a/b", "d/" + strings.Repeat("n", 256)}
	for _, path := range hostile {
		tree.byDir["d"] = append(tree.byDir["d"], page.Entry{Path: path})
	}
	log := newSyncBuffer()
	m := mountFake(t, &unsortedTree{tree}, e, Options{Logger: logger(log)})
	if got := namesIn(t, m.path("d")); !slices.Equal(got, []string{"good", "zz"}) {
		t.Errorf("d holds %q", got)
	}
	if n := len(log.lines("event=name_rejected")); n != 1 {
		t.Errorf("%d lines, want 1", n)
	}
}

// A folder of 100,000, read in small pieces and from every place, forwards and back.
func TestK26_Hundredthousand(t *testing.T) {
	const n = 100_000
	p := newPublisher(t, page.DefaultSizes())
	p.replace("m", func(yield func(page.Entry, error) bool) {
		if !yield(page.Entry{Type: page.Dir, Mode: 0o755, ModTime: then}, nil) {
			return
		}
		for i := range n {
			if !yield(page.Entry{Path: fmt.Sprintf("%06d", i), ModTime: then}, nil) {
				return
			}
		}
	})
	m := mountFake(t, p.Catalog(), newFakeEngine(), Options{Symbol: "m"})
	fd := openDir(t, m.dir)
	var all []dirent
	for _, size := range []int{128, 1 << 20, 333, 64 << 10} { // the first part by small buffers, then large ones
		for range 5 {
			all = append(all, getdents(t, fd, size)...)
		}
	}
	all = append(all, readAll(t, fd, 32<<10)...)
	if len(all) != n+2 {
		t.Fatalf("%d entries, want %d", len(all), n+2)
	}
	for i, d := range all[2:] {
		if d.name != fmt.Sprintf("%06d", i) {
			t.Fatalf("entry %d is %s", i, d.name)
		}
	}
	other := openDir(t, m.dir)
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		i := random.IntN(n)
		if _, err := unix.Seek(other, all[i].off, unix.SEEK_SET); err != nil {
			t.Fatal(err)
		}
		got := getdents(t, other, 1<<(8+random.IntN(8)))
		if len(got) == 0 || !slices.Equal(got, all[i+1:i+1+len(got)]) {
			t.Errorf("behind entry %d: %v, want %v", i, got, all[i+1])
		}
	}
}

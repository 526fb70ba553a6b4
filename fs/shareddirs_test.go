package fs

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/page"
)

// messages returns the number of messages by operation.
func (m mountFixture) messages() map[string]int64 {
	all := map[string]int64{}
	for name, s := range m.s.files.messages.Stats() {
		all[name] = s.Latency.Count
	}
	return all
}

// A cold find costs two messages for a small folder, and a warm one none.
func TestSharedDirs_Messages(t *testing.T) {
	const folders, files = 100, 10
	e := newFakeEngine()
	tree := newFakeTree()
	for i := range folders * files {
		tree.add(e.text(fmt.Sprintf("%03d/%d", i/files, i%files), "x"))
	}
	m := mountFake(t, tree, e, Options{})
	find := func() (lines int) {
		out, err := exec.Command("find", m.dir, "-type", "f").Output()
		if err != nil {
			t.Fatal(err)
		}
		return bytes.Count(out, []byte("\n"))
	}
	if n := find(); n != folders*files {
		t.Errorf("find has %d names", n)
	}
	cold := m.messages()
	lists := cold["readdir"] + cold["readdirplus"]
	if lists > 2*(folders+1) || cold["opendir"] > 1 || cold["releasedir"] > 0 || cold["lookup"] > folders*files/64 {
		t.Errorf("a cold find of %d folders sent %v", folders, cold)
	}
	if n := tree.lists.Load(); n > folders+1 {
		t.Errorf("the tree was listed %d times for %d folders", n, folders+1)
	}
	m.withoutMessages(t, func() {
		if n := find(); n != folders*files {
			t.Errorf("a warm find has %d names", n)
		}
	})
}

// withoutMessages calls f until one call causes no message. The kernel may drop pages at any time, so
// that some calls do.
func (m mountFixture) withoutMessages(t *testing.T, f func()) {
	t.Helper()
	var before, after map[string]int64
	for range 10 {
		before = m.messages()
		f()
		if after = m.messages(); maps.Equal(before, after) {
			return
		}
		t.Logf("repeated after %v became %v", before, after)
	}
	t.Errorf("each call sent messages: %v, before the last one %v", after, before)
}

// The last message of a directory has all names that are left, and the next one needs no tree.
func TestSharedDirs_LastMessage(t *testing.T) {
	const n = 3 * batchSize / 2
	e := newFakeEngine()
	tree := bigTree(e, n)
	f := newFilesystem(volumeOf(tree), e, Options{}.withDefaults())
	f.initDirs(fuse.CAP_NO_OPENDIR_SUPPORT)
	defer f.OnUnmount()
	var entry fuse.EntryOut
	f.Lookup(nil, &fuse.InHeader{NodeId: 1}, "big", &entry)
	in := &fuse.ReadIn{InHeader: fuse.InHeader{NodeId: entry.NodeId}}
	if status := f.OpenDir(nil, &fuse.OpenIn{InHeader: in.InHeader}, new(fuse.OpenOut)); status != fuse.ENOSYS {
		t.Errorf("OPENDIR: %v", status)
	}
	read := func() (bytes int) {
		list := fuse.NewDirEntryList(make([]byte, 1<<20), in.Offset)
		if status := f.ReadDirPlus(nil, in, list); !status.Ok() {
			t.Fatal(status)
		}
		in.Offset = list.Offset
		return len(list.Bytes())
	}
	if size := read(); in.Offset != uint64(len(tree.byDir["big"])+2) {
		t.Errorf("the first message has %d bytes and ends at %#x", size, in.Offset)
	}
	lists := tree.lists.Load()
	if size := read(); size != 0 || tree.lists.Load() != lists {
		t.Errorf("after the end: %d bytes, %d more listings of the tree", size, tree.lists.Load()-lists)
	}
}

// telldir and seekdir work at each position, also of an earlier version, whether the kernel has the
// listing or not. So do two readers of one descriptor.
func TestSharedDirs_Seek(t *testing.T) {
	e := newFakeEngine()
	c := newFakeCatalog()
	c.publish("m", folderOf3000(e)...)
	m, look := mountFollowing(t, c, e, Options{Symbol: "m"})
	fd := openDir(t, m.path("d"))
	list := readAll(t, fd, 4096)
	random := rand.New(rand.NewPCG(1, 2))
	seek := func(when string) {
		t.Helper()
		for range 100 {
			i := random.IntN(len(list))
			if _, err := unix.Seek(fd, list[i].off, unix.SEEK_SET); err != nil {
				t.Fatal(err)
			}
			want := list[i+1 : min(i+3, len(list))]
			some := getdents(t, fd, 1024)
			if got := some[:min(len(want), len(some))]; !slices.Equal(namesOf(got), namesOf(want)) {
				t.Fatalf("%s: after entry %d: %v, want %v", when, i, got, want)
			}
		}
	}
	seek("cached")
	m.dropCaches(t)
	seek("not cached")
	for i := range 2 * maxOpenVersions {
		c.publish("m", e.text(fmt.Sprintf("d/other%d", i), "x"), e.text("d/none", "x"))
		look()
		if i%8 == 0 {
			seek("an earlier version")
		}
		if got := namesIn(t, m.path("d")); len(got) != 2 || got[1] != fmt.Sprint("other", i) {
			t.Errorf("version %d: %v", i+1, got)
		}
	}
	if got := m.s.files.root.earlier.open.Len(); got > maxOpenVersions {
		t.Errorf("%d earlier versions are open", got)
	}
	if _, err := unix.Seek(fd, list[0].off, unix.SEEK_SET); err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	var mu sync.Mutex
	got := []string{"."}
	for range 2 {
		readers.Go(func() {
			all := namesOf(readAll(t, fd, 512))
			mu.Lock()
			defer mu.Unlock()
			got = append(got, all...)
		})
	}
	readers.Wait()
	slices.Sort(got)
	want := namesOf(list)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("two readers of one descriptor have %d names, want %d", len(got), len(want))
	}
}

// A position of a version that the mount has forgotten is EIO.
func TestSharedDirs_Forgotten(t *testing.T) {
	e := newFakeEngine()
	c := newFakeCatalog()
	row := c.publish("m", folderOf3000(e)...)
	m, look := mountFollowing(t, c, e, Options{Symbol: "m"})
	fd := openDir(t, m.path("d"))
	getdents(t, fd, 1024)
	c.publish("m", e.text("d/new", "x"))
	look()
	root := m.s.files.root
	forget := func(next uint64) (before uint64) {
		root.earlier.mu.Lock()
		defer root.earlier.mu.Unlock()
		before = root.earlier.next
		root.earlier.open.Remove(0)
		root.earlier.next = next
		return before
	}
	before := forget(maxEarlier + 1)
	if n, err := unix.Getdents(fd, make([]byte, 1024)); err != unix.EIO {
		t.Errorf("%d bytes, %v, want EIO", n, err)
	}
	forget(before)
	if list := readAll(t, fd, 1024); list[len(list)-1].name != "02999" {
		t.Errorf("the listing ends with %v", list[len(list)-1])
	}
	forget(before)
	c.mu.Lock()
	delete(c.trees, row.Root)
	c.mu.Unlock()
	if _, err := unix.Seek(fd, 5, unix.SEEK_SET); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Getdents(fd, make([]byte, 1024)); err != unix.EIO {
		t.Errorf("a tree that the store has lost: %d bytes, %v, want EIO", n, err)
	}
}

func TestNumberOf(t *testing.T) {
	for _, number := range []uint64{0, 1, maxEarlier, 1<<numberBits - 1, 1 << numberBits, 5<<numberBits + 3} {
		for _, later := range []uint64{0, 1, maxEarlier} {
			h := &dirHandle{ver: &version{number: number}, isShared: true}
			off := h.offset(1234567)
			if got := numberOf(off, &version{number: number + later}); got != number || placeOf(off) != 1234567 || int64(off) < 0 {
				t.Errorf("version %d, shown version %d: %d, place %d", number, number+later, got, placeOf(off))
			}
		}
	}
}

// A listing of the old version may have been read by the mount and not yet be with the kernel at a
// switch. It must not become the kernel's listing of the new version. This test stops such a
// message between its answer and its reply.
func TestSharedDirs_ReplyInFlight(t *testing.T) {
	for _, unknown := range []bool{false, true} {
		t.Run(fmt.Sprintf("changes unknown %t", unknown), func(t *testing.T) {
			e := newFakeEngine()
			c := newFakeCatalog()
			old := c.publish("m", e.text("d/a", "x"), e.text("d/b", "x"))
			ending := make(chan bool)
			c.trees[old.Root].ending = ending
			m, look := mountFollowing(t, c, e, Options{Symbol: "m"})
			var notified atomic.Int32
			recordNotices(m).before = func() { notified.Add(1) }
			fd := openDir(t, m.path("d"))
			c.publish("m", e.text("d/b", "x"), e.text("d/c", "x"))
			if unknown {
				c.diffErr = errors.New("the changes are unknown")
			}
			reader := make(chan []dirent, 1)
			go func() { reader <- getdents(t, fd, 4096) }()
			<-ending
			switched := make(chan bool)
			go func() {
				defer close(switched)
				look()
			}()
			eventually(t, "the mount notifies the kernel", func() bool { return notified.Load() > 0 })
			select {
			case <-switched:
				t.Error("the switch has not waited for a listing in progress")
			default:
			}
			ending <- true
			if got := namesOf(<-reader)[2:]; !slices.Equal(got, []string{"a", "b"}) {
				t.Errorf("the listing in progress has %v", got)
			}
			<-switched
			close(ending)
			if got := readAll(t, fd, 4096); len(got) > 0 { // the kernel ends its old listing
				t.Errorf("the listing in progress continues with %v", got)
			}
			for range 3 {
				if got := namesIn(t, m.path("d")); !slices.Equal(got, []string{"b", "c"}) {
					t.Errorf("the new version has %v", got)
				}
			}
			m.withoutMessages(t, func() { namesIn(t, m.path("d")) })
		})
	}
}

const loopFiles = 400 // that all versions have

// loopEntries are the files of a version: some that all versions have, with other content, and some
// of its own.
func loopEntries(e *fakeEngine, version int) (all []page.Entry) {
	text := strings.Repeat(fmt.Sprintf("version %07d\n", version), 700) // of several pages
	for i := range loopFiles {
		if i < 20 {
			all = append(all, e.text(fmt.Sprintf("d/common%04d", i), text))
			continue
		}
		all = append(all, e.text(fmt.Sprintf("d/common%04d", i), text[:16]))
	}
	for i := range 20 {
		all = append(all, e.text(fmt.Sprintf("d/own%07d-%02d", version, i), text[:16]))
	}
	return all
}

// Listings and archives that run beside 100 switches have all names of one version, and files of one
// version each.
func TestSharedDirs_Switches(t *testing.T) {
	const versions = 100
	e := newFakeEngine()
	c := newFakeCatalog()
	c.publish("m", loopEntries(e, 0)...)
	m, look := mountFollowing(t, c, e, Options{Symbol: "m"})
	ended := make(chan struct{})
	var loops sync.WaitGroup
	loop := func(run func()) {
		loops.Go(func() {
			for {
				run()
				select {
				case <-ended:
					return
				default:
				}
			}
		})
	}
	var finds, tars atomic.Int64
	find := func() {
		fd, err := unix.Open(m.path("d"), unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Close(fd)
		checkLoopNames(t, namesOf(readAll(t, fd, 4096))[2:])
		finds.Add(1)
	}
	loop(find)
	loop(func() {
		out, err := exec.Command("find", m.path("d"), "-type", "f", "-printf", "%f\n").Output()
		if err != nil && !strings.Contains(stderrOf(err), "No such file") {
			t.Error(err, stderrOf(err))
		}
		var own, common int
		for _, name := range strings.Fields(string(out)) {
			if strings.HasPrefix(name, "own") {
				own++
			} else {
				common++
			}
		}
		if common != loopFiles || own > 20 {
			t.Errorf("find has %d names of all versions and %d of one", common, own)
		}
		finds.Add(1)
	})
	loop(func() {
		out, _ := exec.Command("tar", "cf", "-", "-C", m.dir, "d").Output() // files change and vanish meanwhile
		checkLoopArchive(t, out)
		tars.Add(1)
	})
	for v := 1; v <= versions; v++ {
		c.publish("m", loopEntries(e, v)...)
		look()
		for n := finds.Load(); v%10 == 0 && finds.Load() < n+2 && !t.Failed(); {
			find() // the loops take part
		}
	}
	close(ended)
	loops.Wait()
	checkLoopNames(t, namesIn(t, m.path("d")))
	m.see(t, fmt.Sprintf("d/own%07d-%02d", versions, 3), fmt.Sprintf("version %07d\n", versions))
	t.Logf("%d listings and %d archives beside %d switches", finds.Load(), tars.Load(), versions)
}

func stderrOf(err error) string {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return string(exit.Stderr)
	}
	return ""
}

// checkLoopNames fails unless a listing is that of one version.
func checkLoopNames(t *testing.T, list []string) {
	t.Helper()
	slices.Sort(list)
	if len(list) != loopFiles+20 || list[0] != "common0000" || list[loopFiles-1] != "common0399" || len(slices.Compact(slices.Clone(list))) != len(list) {
		t.Errorf("a listing has %d names", len(list))
		return
	}
	for i, name := range list[loopFiles:] {
		if want := fmt.Sprintf("%s-%02d", list[loopFiles][:10], i); name != want {
			t.Errorf("a listing has %s, want %s", name, want)
		}
	}
}

// checkLoopArchive fails unless an archive has all files that all versions have, each of one version.
func checkLoopArchive(t *testing.T, archive []byte) {
	t.Helper()
	common := 0
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Error(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if strings.HasPrefix(h.Name, "d/common") {
			common++
		}
		if len(content) < 16 || !bytes.Equal(content, bytes.Repeat(content[:16], len(content)/16)) {
			t.Errorf("%s is mixed of versions", h.Name)
		}
	}
	if common != loopFiles {
		t.Errorf("an archive has %d of %d files", common, loopFiles)
	}
}

// The kernel's listing of the new version may fill its last page exactly. A listing of the old
// version that looks for its position there continues with the mount.
func TestSharedDirs_FullPage(t *testing.T) {
	e := newFakeEngine()
	c := newFakeCatalog()
	c.publish("m", folderOf3000(e)...)
	m, look := mountFollowing(t, c, e, Options{Symbol: "m"})
	namesIn(t, m.path("d")) // into the kernel
	fd := openDir(t, m.path("d"))
	list := getdents(t, fd, 1024)
	var full []page.Entry
	for i := range 4096/32 - 2 {
		full = append(full, e.text(fmt.Sprintf("d/%08d", i), "x"))
	}
	c.publish("m", full...)
	look()
	for range 2 {
		if got := namesIn(t, m.path("d")); len(got) != len(full) {
			t.Errorf("the new version has %d names", len(got))
		}
	}
	if list = append(list, readAll(t, fd, 1024)...); len(list) != 3002 {
		t.Errorf("the old version has %d names", len(list)-2)
	}
}

// Programs see a tree as they see its copy on a kernel file system: cold, from the kernel's caches,
// and after these were dropped.
func TestSharedDirs_Differential(t *testing.T) {
	e := newFakeEngine()
	tree := newFakeTree()
	copied := t.TempDir()
	random := rand.New(rand.NewPCG(3, 4))
	dirs := []string{""}
	for i := range 400 {
		dir := dirs[random.IntN(len(dirs))]
		path := join(dir, strings.Repeat(string(rune('a'+i%26)), 1+random.IntN(200))+fmt.Sprint(i))
		if len(path) > 2000 {
			continue
		}
		if i%3 == 0 {
			dirs = append(dirs, path)
			tree.add(page.Entry{Path: path, Type: page.Dir, Mode: 0o555, ModTime: then})
			if err := os.Mkdir(join(copied, path), 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		text := strings.Repeat(path, random.IntN(50))
		en := e.text(path, text)
		en.Mode, en.ModTime = 0o444, then
		tree.add(en)
		if err := os.WriteFile(join(copied, path), []byte(text), 0o444); err != nil {
			t.Fatal(err)
		}
	}
	for dir := range tree.byDir {
		slices.SortFunc(tree.byDir[dir], func(a, b page.Entry) int { return strings.Compare(a.Path, b.Path) })
	}
	m := mountFake(t, tree, e, Options{})
	run := func(dir, command string) string {
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v: %.500s", command, err, out)
		}
		return string(out)
	}
	for _, when := range []string{"cold", "warm", "caches dropped"} {
		for _, command := range []string{
			`find . -type f -printf '%P %y %s\n' | sort`,
			`find . -type d -printf '%P\n' | sort`,
			`ls -RAQ1`,
			`tar cf - --sort=name --mtime=@0 --mode=a=r --owner=0 --group=0 . | sha256sum`,
			`grep -rlc a . | sort`,
		} {
			if got, want := run(m.dir, command), run(copied, command); got != want {
				t.Errorf("%s, %s: %d bytes, want %d", when, command, len(got), len(want))
			}
		}
		if when == "warm" {
			m.dropCaches(t)
		}
	}
}

package fs

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/page"
)

// pushedFiles mounts with pushes. Directory d has n files of a size, with a node each.
func pushedFiles(t *testing.T, n, size int, o Options) (m mountFixture, paths []string) {
	t.Helper()
	e := newFakeEngine()
	tree := newFakeTree()
	for i := range n {
		paths = append(paths, fmt.Sprintf("d/%04d", i))
		tree.add(e.file(paths[i], bytes.Repeat([]byte(paths[i]), 1+size/len(paths[i]))))
	}
	o.Push = true
	m = mountFake(t, tree, e, o)
	if m.s.files.sequences == nil {
		t.Skip("the kernel has no limit of requests")
	}
	m.know(t, "d", paths...)
	return m, paths
}

// know lists a directory and looks up files, so that they can be pushed.
func (m mountFixture) know(t *testing.T, dir string, paths ...string) {
	t.Helper()
	if _, err := os.ReadDir(m.path(dir)); err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if err := unix.Lstat(m.path(path), new(unix.Stat_t)); err != nil {
			t.Fatal(err)
		}
	}
}

// settle waits until all pushes are done.
func (m mountFixture) settle(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(patience); !m.s.files.sequences.Settled(); time.Sleep(100 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatal("the pushes do not end")
		}
	}
}

// readPushed reads a file that readers in order read, and compares it.
func (m mountFixture) readPushed(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(m.path(path))
	if err != nil || len(b) == 0 || len(bytes.ReplaceAll(b, []byte(path), nil)) != 0 {
		t.Fatalf("%s has %d bytes, %v", path, len(b), err)
	}
	m.settle(t)
}

// A reader in order sends at most one READ in 16 files, with and without OPEN. All bytes are right.
func TestPush(t *testing.T) {
	const n = 800
	for _, stateless := range []bool{false, true} {
		t.Run(fmt.Sprint("stateless ", stateless), func(t *testing.T) {
			m, paths := pushedFiles(t, n, 5000, Options{Stateless: stateless})
			for _, path := range paths {
				m.readPushed(t, path)
			}
			s := m.s.files.stats().Files
			if s.Read > n/16 || s.Pushed < n-n/16 || s.PushedBytes/s.Pushed < 5000 {
				t.Errorf("%d files sent %d READ; %d files and %d bytes were pushed", n, s.Read, s.Pushed, s.PushedBytes)
			}
		})
	}
}

// A file whose end was not read does not count.
func TestPushHeads(t *testing.T) {
	m, paths := pushedFiles(t, 100, 100_000, Options{Stateless: true})
	for _, path := range paths {
		f, err := os.Open(m.path(path))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Read(make([]byte, 16)); err != nil {
			t.Error(err)
		}
		f.Close()
		m.settle(t)
	}
	if s := m.s.files.stats().Files; s.Pushed != 0 || s.Read < 100 {
		t.Errorf("heads of %d files were read, and %d files pushed", s.Read, s.Pushed)
	}
}

// Reads with O_DIRECT bypass the page cache, so they push nothing.
func TestPushDirect(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		m, paths := pushedFiles(t, 100, 5000, Options{Stateless: stateless})
		p := make([]byte, 8192)
		for _, path := range paths {
			fd, err := unix.Open(m.path(path), unix.O_RDONLY|unix.O_DIRECT, 0)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := unix.Read(fd, p); n < 5000 || err != nil {
				t.Errorf("%s has %d bytes, %v", path, n, err)
			}
			unix.Close(fd) //nolint:errcheck // only read
			m.settle(t)
		}
		if s := m.s.files.stats().Files; s.Pushed != 0 || s.Read < 100 {
			t.Errorf("%d direct reads pushed %d files", s.Read, s.Pushed)
		}
	}
}

// Without the option nothing is pushed, and a remote origin gets no pushes.
func TestPushOff(t *testing.T) {
	for _, remote := range []bool{false, true} {
		e := newFakeEngine()
		e.remote = remote
		m := mountFake(t, newFakeTree(e.text("f", "f")), e, Options{Push: remote})
		m.s.files.sequences.Read(nil, &page.Entry{Path: "f", Size: 1}) // a nil tree is used only for pushes
		if s := m.s.files.stats().Files; s.Pushed != 0 {
			t.Errorf("%d files are pushed", s.Pushed)
		}
	}
}

// A push after a version switch does not bring old bytes back. A forgotten file is no error.
func TestPushVersions(t *testing.T) {
	e := newFakeEngine()
	c := newFakeCatalog()
	publish := func(text string) {
		var all []page.Entry
		for i := range 40 {
			all = append(all, e.text(fmt.Sprintf("d/%02d", i), fmt.Sprint(text, i)))
		}
		c.publish("m", all...)
	}
	publish("old ")
	m, look := mountFollowing(t, c, e, Options{Symbol: "m", Push: true})
	f := m.s.files
	if f.sequences == nil {
		t.Skip("the kernel has no limit of requests")
	}
	m.know(t, "d")
	for i := range 12 {
		m.see(t, fmt.Sprintf("d/%02d", i), fmt.Sprint("old ", i))
		m.settle(t)
	}
	old := f.root.current.Load()
	if f.stats().Files.Pushed == 0 {
		t.Fatal("nothing was pushed")
	}
	held, err := os.Open(m.path("d/30")) // the old file keeps its node
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	publish("new ")
	look()
	for i := range 40 {
		entry, err := old.Lookup(context.Background(), fmt.Sprintf("d/%02d", i))
		if err != nil {
			t.Fatal(err)
		}
		if pushed := f.push(context.Background(), old, &entry, func() bool { return true }); i == 30 && !pushed {
			t.Error("an open file of the old version is not pushed")
		}
	}
	for i := range 40 {
		m.see(t, fmt.Sprintf("d/%02d", i), fmt.Sprint("new ", i))
	}
	b := make([]byte, 10)
	if n, err := held.ReadAt(b, 0); string(b[:n]) != "old 30" {
		t.Errorf("the open file has %q, %v", b[:n], err)
	}
}

// An unmount during pushes ends them.
func TestPushUnmount(t *testing.T) {
	for range 20 {
		m, paths := pushedFiles(t, 100, 5000, Options{Stateless: true})
		for _, path := range paths[:12] {
			if _, err := os.ReadFile(m.path(path)); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.s.Unmount(); err != nil {
			t.Fatal(err)
		}
	}
}

// The kernel ends a mount whose READ is not answered, and so a push that waits for the same page. A
// killed process would otherwise never end.
func TestPushLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 15 to 30 s, the accuracy of the kernel")
	}
	t.Parallel()
	needFUSE(t)
	e := newFakeEngine()
	e.block = make(chan struct{})
	s, err := mountHere(t.TempDir(), newFakeTree(e.text("f", "f")), e, Options{Push: true, ReadLimit: time.Hour, requestLimit: 15 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown(0) //nolint:errcheck // the connection has ended
	if s.files.sequences == nil {
		t.Skip("the kernel has no limit of requests")
	}
	var st unix.Stat_t
	if err := unix.Stat(s.device.Dir+"/f", &st); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		b, err := os.ReadFile(s.device.Dir + "/f")
		read <- fmt.Sprintf("%s %v", b, err)
	}()
	for e.reading.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	s.files.kernel.InodeNotifyStoreCache(st.Ino, 0, []byte("f")) // waits for the READ
	if got := <-read; got != "f <nil>" && !strings.Contains(got, unix.ENOTCONN.Error()) && !strings.Contains(got, unix.ECONNABORTED.Error()) {
		t.Errorf("the reader gets %s, want the pushed content or an error of the connection", got)
	}
	close(e.block)
	s.Wait()
}

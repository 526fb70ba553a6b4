package fs

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec"
)

// remoteFiles returns an engine and a tree of n files in a directory, which are fetched ahead.
func remoteFiles(n int) (*fakeEngine, *fakeTree) {
	e := newFakeEngine()
	e.remote, e.announced = true, make(chan codec.FileID, n)
	tree := newFakeTree()
	for i := range n {
		tree.add(e.text(fmt.Sprintf("d/%03d", i), fmt.Sprint(i)))
	}
	return e, tree
}

// Files that are opened in the order of their listing are announced, with and without OPEN.
func TestSequence(t *testing.T) {
	for _, stateless := range []bool{false, true} {
		t.Run(fmt.Sprint("stateless ", stateless), func(t *testing.T) {
			e, tree := remoteFiles(100)
			m := mountFake(t, tree, e, Options{Stateless: stateless})
			for i := range 50 {
				name := fmt.Sprintf("d/%03d", i)
				if b, err := os.ReadFile(m.path(name)); string(b) != fmt.Sprint(i) || err != nil {
					t.Fatalf("%s = %q, %v", name, b, err)
				}
				if i < 2 {
					continue
				}
				if got := <-e.announced; got != tree.byPath[fmt.Sprintf("d/%03d", i+1)].ID {
					t.Fatalf("after %s comes %v", name, got)
				}
			}
			if s := m.s.files.sequences.Stats(); s.Opened != 47 || s.Announced < 48 {
				t.Errorf("stats are %+v, want 47 opened files", s)
			}
		})
	}
}

// Programs that only list a tree and read attributes fetch nothing.
func TestSequenceWalk(t *testing.T) {
	e, tree := remoteFiles(300)
	m := mountFake(t, tree, e, Options{})
	entries, err := os.ReadDir(m.path("d"))
	if err != nil || len(entries) != 300 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for _, entry := range entries {
		if _, err := entry.Info(); err != nil {
			t.Fatal(err)
		}
	}
	if s := m.s.files.sequences.Stats(); s.Announced != 0 || len(e.announced) != 0 {
		t.Errorf("%+v and %d files are announced", s, len(e.announced))
	}
}

// A local origin has no readahead of files.
func TestSequenceLocal(t *testing.T) {
	e, tree := remoteFiles(10)
	e.remote = false
	m := mountFake(t, tree, e, Options{})
	for i := range 10 {
		if _, err := os.ReadFile(m.path(fmt.Sprintf("d/%03d", i))); err != nil {
			t.Error(err)
		}
	}
	if m.s.files.sequences != nil || e.announcers.Load() != 0 {
		t.Error("there is a detector")
	}
}

// A version switch and the end of a mount end the windows, even while they announce.
func TestSequenceEnds(t *testing.T) {
	e, tree := remoteFiles(300)
	e.announced = make(chan codec.FileID) // windows wait
	m := mountFake(t, tree, e, Options{})
	open := func() {
		t.Helper()
		for i := range 3 {
			fd, err := unix.Open(m.path(fmt.Sprintf("d/%03d", i)), unix.O_RDONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			unix.Close(fd)
		}
		<-e.announced
	}
	open()
	if n := e.announcers.Load(); n != 1 {
		t.Errorf("%d windows, want 1", n)
	}
	fo := newFollower(&source{log: m.s.log}, m.s.files)
	fo.swapTree(m.s.files.root, tree)
	open()
	if err := m.s.Shutdown(0); err != nil {
		t.Error(err)
	}
	if n := e.announcers.Load(); n != 0 {
		t.Errorf("%d windows after the end of the mount", n)
	}
}

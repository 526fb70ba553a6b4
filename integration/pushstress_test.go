package integration

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

var pushTime = flag.Duration("push-time", 2*time.Second, "how long TestPushBesideReaders reads beside pushes")

// A pushTree is a tree of small files with two contents of the same size for each file.
type pushTree struct {
	store   string
	folders [2]string // published in turn
	names   []string  // of the files, sorted
	content map[string][2][]byte
}

// layPushTree makes the tree and publishes its first content.
func layPushTree(t *testing.T, dirs, files int) *pushTree {
	t.Helper()
	work := t.TempDir()
	p := &pushTree{store: filepath.Join(work, "store"), content: map[string][2][]byte{}}
	r := rand.New(rand.NewPCG(19, 1))
	for d := range dirs {
		for f := range files {
			name := fmt.Sprintf("%02d/%03d", d, f)
			size := 1 + r.IntN(20_000)
			if r.IntN(10) == 0 {
				size = r.IntN(200_000) // some are too large for pushes, and some are empty
			}
			p.names = append(p.names, name)
			p.content[name] = [2][]byte{harness.Noise(r.Uint64(), size), harness.Noise(r.Uint64(), size)}
		}
	}
	for i := range p.folders {
		p.folders[i] = filepath.Join(work, fmt.Sprint("folder", i))
		for name, content := range p.content {
			harness.WriteFile(t, filepath.Join(p.folders[i], name), content[i])
		}
	}
	harness.Publish(t, p.store, "s", p.folders[0])
	return p
}

// check compares bytes of a file with both contents.
func (p *pushTree) check(name string, got []byte, off int) error {
	for _, content := range p.content[name] {
		if off+len(got) <= len(content) && bytes.Equal(got, content[off:off+len(got)]) {
			return nil
		}
	}
	return fmt.Errorf("%s: %d bytes at %d are of neither version (I1)", name, len(got), off)
}

// readInOrder reads the files of a folder in the order of its listing. It returns an error of the
// mount or of a comparison.
func (p *pushTree) readInOrder(root, dir string) error {
	entries, err := os.ReadDir(filepath.Join(root, dir))
	for i := 0; err == nil && i < len(entries); i++ {
		name := dir + "/" + entries[i].Name()
		var b []byte
		if b, err = os.ReadFile(filepath.Join(root, name)); err == nil {
			if err = p.check(name, b, 0); err == nil && len(b) != len(p.content[name][0]) {
				err = fmt.Errorf("%s: short: %d bytes", name, len(b))
			}
		}
	}
	return err
}

// readPart compares a random part of a file.
func (p *pushTree) readPart(root, name string, r *rand.Rand) error {
	f, err := os.Open(filepath.Join(root, name))
	if err != nil {
		return err
	}
	defer f.Close()
	size := len(p.content[name][0])
	if size == 0 {
		return nil
	}
	off := r.IntN(size)
	b := make([]byte, 1+r.IntN(size-off))
	if _, err := f.ReadAt(b, int64(off)); err != nil {
		return err
	}
	return p.check(name, b, off)
}

// readMapped compares a file through a mapping.
func (p *pushTree) readMapped(root, name string) error {
	size := len(p.content[name][0])
	if size == 0 {
		return nil
	}
	return harness.WithFile(filepath.Join(root, name), func(fd int) error {
		b, err := unix.Mmap(fd, 0, size, unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		defer unix.Munmap(b) //nolint:errcheck // it was mapped
		return p.check(name, b, 0)
	})
}

// find compares the names of the tree.
func (p *pushTree) find(root string) error {
	var names []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(root, path)
			names = append(names, name)
		}
		return err
	})
	if err == nil && !slices.Equal(names, p.names) {
		err = fmt.Errorf("find has %d names, want %d", len(names), len(p.names))
	}
	return err
}

// Beside pushes, version switches and dropped pages, each read has the bytes of one version, and
// each listing has all names.
func TestPushBesideReaders(t *testing.T) {
	t.Parallel()
	p := layPushTree(t, 8, 50)
	m := harness.MountSource(t, p.store, "--follow=100ms", "--memory=64MiB")
	root := m.Path("s")
	end := time.Now().Add(*pushTime)
	var running sync.WaitGroup
	repeat := func(what string, do func(r *rand.Rand) error) {
		running.Go(func() {
			r := rand.New(rand.NewPCG(uint64(len(what)), 7))
			for n := 0; n == 0 || time.Now().Before(end); n++ {
				if err := do(r); err != nil {
					t.Errorf("%s: %v", what, err)
					return
				}
			}
		})
	}
	anyName := func(r *rand.Rand) string { return p.names[r.IntN(len(p.names))] }
	inOrder := func(r *rand.Rand) error { return p.readInOrder(root, fmt.Sprintf("%02d", r.IntN(8))) }
	repeat("in order", inOrder)
	repeat("in order, too", inOrder)
	repeat("parts", func(r *rand.Rand) error { return p.readPart(root, anyName(r), r) })
	repeat("mappings", func(r *rand.Rand) error { return p.readMapped(root, anyName(r)) })
	repeat("find", func(*rand.Rand) error { return p.find(root) })
	repeat("drop", func(r *rand.Rand) error { return harness.TryDropPages(filepath.Join(root, anyName(r))) })
	switches := 0
	for time.Now().Before(end) {
		switches++
		harness.Publish(t, p.store, "s", p.folders[switches%2])
	}
	running.Wait()
	var stats struct {
		Fuse struct {
			Pushed int64 `json:"pushed"`
		} `json:"fuse"`
	}
	if err := json.Unmarshal([]byte(xattr(t, m.Dir, "user.xet.stats")), &stats); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d files were pushed beside %d publishes", stats.Fuse.Pushed, switches)
	m.Quiet()
}

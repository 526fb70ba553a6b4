package sequence

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	iofs "io/fs"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A fakeTree is a tree in memory. The inode number of an entry is a hash of its path.
type fakeTree struct {
	byPath map[string]page.Entry
	byDir  map[string][]page.Entry
}

// newTree returns a tree of files.
func newTree(paths ...string) *fakeTree {
	t := &fakeTree{byPath: map[string]page.Entry{}, byDir: map[string][]page.Entry{}}
	for _, path := range paths {
		e := page.Entry{Path: path, Size: 1000}
		copy(e.ID.File[:], path)
		t.add(e)
	}
	return t
}

// folder returns n paths in a directory.
func folder(dir string, n int) (paths []string) {
	for i := range n {
		paths = append(paths, join(dir, fmt.Sprintf("%03d", i)))
	}
	return paths
}

func (t *fakeTree) add(e page.Entry) {
	dir, _ := split(e.Path)
	if _, ok := t.byPath[dir]; !ok && dir != "" {
		t.add(page.Entry{Path: dir, Type: page.Dir})
	}
	t.byPath[e.Path] = e
	t.byDir[dir] = append(t.byDir[dir], e)
	slices.SortFunc(t.byDir[dir], func(a, b page.Entry) int { return cmp.Compare(a.Path, b.Path) })
}

func (t *fakeTree) Lookup(_ context.Context, path string) (page.Entry, error) {
	if e, ok := t.byPath[path]; ok {
		return e, nil
	}
	return page.Entry{}, iofs.ErrNotExist
}

func (t *fakeTree) List(_ context.Context, dir, after string) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		for _, e := range t.byDir[dir] {
			if e.Path > join(dir, after) && !yield(e, nil) {
				return
			}
		}
	}
}

func (t *fakeTree) Number(e *page.Entry) uint64 {
	sum := sha256.Sum256([]byte(e.Path))
	return binary.LittleEndian.Uint64(sum[:])
}

// numbered returns paths in the order of their inode numbers.
func (t *fakeTree) numbered(paths ...string) []string {
	return slices.SortedFunc(slices.Values(paths), func(a, b string) int {
		return cmp.Compare(t.Number(&page.Entry{Path: a}), t.Number(&page.Entry{Path: b}))
	})
}

// A recorder is the Announcer of all windows of a test.
type recorder struct {
	mu    sync.Mutex
	names []string // of announced files; guarded by mu
	open  int      // windows; guarded by mu
}

func (r *recorder) new() Announcer {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open++
	return r
}

func (r *recorder) Announce(_ context.Context, ids []codec.FileID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		r.names = append(r.names, strings.TrimRight(string(id.File[:]), "\x00"))
	}
}

func (r *recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open--
	return nil
}

// A watchedDetector is a Detector of a test, in a bubble.
type watchedDetector struct {
	*testing.T
	*Detector
	rec  *recorder
	tree *fakeTree
}

// watchTree calls do with a Detector of a tree.
func watchTree(t *testing.T, tree *fakeTree, do func(w watchedDetector)) {
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{}
		d := New(rec.new)
		do(watchedDetector{t, d, rec, tree})
		d.Close()
		if rec.open != 0 {
			t.Errorf("%d windows are left", rec.open)
		}
	})
}

// read opens files one after the other, each when the Detector is at rest.
func (w watchedDetector) read(paths ...string) {
	w.Helper()
	for _, path := range paths {
		e, ok := w.tree.byPath[path]
		if !ok {
			w.Fatalf("no file %s", path)
		}
		w.Opened(w.tree, &e)
		synctest.Wait()
	}
}

// windows returns the number of open windows.
func (w watchedDetector) windows() int {
	w.rec.mu.Lock()
	defer w.rec.mu.Unlock()
	return w.rec.open
}

// Readers in order get all but their first files announced, each once. Others get none.
func TestDetector(t *testing.T) {
	flat, two := folder("d", 300), slices.Concat(folder("a", 100), folder("b", 100))
	deep := slices.Concat(folder("x/a", 8), folder("x/b/c", 5), []string{"x/b/d"}, folder("x/e", 8), []string{"x/f", "x/g"}, folder("y", 20))
	random := slices.Clone(flat)
	dice := rand.New(rand.NewPCG(3, 4))
	dice.Shuffle(len(random), func(i, j int) { random[i], random[j] = random[j], random[i] })
	tests := []struct {
		name   string
		files  []string
		listed bool
		open   func(t *fakeTree) []string
		want   int // announced files that are opened later
		waste  int // most others
	}{
		{"listing", flat, false, func(*fakeTree) []string { return flat }, 297, 0},
		{"listing from the middle", flat, false, func(*fakeTree) []string { return flat[100:] }, 197, 0},
		{"inode numbers", flat, true, func(t *fakeTree) []string { return t.numbered(flat...) }, 297, 0},
		{"inode numbers of an unlisted directory", flat, false, func(t *fakeTree) []string { return t.numbered(flat...) }, 0, 0},
		{"random", flat, true, func(*fakeTree) []string { return random }, 0, 0},
		{"backwards", flat, true, func(*fakeTree) []string { return backwards(flat) }, 0, 0},
		{"each second", flat, true, func(*fakeTree) []string { return eachSecond(flat) }, 0, 0},
		{"two directories", two, false, func(*fakeTree) []string { return interleave(two[:100], two[100:]) }, 194, 0},
		{"two readers of one directory", flat, false, func(*fakeTree) []string { return interleave(flat[:150], flat[150:]) }, 289, 150},
		{"two readers in different orders", flat, true, func(t *fakeTree) []string { return interleave(flat, t.numbered(flat...)) }, 500, 50},
		{"depth-first", deep, false, func(*fakeTree) []string { return deep }, len(deep) - 4, 0},
		{"depth-first, some files", deep, false, func(*fakeTree) []string { return slices.Concat(deep[:10], deep[13:20], deep[24:]) }, len(deep) - 11, 7},
		{"one directory of many", deep, false, func(*fakeTree) []string { return deep[:8] }, 5, 0},
		{"twice the same", flat, false, func(*fakeTree) []string { return interleave(flat, flat) }, 297, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree := newTree(tt.files...)
			watchTree(t, tree, func(w watchedDetector) {
				if tt.listed {
					w.Listed(tree, "d")
				}
				w.read(tt.open(tree)...)
				s := w.Stats()
				if int(s.Opened) < tt.want || int(s.Announced-s.Opened) > tt.waste {
					t.Errorf("%d announced, %d of them opened; want %d and at most %d others", s.Announced, s.Opened, tt.want, tt.waste)
				}
			})
		})
	}
}

func backwards(paths []string) []string {
	paths = slices.Clone(paths)
	slices.Reverse(paths)
	return paths
}

func eachSecond(paths []string) (some []string) {
	for i := 0; i < len(paths); i += 2 {
		some = append(some, paths[i])
	}
	return some
}

func interleave(a, b []string) (both []string) {
	for i := range a {
		both = append(both, a[i], b[i])
	}
	return both
}

// The first window has 4 files. Only files with content outside the tree are fetched.
func TestDetectorAnnounces(t *testing.T) {
	tree := newTree(folder("d", 20)...)
	tree.add(page.Entry{Path: "d/003a", Size: 3, Inline: []byte("abc")})
	tree.add(page.Entry{Path: "d/003b"})
	tree.add(page.Entry{Path: "d/003c", Size: maxFile + 1})
	tree.add(page.Entry{Path: "d/003d", Type: page.Symlink, Target: "003"})
	watchTree(t, tree, func(w watchedDetector) {
		w.read("d/000", "d/001")
		if len(w.rec.names) != 0 {
			t.Errorf("%q are announced after two files", w.rec.names)
		}
		w.read("d/002")
		if want := []string{"d/003", "d/004"}; !slices.Equal(w.rec.names, want) {
			t.Errorf("%q are announced, want %q", w.rec.names, want)
		}
		w.read("d/003", "d/003b", "d/003a", "d/003c")
		if got, want := w.rec.names[len(w.rec.names)-1], "d/010"; got != want {
			t.Errorf("the last one announced is %s, want %s", got, want)
		}
	})
}

// A window closes when the order breaks, when it is idle, with its tree, and for others. The next
// files in order open another one.
func TestDetectorCloses(t *testing.T) {
	var files []string
	for i := range 2 * maxReaders {
		files = append(files, folder(fmt.Sprintf("%02d", i), 100)...)
	}
	tree := newTree(files...)
	tests := []struct {
		name string
		do   func(w watchedDetector)
		want int // windows
	}{
		{"jumps", func(w watchedDetector) { w.read(files[10], files[90], files[50], files[30]) }, 0},
		{"some jumps", func(w watchedDetector) {
			w.read(files[90], files[50], files[3], files[4], files[95], files[80], files[5])
		}, 1},
		{"skipped files", func(w watchedDetector) { w.read(files[5], files[8]) }, 1},
		{"idle", func(w watchedDetector) { time.Sleep(2*idleLimit + time.Second) }, 0},
		{"slow", func(w watchedDetector) {
			for i := range 20 {
				time.Sleep(idleLimit - time.Second)
				w.read(files[3+i])
			}
		}, 1},
		{"another tree", func(w watchedDetector) { w.End(newTree()) }, 1},
		{"its tree", func(w watchedDetector) { w.End(tree) }, 0},
		{"many readers", func(w watchedDetector) {
			for i := 100; i < len(files); i += 100 {
				w.read(files[i : i+3]...)
			}
		}, maxReaders},
		{"restart", func(w watchedDetector) { w.End(tree); w.read(files[50:53]...) }, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			watchTree(t, tree, func(w watchedDetector) {
				w.read(files[:3]...)
				if n := w.windows(); n != 1 {
					t.Fatalf("%d windows after three files", n)
				}
				tt.do(w)
				synctest.Wait()
				if n := w.windows(); n != tt.want {
					t.Errorf("%d windows, want %d", n, tt.want)
				}
			})
		})
	}
}

// The nil Detector and a closed one do nothing.
func TestDetectorEnded(t *testing.T) {
	tree := newTree(folder("d", 10)...)
	watchTree(t, tree, func(w watchedDetector) {
		w.Close()
		w.read(folder("d", 10)...)
		w.Detector = nil
		w.Listed(tree, "d")
		w.read(folder("d", 10)...)
		w.End(tree)
		w.Close()
		if s := w.Stats(); s != (Stats{}) || len(w.rec.names) != 0 {
			t.Errorf("%+v, %q are announced", s, w.rec.names)
		}
	})
}

// A panicTree is a tree with a defect.
type panicTree struct{ *fakeTree }

func (panicTree) List(context.Context, string, string) iter.Seq2[page.Entry, error] { panic("defect") }

// A defect in the code of a tree ends a walk, not the process.
func TestWalkSurvivesPanic(t *testing.T) {
	for _, o := range []order{byName, byNumber} {
		w := newWalk(panicTree{}, o, "dir/a")
		if files, err := w.next(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "defect") {
			t.Errorf("next = %v, %v", files, err)
		}
		if w.follows(t.Context(), "dir/b") {
			t.Error("the walk continues after a panic")
		}
	}
}

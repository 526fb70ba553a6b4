package sequence

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/xetfs/xetfs/codec/page"
)

// A pageCache is a kernel with the content of pushed files. It requests the other files.
type pageCache struct {
	*testing.T
	*Detector
	tree *fakeTree

	mu     sync.Mutex
	cached map[string]bool // guarded by mu
	pushed []string        // guarded by mu
	read   []string        // requested files
}

// withPages calls do with a Detector that pushes to a pageCache.
func withPages(t *testing.T, tree *fakeTree, do func(p *pageCache)) {
	synctest.Test(t, func(t *testing.T) {
		p := &pageCache{T: t, tree: tree, cached: map[string]bool{}}
		p.Detector = NewPushing(p.push)
		defer p.Close()
		do(p)
	})
}

func (p *pageCache) push(_ context.Context, _ Tree, e *page.Entry, isAhead func() bool) bool {
	if !isAhead() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cached[e.Path], p.pushed = true, append(p.pushed, e.Path)
	return true
}

func (p *pageCache) drop() { clear(p.cached) }

// open reads files one after the other, each when all pushes are done.
func (p *pageCache) open(paths ...string) {
	p.Helper()
	for _, path := range paths {
		e, ok := p.tree.byPath[path]
		if !ok {
			p.Fatalf("no file %s", path)
		}
		if p.cached[path] {
			continue
		}
		p.read = append(p.read, path)
		p.Read(p.tree, &e)
		synctest.Wait()
		if !p.Settled() {
			p.Error("the Detector is not at rest")
		}
	}
}

// Readers in order request few files. Others get nothing pushed.
func TestPush(t *testing.T) {
	flat := folder("d", 1000)
	var folders []string
	for i := range 100 {
		folders = append(folders, folder(fmt.Sprintf("x/%02d", i), 9)...)
	}
	tests := []struct {
		name   string
		files  []string
		read   func(t *fakeTree) []string
		most   int // requests
		pushed int // most files
	}{
		{"listing", flat, func(*fakeTree) []string { return flat }, 1000 / 16, 1000},
		{"inode numbers", flat, func(t *fakeTree) []string { return t.numbered(flat...) }, 1000 / 16, 1000},
		{"small directories", folders, func(*fakeTree) []string { return folders }, 100*2 + 5, 900},
		{"random", flat, func(t *fakeTree) []string { return eachSecond(t.numbered(flat...)) }, 500, 0},
		{"backwards", flat, func(*fakeTree) []string { return backwards(flat) }, 1000, 0},
		{"each second", flat, func(*fakeTree) []string { return eachSecond(flat) }, 500, 0},
		{"first files", folders, func(*fakeTree) (some []string) {
			for i := 0; i < len(folders); i += 9 {
				some = append(some, folders[i])
			}
			return append(folders[:5:5], some[1:]...)
		}, 104, 11},
		{"three files", flat[:3], func(*fakeTree) []string { return flat[:3] }, 3, 0},
		{"two readers", flat, func(*fakeTree) []string { return interleave(flat[:500], flat[500:]) }, 1000 / 10, 1000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree := newTree(tt.files...)
			withPages(t, tree, func(p *pageCache) {
				p.Listed(tree, "d")
				p.open(tt.read(tree)...)
				if len(p.read) > tt.most || len(p.pushed) > tt.pushed {
					t.Errorf("%d requests and %d pushes, want at most %d and %d", len(p.read), len(p.pushed), tt.most, tt.pushed)
				}
				if s := p.Stats(); s != (Stats{}) {
					t.Errorf("%+v is announced", s)
				}
			})
		})
	}
}

// A window has 4 files at first and at most 128. It leaves a file to the reader, and one more behind it.
// The window grows when that file is read.
func TestPushWindows(t *testing.T) {
	tree := newTree(folder("d", 600)...)
	withPages(t, tree, func(p *pageCache) {
		p.open(folder("d", 600)...)
		want := []string{"000", "001"}
		for at, size := 2, 4; at < 600; size = min(2*size, 128) {
			for _, i := range []int{at, at + 1 + size} {
				want = append(want, fmt.Sprintf("%03d", i))
			}
			at += 2 + size
		}
		if got := strings.ReplaceAll(strings.Join(p.read, " "), "d/", ""); !strings.HasPrefix(strings.Join(want, " "), got) {
			t.Errorf("requests are %s, want %s", got, strings.Join(want, " "))
		}
	})
}

// Large files are left to the readahead of the kernel, and a window has at most 4 MiB.
func TestPushSizes(t *testing.T) {
	tree := newTree()
	for i := range 300 {
		tree.add(page.Entry{Path: fmt.Sprintf("d/%03d", i), Size: MaxPush - 1000 + int64(i/100)*1000})
	}
	withPages(t, tree, func(p *pageCache) {
		p.open(folder("d", 300)...)
		if last := p.pushed[len(p.pushed)-1]; last >= "d/200" {
			t.Errorf("file %s is larger than MaxPush, and pushed", last)
		}
		run := 0
		for _, path := range folder("d", 200) {
			if run++; slices.Contains(p.read, path) {
				run = 0
			}
			if int64(run)*MaxPush > maxPushBytes+MaxPush {
				t.Fatalf("%d files before %s are pushed at once", run, path)
			}
		}
	})
}

// A window closes when a pushed file is requested, when the order breaks, and with its tree.
func TestPushCloses(t *testing.T) {
	files := folder("d", 200)
	tests := []struct {
		name string
		do   func(p *pageCache)
	}{
		{"pushed in vain", func(p *pageCache) { p.drop(); p.open(files[19]) }},
		{"jumps", func(p *pageCache) { p.drop(); p.open(files[190], files[150], files[199], files[120]) }},
		{"its tree", func(p *pageCache) { p.End(p.tree) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			withPages(t, newTree(files...), func(p *pageCache) {
				p.open(files[:18]...)
				if len(p.readers) != 1 || !p.cached[files[19]] {
					t.Fatalf("%d windows, pushed are %q", len(p.readers), p.pushed)
				}
				tt.do(p)
				if len(p.readers) != 0 {
					t.Errorf("%d windows are left", len(p.readers))
				}
			})
		})
	}
}

// A reader that is faster than the pushes is left alone: no file is pushed that it reads.
func TestPushBehindReader(t *testing.T) {
	tree := newTree(folder("d", 100)...)
	withPages(t, tree, func(p *pageCache) {
		begun, finish := make(chan bool), make(chan bool)
		p.Detector.push = func(ctx context.Context, t Tree, e *page.Entry, isAhead func() bool) bool {
			if e.Path == "d/003" {
				begun <- true
				<-finish
			}
			return p.push(ctx, t, e, isAhead)
		}
		for _, path := range folder("d", 2) {
			e := tree.byPath[path]
			p.Read(tree, &e)
		}
		<-begun // of 003 to 006
		for _, path := range []string{"d/002", "d/003", "d/004"} {
			e := tree.byPath[path]
			p.Read(tree, &e)
		}
		finish <- true
		synctest.Wait()
		if slices.Contains(p.pushed, "d/003") || slices.Contains(p.pushed, "d/004") || slices.Contains(p.pushed, "d/005") {
			t.Errorf("after a read of d/004 files %q are pushed", p.pushed)
		}
		if len(p.readers) != 1 {
			t.Error("the window is closed, because a push was late")
		}
	})
}

// A read does not wait for the lock. The latest one that found it taken is recorded afterwards.
func TestPushMissedRead(t *testing.T) {
	tree := newTree(folder("d", 20)...)
	withPages(t, tree, func(p *pageCache) {
		p.open("d/000")
		p.Detector.mu.Lock()
		for _, path := range []string{"d/010", "d/001"} {
			e := tree.byPath[path]
			p.Read(tree, &e)
		}
		p.Detector.mu.Unlock()
		p.Settled() // takes the lock
		synctest.Wait()
		if !p.cached["d/003"] {
			t.Errorf("after reads of 000 and 001 files %q are pushed", p.pushed)
		}
	})
}

// A countingTree counts the comparisons with it.
type countingTree struct {
	*fakeTree
	lists atomic.Int64
}

func (t *countingTree) List(ctx context.Context, dir, after string) iter.Seq2[page.Entry, error] {
	t.lists.Add(1)
	return t.fakeTree.List(ctx, dir, after)
}

// A program that reads files of many directories in random order costs few comparisons. The next files in
// order are pushed.
func TestRandomOrderIsRarelyCompared(t *testing.T) {
	var files []string
	for i := range 2 * maxDirs {
		files = append(files, folder(fmt.Sprintf("%03d", i), 30)...)
	}
	random := slices.Clone(files)
	dice := rand.New(rand.NewPCG(1, 2))
	dice.Shuffle(len(random), func(i, j int) { random[i], random[j] = random[j], random[i] })
	tree := &countingTree{fakeTree: newTree(files...)}
	withPages(t, tree.fakeTree, func(p *pageCache) {
		read := func(paths ...string) {
			for _, path := range paths {
				e := tree.byPath[path]
				p.Read(tree, &e)
				synctest.Wait()
			}
		}
		read(random...)
		if n := tree.lists.Load(); n > int64(len(files)/30) {
			t.Errorf("%d comparisons of %d files in random order", n, len(files))
		}
		p.pushed = nil
		p.Listed(tree, "000")
		read(interleave(files[:30], random[:30])...)
		if len(p.pushed) < 20 {
			t.Errorf("%d files of a listed directory are pushed meanwhile", len(p.pushed))
		}
		p.pushed = nil
		read(files[30 : 2*maxSkipOpens]...)
		if len(p.pushed) == 0 {
			t.Error("no file is pushed afterwards")
		}
	})
}

package integration

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// checkCatalog is `xetfs catalog check`, and fails the test if it finds anything.
func checkCatalog(t testing.TB, store string, flags ...string) {
	t.Helper()
	harness.Run(t, "", harness.Program(t), append([]string{"catalog", "check", store}, flags...)...)
}

// A treeList is what a tree holds: a line for each path, with all that must be the same.
type treeList []string

// listTree lists a tree: type, mode, time, target and SHA-256 of everything in it.
func listTree(t testing.TB, root string) treeList {
	t.Helper()
	var list treeList
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%q %v %d", rel, info.Mode(), info.ModTime().UnixNano())
		switch {
		case d.Type().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %d %x", info.Size(), sha256.Sum256(b))
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " -> " + target
		}
		list = append(list, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// same fails the test with what is not the same.
func (l treeList) same(t testing.TB, what string, got treeList) {
	t.Helper()
	if slices.Equal(l, got) {
		return
	}
	want, have := map[string]bool{}, map[string]bool{}
	for _, line := range l {
		want[line] = true
	}
	for _, line := range got {
		have[line] = true
	}
	shown := 0
	show := func(sign string, list treeList, other map[string]bool) {
		for _, line := range list {
			if !other[line] && shown < 20 {
				t.Errorf("%s: %s %s", what, sign, line)
				shown++
			}
		}
	}
	show("missing", l, have)
	show("surplus", got, want)
	if shown == 0 {
		t.Errorf("%s: the order differs", what)
	}
}

// An editor changes a tree as people do: the same changes for the same seed.
type editor struct {
	t    testing.TB
	root string
	rng  *rand.Rand
}

func newEditor(t testing.TB, root string, seed uint64) *editor {
	return &editor{t, root, rand.New(rand.NewPCG(seed, 5))}
}

// files returns the paths of the regular files, but for those of git.
func (e *editor) files() (paths []string) {
	e.t.Helper()
	err := filepath.WalkDir(e.root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == ".git":
			return fs.SkipDir
		case d.Type().IsRegular():
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		e.t.Fatal(err)
	}
	return paths
}

// edit makes n changes, each of another kind than the last.
func (e *editor) edit(n int) {
	e.t.Helper()
	files := e.files()
	for i := range n {
		path := files[e.rng.IntN(len(files))]
		if _, err := os.Lstat(path); err != nil {
			continue // an earlier change removed it
		}
		e.check(e.change(i%7, path))
	}
}

func (e *editor) change(kind int, path string) error {
	switch kind {
	case 0: // a line in the middle
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		at := e.rng.IntN(len(b) + 1)
		return os.WriteFile(path, slices.Concat(b[:at], fmt.Appendf(nil, "// edit %d\n", e.rng.Uint32()), b[at:]), 0o644)
	case 1:
		return os.Remove(path)
	case 2:
		return os.Chmod(path, []fs.FileMode{0o600, 0o755, 0o444, 0o640}[e.rng.IntN(4)])
	case 3:
		at := time.Unix(1_600_000_000+e.rng.Int64N(1e8), e.rng.Int64N(1e9))
		return os.Chtimes(path, at, at)
	case 4:
		dir := filepath.Join(filepath.Dir(path), fmt.Sprintf("new-%d", e.rng.Uint32()))
		if err := os.Mkdir(dir, 0o750); err != nil {
			return err
		}
		return os.Rename(path, filepath.Join(dir, filepath.Base(path)))
	case 5:
		return os.Symlink(filepath.Base(path), fmt.Sprintf("%s.link-%d", path, e.rng.Uint32()))
	}
	return os.WriteFile(fmt.Sprintf("%s.more-%d", path, e.rng.Uint32()), harness.Noise(e.rng.Uint64(), e.rng.IntN(50_000)), 0o644)
}

func (e *editor) check(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// goSources copies some of the sources of Go's standard library.
func goSources(t testing.TB, dir string, packages ...string) {
	t.Helper()
	src := filepath.Join(strings.TrimSpace(harness.Run(t, "", "go", "env", "GOROOT")), "src")
	for _, p := range packages {
		harness.Run(t, "", "cp", "-r", "--preserve=timestamps", "--no-preserve=mode", filepath.Join(src, p), dir)
	}
}

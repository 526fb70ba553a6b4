package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// A Vector is one file of a set of test vectors.
type Vector struct {
	Hash   string // Xet hash: its name
	Size   int64
	SHA256 string
	Lost   bool // a xorb of it is not in the set
}

// A VectorSet is a folder of shards and xorbs that others wrote, and what they say is in
// it.
type VectorSet struct {
	Name  string
	Dir   string
	Files []Vector // one for each Xet hash, sorted
}

// vectorSets are the sets that can be had. The sample in the repository always can.
func vectorSets(t testing.TB) []VectorSet {
	t.Helper()
	sets := []VectorSet{demoSet(t)}
	if os.Getenv("XETFS_VECTORS") != "" {
		sets = append(sets, coreSet(t), jsSet(t))
	}
	return sets
}

// demoSet is the sample of `make demo`. Its list has SHA-256 and path in the mount.
func demoSet(t testing.TB) VectorSet {
	t.Helper()
	dir := filepath.Join("testdata", "demo")
	f, err := os.Open(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var files []Vector
	for lines := bufio.NewScanner(f); lines.Scan(); {
		sum, path, ok := strings.Cut(lines.Text(), "  ")
		if !ok {
			t.Fatalf("%s: line %q", f.Name(), lines.Text())
		}
		files = append(files, Vector{Hash: filepath.Base(path), Size: -1, SHA256: sum})
	}
	return newSet("demo", filepath.Join(dir, "store"), files)
}

func coreSet(t testing.TB) VectorSet {
	t.Helper()
	var m struct {
		Files map[string]struct {
			Size   int64
			SHA256 string
		}
	}
	dir := harness.Vectors(t, "core")
	readJSON(t, filepath.Join(dir, "manifest.json"), &m)
	var files []Vector
	for hash, f := range m.Files {
		files = append(files, Vector{Hash: hash, Size: f.Size, SHA256: f.SHA256})
	}
	return newSet("core", dir, files)
}

func jsSet(t testing.TB) VectorSet {
	t.Helper()
	var m struct {
		Xorbs []struct {
			Hash string
			File *string
		}
		Files []struct {
			Hash   string `json:"xet_hash"`
			Size   int64
			SHA256 string
			Terms  []struct{ Xorb string }
		}
	}
	dir := harness.Vectors(t, "js")
	readJSON(t, filepath.Join(dir, "manifest.json"), &m)
	stored := map[string]bool{}
	for _, x := range m.Xorbs {
		stored[x.Hash] = stored[x.Hash] || x.File != nil
	}
	var files []Vector
	for _, f := range m.Files {
		v := Vector{Hash: f.Hash, Size: f.Size, SHA256: f.SHA256}
		for _, term := range f.Terms {
			v.Lost = v.Lost || !stored[term.Xorb]
		}
		files = append(files, v)
	}
	return newSet("js", dir, files)
}

// newSet sorts files and leaves one of each hash. A file that can be had one way is not
// lost, even if it can't another.
func newSet(name, dir string, files []Vector) VectorSet {
	slices.SortFunc(files, func(a, b Vector) int {
		if a.Hash == b.Hash && a.Lost != b.Lost {
			if b.Lost {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Hash, b.Hash)
	})
	files = slices.CompactFunc(files, func(a, b Vector) bool { return a.Hash == b.Hash })
	return VectorSet{Name: name, Dir: dir, Files: files}
}

// good is the files that can be read.
func (s VectorSet) good() []Vector {
	return slices.DeleteFunc(slices.Clone(s.Files), func(v Vector) bool { return v.Lost })
}

func readJSON(t testing.TB, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// Every file of every set has its size and its SHA-256 by sha256sum, also beside malformed inputs.
// Only lost data is EIO.
func TestVectors(t *testing.T) {
	t.Parallel() // it mostly waits
	for _, set := range vectorSets(t) {
		t.Run(set.Name, func(t *testing.T) {
			m := harness.MountSource(t, set.Dir)
			t.Run("by-hash", func(t *testing.T) { checkByHash(t, m, set) })
			t.Run("lost", func(t *testing.T) { checkLost(t, m, set) })
			t.Run("by-sha256", func(t *testing.T) { checkBySHA256(t, m, set) })
			t.Run("shards", func(t *testing.T) { checkShards(t, m) })
			t.Run("random ranges", func(t *testing.T) { checkRandom(t, m, set) })
			t.Run("32 readers", func(t *testing.T) { checkConcurrentReaders(t, m, set) })
		})
	}
}

func checkByHash(t *testing.T, m *harness.Mount, set VectorSet) {
	var list bytes.Buffer
	for _, v := range set.good() {
		info, err := os.Stat(m.Path("by-hash", v.Hash))
		if err != nil {
			t.Error(err)
			continue
		}
		if v.Size >= 0 && info.Size() != v.Size {
			t.Errorf("%s: size is %d, want %d", v.Hash, info.Size(), v.Size)
		}
		fmt.Fprintf(&list, "%s  %s\n", v.SHA256, v.Hash)
	}
	checkSums(t, m.Path("by-hash"), &list)
}

// checkSums lets sha256sum read every file of a list.
func checkSums(t *testing.T, dir string, list io.Reader) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, harness.NeedTool(t, "sha256sum"), "--check", "--quiet", "-")
	cmd.Dir, cmd.Stdin, cmd.WaitDelay = dir, list, harness.Patience
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("sha256sum in %s: %v\n%s", dir, err, harness.Tail(string(out), 4000))
	}
}

func checkLost(t *testing.T, m *harness.Mount, set VectorSet) {
	for _, v := range set.Files {
		if !v.Lost {
			continue
		}
		var err error
		within(t, v.Hash, func() { _, err = os.ReadFile(m.Path("by-hash", v.Hash)) })
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: a xorb is not stored, and reading says %v, want EIO", v.Hash, err)
		}
		if lines := m.Log.After(func(l harness.Line) bool { return strings.Contains(l.Text("file"), v.Hash) }); len(lines) == 0 {
			t.Errorf("%s: EIO without a line in the log", v.Hash)
		}
	}
}

// The same file is found under its SHA-256 wherever a shard has it, with the same
// attributes.
func checkBySHA256(t *testing.T, m *harness.Mount, set VectorSet) {
	same := map[string][]Vector{} // cut into chunks another way, a file has another hash
	for _, v := range set.Files {
		same[v.SHA256] = append(same[v.SHA256], v)
	}
	entries, err := os.ReadDir(m.Path("by-sha256"))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) == 0 {
		t.Error("no file of the set is known by its SHA-256")
	}
	var list bytes.Buffer
	for _, e := range entries {
		files := same[e.Name()]
		if len(files) == 0 {
			continue // a malformed shard may say anything
		}
		hash := xattr(t, m.Path("by-sha256", e.Name()), "user.xet.hash")
		i := slices.IndexFunc(files, func(v Vector) bool { return v.Hash == hash })
		if i < 0 {
			t.Errorf("by-sha256/%s is file %s, want one of %v", e.Name(), hash, files)
		} else if !files[i].Lost {
			fmt.Fprintf(&list, "%s  %s\n", e.Name(), e.Name())
		}
	}
	checkSums(t, m.Path("by-sha256"), &list)
}

// Every file below shards is one of by-hash, and the other way round.
func checkShards(t *testing.T, m *harness.Mount) {
	all := namesIn(t, m.Path("by-hash"))
	var seen []string
	for _, shard := range namesIn(t, m.Path("shards")) {
		for _, file := range namesIn(t, m.Path("shards", shard)) {
			seen = append(seen, file)
			if _, found := slices.BinarySearch(all, file); !found {
				t.Errorf("shards/%s/%s is not in by-hash", shard, file)
			}
		}
	}
	slices.Sort(seen)
	if seen = slices.Compact(seen); !slices.Equal(seen, all) {
		t.Errorf("shards have %d different files, by-hash has %d", len(seen), len(all))
	}
}

func namesIn(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return names
}

func checkRandom(t *testing.T, m *harness.Mount, set VectorSet) {
	for i, v := range set.good() {
		path := m.Path("by-hash", v.Hash)
		r := openReader(t, path, readWhole(t, path, v.SHA256))
		if err := r.ReadRandom(uint64(i), 20, 200_000); err != nil {
			t.Error(err)
		}
		r.f.Close()
	}
}

// 32 readers of the biggest files, each in its own order, on a mount that has seen
// nothing yet.
func checkConcurrentReaders(t *testing.T, m *harness.Mount, set VectorSet) {
	files := set.good()
	slices.SortStableFunc(files, func(a, b Vector) int { return int(b.Size - a.Size) })
	files = files[:min(len(files), 16)]
	var wants []*bytes.Reader
	for _, v := range files {
		wants = append(wants, readWhole(t, m.Path("by-hash", v.Hash), v.SHA256))
	}
	fresh := harness.MountSource(t, set.Dir)
	harness.Parallel(32, func(i int) {
		v := files[i%len(files)]
		r := openReader(t, fresh.Path("by-hash", v.Hash), wants[i%len(files)])
		sum, err := r.ReadAll(4097 + i*8191)
		if err != nil || fmt.Sprintf("%x", sum) != v.SHA256 {
			t.Errorf("reader %d of %s: %x, %v, want %s", i, v.Hash, sum, err, v.SHA256)
		}
		if err := r.ReadRandom(uint64(i), 50, 300_000); err != nil {
			t.Errorf("reader %d of %s: %v", i, v.Hash, err)
		}
	})
}

// xattr returns an extended attribute.
func xattr(t testing.TB, path, name string) string {
	t.Helper()
	p := make([]byte, 64<<10)
	n, err := syscall.Getxattr(path, name, p)
	if err != nil {
		t.Fatalf("%s: %s: %v", path, name, err)
	}
	return string(p[:n])
}

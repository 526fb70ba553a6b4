package integration

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// Packing that takes minutes and gigabytes; `make soak` runs it.
var (
	packLarge = flag.Bool("pack-large", false, "pack a file of 5 GiB and 200,000 small ones")
	packKills = flag.Int("pack-kills", 8, "how often a pack is killed")
)

// A Packed is one file as `xetfs pack --list --json` shows it.
type Packed struct {
	Path   string
	Size   int64
	Hash   string
	SHA256 string
}

// A PackSummary is what `xetfs pack --json` prints.
type PackSummary struct {
	List          []Packed
	Files, Bytes  int64
	NewChunks     int64 `json:"new_chunks"`
	NewBytes      int64 `json:"new_bytes"`
	PackedBytes   int64 `json:"packed_bytes"`
	Xorbs, Shards int64
	Seconds       float64
	Stages        map[string]float64
	peak          int64         // resident, in bytes
	cpu           time.Duration // of the process
}

// pack packs folders into a store.
func pack(t testing.TB, store string, args ...string) PackSummary {
	t.Helper()
	cmd := exec.Command(harness.Program(t), append([]string{"pack", "--json", "--list", store}, args...)...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var s PackSummary
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if err := watchPeak(cmd.Process.Pid, ended, &s.peak); err != nil {
		t.Fatalf("pack: %v\n%s", err, harness.Tail(errOut.String(), 4000))
	}
	if err := json.Unmarshal(out.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	s.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return s
}

// watchPeak waits for a process and samples its peak resident memory. (The figure of the kernel
// includes the process that forked it.)
func watchPeak(pid int, ended <-chan error, peak *int64) error {
	for {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
			_, rest, _ := strings.Cut(string(b), "VmHWM:")
			var kib int64
			if n, _ := fmt.Sscanf(rest, "%d", &kib); n == 1 {
				*peak = max(*peak, kib<<10)
			}
		}
		select {
		case err := <-ended:
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// verify fails the test if `xetfs verify` finds something.
func verify(t testing.TB, store string) {
	t.Helper()
	if out, err := exec.Command(harness.Program(t), "verify", store).CombinedOutput(); err != nil {
		t.Fatalf("verify: %v\n%s\nthere is\n%s", err, harness.Tail(string(out), 4000), harness.Run(t, "", "find", store, "-ls"))
	}
}

// A corpus is files to pack.
type corpus struct {
	name string
	make func(t *testing.T, dir string)
}

var corpora = []corpus{
	{"source tree", func(t *testing.T, dir string) {
		copyTree(t, filepath.Join(strings.TrimSpace(harness.Run(t, "", "go", "env", "GOROOT")), "src", "net"), dir)
	}},
	{"programs", func(t *testing.T, dir string) {
		for _, name := range []string{"git", "bash", "python3"} {
			if path, err := exec.LookPath(name); err == nil {
				copyFile(t, path, filepath.Join(dir, name))
			}
		}
	}},
	{"weights", func(t *testing.T, dir string) {
		harness.Run(t, dir, harness.ScientificPython(t), "-c", weights)
	}},
	{"database", func(t *testing.T, dir string) {
		harness.Run(t, dir, harness.NeedTool(t, "sqlite3"), "people.db", `create table people(id integer primary key, name text, score real);
			with recursive n(i) as (select 1 union all select i+1 from n where i < 100000)
			insert into people select i, 'name-' || (i * 7919 % 100000), i / 3.0 from n;
			create index by_name on people(name);`)
	}},
	{"odd sizes", func(t *testing.T, dir string) {
		for _, n := range []int{0, 1, 8191, 8192, 8193, 131_071, 131_072, 131_073, 1_000_000} {
			harness.WriteFile(t, filepath.Join(dir, fmt.Sprint("text-", n)), text(t, uint64(n), n))
			harness.WriteFile(t, filepath.Join(dir, fmt.Sprint("noise-", n)), harness.Noise(uint64(n), n))
		}
	}},
	{"sparse", func(t *testing.T, dir string) {
		f, err := os.Create(filepath.Join(dir, "sparse"))
		if err == nil {
			err = errors.Join(f.Truncate(40<<20), second(f.WriteAt(harness.Noise(1, 300_000), 20<<20+12_345)), f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}},
	{"many small files", func(t *testing.T, dir string) { smallFiles(t, dir, 2000) }},
	{"odd names", func(t *testing.T, dir string) {
		for _, name := range []string{"a\nb", "\x1b[2J", "ä", strings.Repeat("n", 255), " ", "-rf"} {
			harness.WriteFile(t, filepath.Join(dir, name), []byte(name))
		}
	}},
}

// weights writes tensors as models have them.
const weights = `
import numpy, safetensors.numpy
r = numpy.random.default_rng(1)
normal = lambda n: r.standard_normal(n, dtype=numpy.float32) * 0.02
safetensors.numpy.save_file({f"l{i}.w": normal((512, 1024)) for i in range(8)}, "f32.safetensors")
safetensors.numpy.save_file({f"l{i}.w": normal((512, 1024)).astype(numpy.float16) for i in range(8)}, "f16.safetensors")
bf16 = lambda a: (a.view(numpy.uint32) >> 16).astype(numpy.uint16)
safetensors.numpy.save_file({f"l{i}.w": bf16(normal((512, 1024))) for i in range(8)}, "bf16.safetensors")
`

func second[T any](_ T, err error) error { return err }

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	harness.WriteFile(t, to, b)
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(filepath.Join(to, filepath.Base(from)), os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// smallFiles writes files of about 1 KiB, a hundred a folder.
func smallFiles(t testing.TB, dir string, n int) {
	t.Helper()
	for i := range n {
		folder := filepath.Join(dir, strconv.Itoa(i/100))
		if i%100 == 0 {
			if err := os.MkdirAll(folder, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		harness.WriteFile(t, filepath.Join(folder, strconv.Itoa(i)), harness.Noise(uint64(i), 1000+i%50))
	}
}

// Everything that is packed appears in a mount, byte by byte, and verify agrees.
func TestPackMountCompare(t *testing.T) {
	t.Parallel()
	for _, k := range corpora {
		t.Run(k.name, func(t *testing.T) {
			in, store := t.TempDir(), filepath.Join(t.TempDir(), "store")
			k.make(t, in)
			s := pack(t, store, in)
			verify(t, store)
			if n := regularFiles(t, in); s.Files != n || int64(len(s.List)) != n {
				t.Errorf("%d files are packed, %d are listed, there are %d", s.Files, len(s.List), n)
			}
			compare(t, harness.MountSource(t, store), s.List)
			if again := pack(t, store, in); again.NewChunks != 0 || again.Xorbs+again.Shards != 0 {
				t.Errorf("once more: %d new chunks, %d xorbs, %d shards", again.NewChunks, again.Xorbs, again.Shards)
			}
		})
	}
}

func regularFiles(t *testing.T, dir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// compare compares packed files with what a mount shows.
func compare(t *testing.T, m *harness.Mount, files []Packed) {
	t.Helper()
	for _, f := range files {
		for _, path := range []string{f.Path, m.Path("by-hash", f.Hash)} {
			if sum, err := sumFile(path); err != nil || sum != f.SHA256 {
				t.Errorf("%q: SHA-256 %s, listed is %s (%v)", path, sum, f.SHA256, err)
			}
		}
	}
}

func sumFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return fmt.Sprintf("%x", h.Sum(nil)), err
}

// O30: a pack that is killed at any moment leaves a sound store, and the next pack completes it.
// Runs are killed at random moments. Each run continues after the last one, and some begin with a
// new store.
func TestO30_PackKilled(t *testing.T) {
	t.Parallel()
	in := t.TempDir()
	rng := rand.New(rand.NewPCG(30, 0))
	for i := range 4 {
		harness.WriteFile(t, filepath.Join(in, fmt.Sprint("large-", i)), slices.Concat(harness.Noise(uint64(i), 24<<20), text(t, uint64(i), 4<<20)))
	}
	smallFiles(t, in, 500)
	whole := filepath.Join(t.TempDir(), "store")
	want := pack(t, whole, in)
	length := time.Duration(want.Seconds * float64(time.Second))
	store := filepath.Join(t.TempDir(), "store")
	killed := 0
	for killed < *packKills {
		if rng.IntN(4) == 0 {
			if err := os.RemoveAll(store); err != nil {
				t.Fatal(err)
			}
		}
		if killPack(t, time.Duration(rng.Int64N(int64(length)+1)), store, in) {
			killed++
		} else if err := os.RemoveAll(store); err != nil { // it was complete before
			t.Fatal(err)
		}
		if objects, err := filepath.Glob(filepath.Join(store, "tdata/*/*/*")); err != nil {
			t.Fatal(err)
		} else if len(objects) > 0 {
			verify(t, store)
		}
	}
	got := pack(t, store, in)
	verify(t, store)
	if !slices.Equal(got.List, want.List) {
		t.Errorf("in the end %d files are listed, want the same %d", len(got.List), len(want.List))
	}
	compare(t, harness.MountSource(t, store), got.List)
}

// killPack starts a pack and kills it after some time. It reports whether the pack was still
// running.
func killPack(t *testing.T, after time.Duration, store, in string) bool {
	t.Helper()
	cmd := exec.Command(harness.Program(t), "pack", store, in)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(after)
	if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	return cmd.Wait() != nil
}

// Memory stays below 512 MiB, whatever is packed.
func TestPackMemory(t *testing.T) {
	if !*packLarge {
		t.Skip("takes minutes; -pack-large")
	}
	tests := []struct {
		name string
		make func(t *testing.T, dir string)
	}{
		{"a sparse file of 5 GiB", func(t *testing.T, dir string) {
			path := filepath.Join(dir, "sparse")
			harness.WriteFile(t, path, harness.Noise(1, 1_000_000))
			if err := os.Truncate(path, 5<<30); err != nil {
				t.Fatal(err)
			}
		}},
		{"200,000 files of 1 KiB", func(t *testing.T, dir string) { smallFiles(t, dir, 200_000) }},
		{"2 GiB of noise", func(t *testing.T, dir string) {
			for i := range 8 {
				harness.WriteFile(t, filepath.Join(dir, fmt.Sprint(i)), harness.Noise(uint64(i), 256<<20))
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in, store := t.TempDir(), filepath.Join(t.TempDir(), "store")
			tt.make(t, in)
			for _, what := range []string{"new", "stored"} {
				s := pack(t, store, in)
				t.Logf("%s: %d files, %d MB in %.1f s (%.0f MB/s), CPU %.1f s per GB, peak %d MiB, %d xorbs, %d shards, %d MB packed, stages %v",
					what, s.Files, s.Bytes/1e6, s.Seconds, float64(s.Bytes)/1e6/s.Seconds,
					s.cpu.Seconds()/(float64(s.Bytes)/1e9), s.peak>>20, s.Xorbs, s.Shards, s.PackedBytes/1e6, s.Stages)
				if s.peak > 512<<20 {
					t.Errorf("%s: %d MiB are resident at the peak, want at most 512", what, s.peak>>20)
				}
			}
			verify(t, store)
			compare(t, harness.MountSource(t, store), pack(t, store, in).List[:1])
		})
	}
}

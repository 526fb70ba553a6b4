package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// Tests of the disk cache that take minutes; `make soak` runs them.
var (
	cacheKills    = flag.Int("cache-kills", 6, "how often a mount with a disk cache is killed")
	cachePatience = flag.Bool("cache-patience", false, "wait until a disk cache uses its disk again: 30 seconds where it was full, two minutes where it failed")
)

// leastDisk is the smallest disk cache. Its segments are of 1 MiB.
const leastDisk = "--cache-size=16MiB"

// A RemoteFiles is some files whose content is known, and the server that has them.
type RemoteFiles struct {
	*harness.RemoteServer
	dir     string
	files   []harness.Stored
	content [][]byte
}

// serveNoise serves n files of size bytes that do not shrink. Others with another seed
// share no chunk with them.
func serveNoise(t testing.TB, seed uint64, n, size int, flags ...string) *RemoteFiles {
	t.Helper()
	f := &RemoteFiles{dir: t.TempDir()}
	for i := range n {
		f.content = append(f.content, harness.Noise(seed+uint64(i), size))
	}
	_, f.files = harness.StoreFiles(t, f.dir, harness.StoreOptions{}, xorb.None, f.content...)
	f.RemoteServer = harness.ServeRemote(t, f.dir, flags...)
	return f
}

// read reads file i of a mount, past what the kernel has of it, and fails the test if one
// byte is not right.
func (f *RemoteFiles) read(t testing.TB, m *harness.Mount, i int) {
	t.Helper()
	if err := f.tryRead(t, m, i); err != nil {
		t.Error(err)
	}
}

// tryRead is read, which returns an error of the kernel: that is the caller's to judge.
func (f *RemoteFiles) tryRead(t testing.TB, m *harness.Mount, i int) error {
	t.Helper()
	return f.withFile(m, i, func(file *os.File) error {
		p := make([]byte, 256<<10)
		for off := int64(0); off < f.files[i].Size; off += int64(len(p)) {
			if err := f.readPart(t, file, i, p, off); err != nil {
				return err
			}
		}
		return nil
	})
}

// tryRandom reads count places of file i.
func (f *RemoteFiles) tryRandom(t testing.TB, m *harness.Mount, i, count int, dice *rand.Rand) error {
	t.Helper()
	return f.withFile(m, i, func(file *os.File) error {
		p := make([]byte, 32<<10)
		for range count {
			if err := f.readPart(t, file, i, p[:1+dice.IntN(len(p))], dice.Int64N(f.files[i].Size)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (f *RemoteFiles) withFile(m *harness.Mount, i int, do func(*os.File) error) error {
	file, err := os.Open(m.File(f.files[i].Hash))
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return err
	}
	return do(file)
}

func (f *RemoteFiles) readPart(t testing.TB, file *os.File, i int, p []byte, off int64) error {
	t.Helper()
	want := f.content[i][off:]
	want = want[:min(len(want), len(p))]
	n, err := file.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if !bytes.Equal(p[:n], want) {
		t.Errorf("%s: %d bytes at %d are wrong, or not as many as they should be: %d (I1, I2)", file.Name(), len(want), off, n)
	}
	return nil
}

// readAll reads every file.
func (f *RemoteFiles) readAll(t testing.TB, m *harness.Mount) {
	t.Helper()
	for i := range f.files {
		f.read(t, m, i)
	}
}

// A CacheFolder is the folder of a disk cache.
type CacheFolder struct {
	t   testing.TB
	Dir string
}

func newCacheFolder(t testing.TB) *CacheFolder {
	return &CacheFolder{t, filepath.Join(t.TempDir(), "cache")}
}

// flags are those of a mount that uses the folder, and does not mind how full its file
// system is.
func (c *CacheFolder) flags(more ...string) []string {
	return append([]string{"--cache-dir=" + c.Dir, "--cache-free=0"}, more...)
}

// run runs `xetfs cache` with some arguments and decodes what it says into v.
func (c *CacheFolder) run(v any, args ...string) (status int) {
	c.t.Helper()
	cmd := exec.Command(harness.Program(c.t), append([]string{"cache", "--cache-dir=" + c.Dir}, args...)...)
	cmd.Env = harness.Environment()
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	status = cmd.ProcessState.ExitCode()
	if v == nil {
		return status
	}
	if err := json.Unmarshal(out, v); err != nil {
		c.t.Fatalf("xetfs cache %v: exit status %d: %s", args, status, errOut.Bytes())
	}
	return status
}

// A Verified is what `xetfs cache verify --json` says.
type Verified struct {
	Faults  []struct{ Kind, Hash, Reason string }
	Entries int
	Sound   bool
}

// verify compares everything with its checksums.
func (c *CacheFolder) verify() (v Verified) {
	c.t.Helper()
	c.run(&v, "verify", "--json")
	return v
}

// wantSound fails the test if anything is damaged.
func (c *CacheFolder) wantSound() {
	c.t.Helper()
	if v := c.verify(); !v.Sound {
		c.t.Errorf("xetfs cache verify: %+v", v)
	}
}

// A Kept is how much there is in a disk cache, as others see it: chunks of xorbs, and whole
// files.
type Kept struct{ Chunks, Files int }

func (c *CacheFolder) kept() (k Kept) {
	c.t.Helper()
	var list struct {
		Entries []struct {
			Kind   string
			Chunks int
		}
	}
	c.run(&list, "list", "--json")
	for _, e := range list.Entries {
		switch e.Kind {
		case "xorb":
			k.Chunks += e.Chunks
		case "file":
			k.Files++
		}
	}
	return k
}

// until waits until others can see what a mount keeps.
func (c *CacheFolder) until(what string, is func(Kept) bool) {
	c.t.Helper()
	var k Kept
	for end := time.Now().Add(harness.MountLimit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if k = c.kept(); is(k) {
			return
		}
	}
	c.t.Fatalf("%s: not within %v: %+v", what, harness.MountLimit, k)
}

// owner returns the process that writes to the folder, as `xetfs cache status` says.
func (c *CacheFolder) owner() int {
	c.t.Helper()
	var s struct{ Owner int }
	c.run(&s, "status", "--json")
	return s.Owner
}

// chunksOf returns the number of chunks of a file of size bytes.
func chunksOf(size int) int { return (size + 64<<10 - 1) / (64 << 10) }

// allocated returns what the files in the folder take.
func (c *CacheFolder) allocated() int64 {
	for {
		names, n := c.occupied()
		if again, _ := c.occupied(); slices.Equal(names, again) {
			return n
		} // else a file that went may be counted beside one that was stored later
	}
}

// occupied returns the names of the files, and what they take together.
func (c *CacheFolder) occupied() (names []string, n int64) {
	filepath.WalkDir(c.Dir, func(path string, e fs.DirEntry, err error) error { //nolint:errcheck // what has gone takes nothing
		var st unix.Stat_t
		if err == nil && !e.IsDir() && unix.Lstat(path, &st) == nil {
			names, n = append(names, path), n+st.Blocks*512
		}
		return nil
	})
	return names, n
}

// glob returns the files of the cache whose names match.
func (c *CacheFolder) glob(pattern string) []string {
	c.t.Helper()
	all, err := filepath.Glob(filepath.Join(c.Dir, pattern))
	if err != nil || len(all) == 0 {
		c.t.Fatalf("%s: %v, %v", pattern, all, err)
	}
	return all
}

// A DiskStats is what a mount says of its disk cache.
type DiskStats struct {
	State     string
	Chunks    int
	Wholes    int
	Bytes     int64
	PeakBytes int64 `json:"peak_bytes"`
	MaxBytes  int64 `json:"max_bytes"`
	Hits      int64
	Dropped   int64
	Written   int64 `json:"written_bytes"`
	Evicted   int64 `json:"evicted_bytes"`
}

func diskStats(t testing.TB, m *harness.Mount) DiskStats {
	t.Helper()
	var stats struct{ Disk *DiskStats }
	text := xattr(t, m.Dir, "user.xet.stats")
	if err := json.Unmarshal([]byte(text), &stats); err != nil || stats.Disk == nil {
		t.Fatalf("%s: %v", text, err)
	}
	return *stats.Disk
}

// untilStats waits until a mount says something of its disk cache.
func untilStats(t testing.TB, m *harness.Mount, limit time.Duration, what string, is func(DiskStats) bool) {
	t.Helper()
	var s DiskStats
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if s = diskStats(t, m); is(s) {
			return
		}
	}
	t.Fatalf("%s: not within %v: %+v", what, limit, s)
}

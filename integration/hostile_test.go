package integration

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// Names of files that hold shards do not reach the mount, nor the lines of the log.
func TestS01_S02_Names(t *testing.T) {
	content := harness.Noise(1, 100_000)
	odd := []string{
		"new\nline.shard", "\x1b[31mred.shard", "..shard", "-rf.shard", "not utf-8 \xff\xfe.shard", "a b\tc.shard",
		strings.Repeat("x", 249) + ".shard", "%2e%2e.shard", "\u202eright to left.shard",
	}
	dir := t.TempDir()
	s, stored := harness.StoreFiles(t, dir, harness.StoreOptions{}, xorb.None, content)
	var original []byte
	for _, name := range namesIn(t, dir) {
		if strings.HasSuffix(name, ".shard") {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			original = b
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, name := range odd {
		b := bytes.Clone(original)
		if i > 0 {
			b[60+i] ^= 1 // damaged, so that the log has something to say
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m := harness.MountSource(t, s.Dir)
	wantFile(t, m, stored[0], content)
	for _, name := range namesIn(t, m.Path("shards")) {
		if _, err := codec.ParseHash(name); err != nil {
			t.Errorf("a shard is called %q", name)
		}
	}
	for line := range strings.Lines(m.Log.String()) {
		if i := strings.IndexFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return r < ' ' || r == '\u202e' }); i >= 0 {
			t.Errorf("byte %d of a line of the log is a control character: %q", i, line)
		}
	}
}

// A link in the folder is not followed, wherever it leads.
func TestS06_Links(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	secret, inside := harness.Noise(1, 100_000), harness.Noise(2, 100_000)
	_, hidden := harness.StoreFiles(t, outside, harness.StoreOptions{}, xorb.None, secret)
	_, stored := harness.StoreFiles(t, dir, harness.StoreOptions{}, xorb.None, inside)
	for _, name := range namesIn(t, outside) {
		if err := os.Symlink(filepath.Join(outside, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"folder": outside, "loop": ".", "up": "..", "nothing": "nowhere", "proc.shard": "/proc/self/environ"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.xorb"), 0o644); err != nil {
		t.Fatal(err)
	}
	m := harness.MountSource(t, dir)
	wantFile(t, m, stored[0], inside)
	if _, err := os.Stat(m.File(hidden[0].Hash)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file outside the folder: %v, want that it is not there", err)
	}
}

// A link that takes the place of a xorb after mounting leads nowhere either.
func TestS06_LinkLater(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	content := harness.Noise(1, 300_000)
	s, stored := harness.StoreFiles(t, dir, harness.StoreOptions{}, xorb.None, content)
	path, _ := onlyXorb(t, s)
	m := harness.MountSource(t, dir)
	move(t, path, filepath.Join(outside, "x"))
	if err := os.Symlink(filepath.Join(outside, "x"), path); err != nil {
		t.Fatal(err)
	}
	wantEIO(t, m, stored[0].Hash)
}

// A file of a million terms that all are the same chunk opens in time, and reading at
// random finds the right bytes.
func TestF44_MillionTerms(t *testing.T) {
	t.Parallel()
	terms := 1_000_000
	if harness.RaceEnabled {
		terms = 50_000 // a tenth as fast
	}
	dir := t.TempDir()
	s, stored := harness.StoreFiles(t, dir, harness.StoreOptions{ChunkSize: 128 << 10}, xorb.LZ4, text(t, 1, 128<<10))
	term := stored[0].Info.Terms[0]
	leaf := merkle.Leaf{Hash: s.Info[term.Xorb].Chunks[0], Size: uint64(term.Size)}
	fi := &shard.FileInfo{Terms: make([]codec.Term, terms)}
	leaves := make([]merkle.Leaf, terms)
	for i := range terms {
		fi.Terms[i], leaves[i] = term, leaf
	}
	fi.File = merkle.File(leaves)
	harness.ShardOnly(t, dir, []*shard.FileInfo{fi}, nil)
	m := harness.MountSource(t, dir)
	chunk := text(t, 1, 128<<10)
	want := repeated{chunk, int64(terms) * int64(len(chunk))}
	start := time.Now()
	r := openReader(t, m.File(fi.File), want)
	if _, err := r.ReadAt(make([]byte, 100), want.size-50); !errors.Is(err, io.EOF) {
		t.Errorf("reading across the end: %v, want io.EOF", err)
	}
	t.Logf("the first read took %v", time.Since(start).Round(time.Millisecond))
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		if _, err := r.ReadAt(make([]byte, 1+rng.IntN(300_000)), rng.Int64N(want.size)); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	child := startChild(t, "buffered", m.File(fi.File))
	time.Sleep(50 * time.Millisecond)
	if _, gone := child.Kill(time.Second); !gone {
		t.Error("a killed reader is there after 1 s")
	}
	const budget = (512 + 128) << 20
	if rss := m.Status("VmHWM"); rss > budget && !harness.RaceEnabled {
		t.Errorf("resident memory reached %d MiB", rss>>20)
	}
}

// A repeated reference is the same bytes again and again.
type repeated struct {
	bytes []byte
	size  int64
}

func (r repeated) Size() int64 { return r.size }

func (r repeated) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) && off+int64(n) < r.size {
		n += copy(p[n:], r.bytes[(off+int64(n))%int64(len(r.bytes)):])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

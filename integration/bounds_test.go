package integration

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// boundMemory is --memory of the mounts whose resident memory is compared with it.
const boundMemory = 16 << 20

// mountBounded mounts a source with 16 MiB of memory.
func mountBounded(t *testing.T, source string, flags ...string) *harness.Mount {
	t.Helper()
	harness.NeedFuse(t)
	if harness.RaceEnabled {
		t.Skip("the race detector needs memory of its own")
	}
	dir := filepath.Join(t.TempDir(), "mnt")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	m := harness.StartMount(t, source, dir, append([]string{"--memory=16MiB"}, flags...)...)
	if _, ok := m.Log.Wait(boundLimit, harness.Event("mount_ready")); !ok {
		t.Fatalf("%s was not mounted within %v:\n%s", source, boundLimit, m.Log)
	}
	return m
}

// boundLimit is much more than any mount takes, also on a busy machine.
const boundLimit = 5 * time.Minute

// wantBounded compares the peak of the resident memory with what README promises.
func wantBounded(t *testing.T, m *harness.Mount) {
	t.Helper()
	peak := m.Status("VmHWM")
	t.Logf("resident memory: at most %d MiB", peak>>20)
	if peak > boundMemory+128<<20 {
		t.Errorf("resident memory reached %d MiB, want at most %d MiB", peak>>20, (boundMemory+128<<20)>>20)
	}
}

// L15: shards whose names do not say their hashes are hashed without being held. They are
// sparse, so their size costs nothing; the second half has footers and millions of equal
// empty files.
func TestL15_SparseShards(t *testing.T) {
	t.Parallel()
	const (
		count = 6
		size  = (128<<20-248)/48*48 + 248 // whole records, a bookend and a footer
	)
	dir := t.TempDir()
	content := harness.Noise(1, 100_000)
	_, stored := harness.StoreFiles(t, dir, harness.StoreOptions{}, 0, content)
	for i := range count {
		b := sparseEnds(t, size, i)
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("nameless-%d.shard", i)))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := f.Truncate(size); err != nil {
			t.Fatal(err)
		}
		for off, part := range b {
			if _, err := f.WriteAt(part, off); err != nil {
				t.Fatal(err)
			}
		}
	}
	m := mountBounded(t, dir)
	wantFile(t, m, stored[0], content)
	wantBounded(t, m)
}

// sparseEnds returns the bytes of a shard of that size that are not zero, by offset. Every shard
// has a header, every second one also a footer and the ends of its sections. No two are equal.
func sparseEnds(t *testing.T, size int64, i int) map[int64][]byte {
	t.Helper()
	const header, bookend, footer = 48, 48, 200
	b, err := new(shard.Writer).Encode()
	if err != nil {
		t.Fatal(err)
	}
	if i%2 == 0 {
		return map[int64][]byte{0: b[:header]}
	}
	xorbs, end := size-footer-bookend, size-footer
	foot := b[len(b)-footer:]
	for at, value := range map[int]int64{104: int64(i), 16: xorbs, 24: end, 40: end, 56: end, 192: end} {
		binary.LittleEndian.PutUint64(foot[at:], uint64(value))
	}
	return map[int64][]byte{0: b[:header], xorbs - bookend: b[header : header+bookend], xorbs: b[header+bookend:][:bookend], end: foot}
}

// L16: references, versions and index pages of 1 GiB are refused by their size.
func TestL16_LongDocuments(t *testing.T) {
	t.Parallel()
	for _, layer := range []string{"vref", "ver", "tindex"} {
		t.Run(layer, func(t *testing.T) {
			work := t.TempDir()
			folder, store := filepath.Join(work, "folder"), filepath.Join(work, "store")
			if err := os.Mkdir(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			for _, content := range []string{"old", "new"} {
				harness.WriteFile(t, filepath.Join(folder, "a"), []byte(content))
				harness.Publish(t, store, "s", folder)
			}
			growAll(t, filepath.Join(store, layer), 1<<30)
			m := mountBounded(t, store)
			for range 3 {
				if b, err := os.ReadFile(m.Path("s", ".versions", "0", "a")); err == nil {
					t.Errorf("a file can be read: %q", b)
				}
			}
			wantBounded(t, m)
		})
	}
}

// growAll makes every file below a folder that long.
func growAll(t *testing.T, folder string, size int64) {
	t.Helper()
	grown := 0
	err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		grown++
		return os.Truncate(path, size)
	})
	if err != nil || grown == 0 {
		t.Fatalf("%d files below %s: %v", grown, folder, err)
	}
}

// L17: the terms of open files stay within --memory, and no open is refused for them. In
// memory at once they would take 64 bytes each, more than the limit.
func TestL17_OpenTerms(t *testing.T) {
	t.Parallel()
	files, terms := 20, 150_000
	if *fullSize {
		terms = 300_000
	}
	dir := t.TempDir()
	chunks, x := termXorb(t, dir)
	var all []*manyTermed
	for i := range files {
		all = append(all, newManyTermed(t, dir, chunks, x, uint64(i), terms))
	}
	localAndRemote(t, dir, func(t *testing.T, m *harness.Mount) { readTermed(t, m, all, 1000) })
}

// localAndRemote does the same with a mount of a folder and one of a web server, and compares
// their peak memory with the limit.
func localAndRemote(t *testing.T, dir string, do func(*testing.T, *harness.Mount)) {
	t.Run("near", func(t *testing.T) {
		m := mountBounded(t, dir)
		do(t, m)
		wantBounded(t, m)
	})
	for name, cacheDir := range map[string]string{"remote": "off", "remote, with a cache folder": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			m := mountBounded(t, harness.ServeRemote(t, dir).URL, "--cache-dir="+cacheDir)
			do(t, m)
			wantBounded(t, m)
		})
	}
}

// L18: a file whose terms alone exceed --memory many times is read through a window of them.
func TestL18_WindowOfTerms(t *testing.T) {
	t.Parallel()
	terms := 3_000_000
	if *fullSize {
		terms = 10_000_000
	}
	dir := t.TempDir()
	chunks, x := termXorb(t, dir)
	f := newManyTermed(t, dir, chunks, x, 1, terms)
	localAndRemote(t, dir, func(t *testing.T, m *harness.Mount) { readTermed(t, m, []*manyTermed{f}, 300) })
}

// readTermed opens all files and reads n times at random places of them.
func readTermed(t *testing.T, m *harness.Mount, all []*manyTermed, n int) {
	t.Helper()
	var open []*os.File
	for _, f := range all {
		file, err := os.OpenFile(m.File(f.hash), os.O_RDONLY|syscall.O_DIRECT, 0)
		for try := 0; errors.Is(err, syscall.EIO) && try < 4; try++ { // out of time on a busy machine
			file, err = os.OpenFile(m.File(f.hash), os.O_RDONLY|syscall.O_DIRECT, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		open = append(open, file)
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for range n {
		i := rng.IntN(len(all))
		got, want := make([]byte, 1+rng.IntN(20_000)), make([]byte, 20_000)
		off := rng.Int64N(all[i].size)
		read, err := open[i].ReadAt(got, off)
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		want = want[:min(int64(len(got)), all[i].size-off)]
		all[i].read(want, off)
		if !bytes.Equal(got[:read], want) {
			t.Fatalf("file %d: %d bytes at %d differ from what they should be", i, read, off)
		}
	}
}

// termChunks is the number of chunks of the xorb of files with many terms, and their size.
const (
	termChunks    = 64
	termChunkSize = 1000
)

// termXorb stores a xorb of chunks of one size.
func termXorb(t *testing.T, dir string) (chunks []merkle.Leaf, x codec.Hash) {
	t.Helper()
	s, stored := harness.StoreFiles(t, dir, harness.StoreOptions{ChunkSize: termChunkSize}, xorb.None, harness.Noise(99, termChunks*termChunkSize))
	x = stored[0].Info.Terms[0].Xorb
	for _, h := range s.Info[x].Chunks {
		chunks = append(chunks, merkle.Leaf{Hash: h, Size: termChunkSize})
	}
	return chunks, x
}

// A manyTermed is a file of terms of one chunk each, in an order that a seed gives.
type manyTermed struct {
	hash    codec.Hash
	size    int64
	seed    uint64
	content []byte // of the xorb
}

// chunkOf returns the chunk of a term.
func (f *manyTermed) chunkOf(term int64) int64 {
	return int64((uint64(term)*2654435761 + f.seed) >> 3 % termChunks)
}

// read fills p with the bytes from off on.
func (f *manyTermed) read(p []byte, off int64) {
	for len(p) > 0 {
		skip := off % termChunkSize
		n := copy(p, f.content[f.chunkOf(off/termChunkSize)*termChunkSize:][skip:termChunkSize])
		p, off = p[n:], off+int64(n)
	}
}

// newManyTermed writes the shard of a file of n terms, without holding them.
func newManyTermed(t *testing.T, dir string, chunks []merkle.Leaf, x codec.Hash, seed uint64, n int) *manyTermed {
	t.Helper()
	const record = 48
	f := &manyTermed{size: int64(n) * termChunkSize, seed: seed, content: harness.Noise(99, termChunks*termChunkSize)}
	var tree merkle.FileTree
	for i := range int64(n) {
		tree.Add(chunks[f.chunkOf(i)])
	}
	f.hash = tree.Sum()
	var w shard.Writer
	w.AddFile(&shard.FileInfo{File: f.hash, Terms: []codec.Term{{Xorb: x, Size: termChunkSize, Chunks: codec.ChunkRange{End: 1}}}})
	b, err := w.EncodeUpload() // header, head of the block, its term, two bookends
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint32(b[record+36:], uint32(n))
	file, err := os.CreateTemp(dir, "new-*")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	name, buf := merkle.NewChunkHash(), bufio.NewWriterSize(file, 1<<20)
	out := io.MultiWriter(name, buf)
	out.Write(b[:2*record]) //nolint:errcheck // Flush returns the error
	term := b[2*record : 3*record]
	for i := range int64(n) {
		binary.LittleEndian.PutUint32(term[40:], uint32(f.chunkOf(i)))
		binary.LittleEndian.PutUint32(term[44:], uint32(f.chunkOf(i)+1))
		out.Write(term) //nolint:errcheck // Flush returns the error
	}
	out.Write(b[3*record:]) //nolint:errcheck // Flush returns the error
	err = errors.Join(buf.Flush(), os.Rename(file.Name(), filepath.Join(dir, name.Sum().String()+".shard")))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

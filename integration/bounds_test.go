package integration

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/xetfs/xetfs/codec/shard"
)

// boundMemory is --memory of the mounts whose resident memory is compared with it.
const boundMemory = 16 << 20

// mountBounded mounts a source with 16 MiB of memory.
func mountBounded(t *testing.T, source string, flags ...string) *Mount {
	t.Helper()
	needFuse(t)
	if raceEnabled {
		t.Skip("the race detector needs memory of its own")
	}
	dir := filepath.Join(t.TempDir(), "mnt")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	m := startMount(t, source, dir, append([]string{"--memory=16MiB"}, flags...)...)
	if _, ok := m.Log.Wait(boundLimit, event("mount_ready")); !ok {
		t.Fatalf("%s was not mounted within %v:\n%s", source, boundLimit, m.Log)
	}
	return m
}

// boundLimit is far more than any mount takes, also on a busy machine.
const boundLimit = 5 * time.Minute

// wantBounded compares the peak of the resident memory with what README promises.
func wantBounded(t *testing.T, m *Mount) {
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
	const (
		count = 6
		size  = (128<<20-248)/48*48 + 248 // whole records, a bookend and a footer
	)
	dir := t.TempDir()
	content := noise(1, 100_000)
	_, stored := store(t, dir, storeOptions{}, 0, content)
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

// sparseEnds returns what is not zero in a shard of that size, by offset: its header and, of
// every second one, the ends of its sections and a footer. Those differ.
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
	for _, layer := range []string{"vref", "ver", "tindex"} {
		t.Run(layer, func(t *testing.T) {
			work := t.TempDir()
			folder, store := filepath.Join(work, "folder"), filepath.Join(work, "store")
			if err := os.Mkdir(folder, 0o755); err != nil {
				t.Fatal(err)
			}
			for _, content := range []string{"old", "new"} {
				writeFile(t, filepath.Join(folder, "a"), []byte(content))
				publish(t, store, "s", folder)
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

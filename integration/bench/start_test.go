package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// benchMemory lets 32 readers read 4 GiB past the page cache, row P11.
func benchMemory(t *testing.T, r *results) {
	const (
		readers = 32
		total   = int64(4 << 30)
	)
	dir := t.TempDir()
	plain, storeDir := filepath.Join(dir, "plain"), filepath.Join(dir, "store")
	sums := kinds[0].lay(t, plain, max(*benchMiB<<20, 384<<20)) // more than is kept
	file := storeFolder(t, storeDir, plain, kinds[0].scheme)["file"]
	for round := range *benchRounds {
		m := harness.MountSource(t, storeDir, "--memory=256MiB")
		var read atomic.Int64
		start := time.Now()
		harness.Parallel(readers, func(i int) {
			n, err := harness.ReadBlocks(m.File(file.Hash), sums, total/readers, i)
			read.Add(n)
			if err != nil {
				t.Errorf("reader %d: %v", i, err)
			}
		})
		took := time.Since(start).Seconds()
		const what = "32 readers, 4 GiB, --memory 256MiB"
		r.add(figure{"P11", what + ": peak memory", "MiB", ours, round, float64(m.Status("VmHWM")) / (1 << 20)})
		r.add(figure{"P11", what, "MB/s", ours, round, float64(read.Load()) / took / 1e6})
		m.Unmount()
	}
}

const (
	startShards = 1000
	startFiles  = 10 // of each shard
)

// benchStart mounts a store of 1,000 shards and lists it, row P12. Its peers mount an
// image with the same files.
func benchStart(t *testing.T, r *results) {
	dir := t.TempDir()
	plain, storeDir := filepath.Join(dir, "plain"), filepath.Join(dir, "store")
	manyShards(t, storeDir, filepath.Join(plain, "file"))
	peers := images(t, dir, plain)
	for round := range *benchRounds + 1 { // the first is not measured
		add := func(system string, took time.Duration) {
			if round > 0 {
				r.add(figure{"P12", "mount of 1,000 shards until the first ls", "ms", system, round - 1, took.Seconds() * 1e3})
			}
		}
		add(ours, startXetfs(t, storeDir))
		for _, s := range peers {
			start := time.Now()
			m := s.mount(t)
			t.Cleanup(m.unmount)
			countFiles(t, m.path)
			add(s.name, time.Since(start))
			m.unmount()
		}
	}
}

// manyShards makes the store, and lays the same files down in folder.
func manyShards(t *testing.T, storeDir, folder string) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range startShards {
		var files [][]byte
		for j := range startFiles {
			files = append(files, harness.Noise(uint64(i*startFiles+j), 4096))
		}
		_, stored := harness.StoreFiles(t, storeDir, harness.StoreOptions{}, xorb.None, files...)
		for j, s := range stored {
			if err := os.WriteFile(filepath.Join(folder, s.Hash.String()), files[j], 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// startXetfs mounts as a user does, in the background, and lists the files.
func startXetfs(t *testing.T, storeDir string) time.Duration {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(t.TempDir(), "log")
	t.Cleanup(func() {
		if harness.IsMounted(t, dir) {
			harness.Run(t, "", harness.Program(t), "umount", dir)
		}
	})
	start := time.Now()
	harness.Run(t, "", harness.Program(t), "mount", "--log-file", log, storeDir, dir)
	countFiles(t, filepath.Join(dir, "by-hash"))
	took := time.Since(start)
	harness.Run(t, "", harness.Program(t), "umount", dir)
	return took
}

func countFiles(t *testing.T, dir string) {
	t.Helper()
	names, err := os.ReadDir(dir)
	if want := startShards * startFiles; err != nil || len(names) != want {
		t.Fatal(fmt.Sprintf("%s: %d files, want %d", dir, len(names), want), err)
	}
}

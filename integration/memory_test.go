package integration

import (
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// While 32 readers read more than fits into memory, each at its own pace and place, the process keeps within
// --memory and 128 MiB. The kernel's page cache is passed by, so that every byte goes
// through the process.
func TestMemory(t *testing.T) {
	t.Parallel()
	if harness.RaceEnabled {
		t.Skip("the race detector needs memory of its own")
	}
	const (
		readers = 32
		budget  = 256 << 20
		size    = int64(384 << 20) // more than the budget holds
	)
	total := int64(1 << 30)
	if *fullSize {
		total = 4 << 30
	}
	dir := t.TempDir()
	file, sums := bigText(t, dir, size)
	m := harness.MountSource(t, dir, "--memory=256MiB")
	idle := m.Status("VmRSS")
	start := time.Now()
	var read atomic.Int64
	harness.Parallel(readers, func(i int) {
		n, err := harness.ReadBlocks(m.File(file.Hash), sums, total/readers, i)
		read.Add(n)
		if err != nil {
			t.Errorf("reader %d: %v", i, err)
		}
	})
	took := time.Since(start)
	peak := m.Status("VmHWM")
	t.Logf("%d readers read %d MiB in %v, %.2f GB/s; resident memory %d MiB before, at most %d MiB, %d MiB after",
		readers, read.Load()>>20, took.Round(time.Millisecond), float64(read.Load())/took.Seconds()/1e9, idle>>20, peak>>20, m.Status("VmRSS")>>20)
	if read.Load() != total {
		t.Errorf("%d bytes were read, want %d", read.Load(), total)
	}
	if limit := int64(budget + (128 << 20)); peak > limit {
		t.Errorf("resident memory reached %d MiB, want at most %d MiB", peak>>20, limit>>20)
	}
}

// bigText stores a file of text and returns the sums of its blocks.
func bigText(t testing.TB, dir string, size int64) (harness.Stored, *harness.BlockSums) {
	t.Helper()
	s, sums := harness.NewStore(dir, harness.StoreOptions{}), new(harness.BlockSums)
	file, err := s.Add(io.TeeReader(harness.TextContent(1, size), sums), xorb.LZ4)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return file, sums
}

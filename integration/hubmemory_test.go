package integration

import (
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/linktest"
	"github.com/xetfs/xetfs/integration/internal/harness"
)

// While 32 readers read a file of the Hub that is far larger than --memory, the process keeps within
// --memory and 128 MiB. Half of them read in a row, so that windows of packed chunks are open. Every
// byte is compared.
func TestHubMemory(t *testing.T) {
	if !*fullSize || harness.RaceEnabled {
		t.Skip("needs -full-size, and the race detector needs memory of its own")
	}
	harness.NeedFuse(t)
	const (
		readers = 32
		budget  = 16 << 20
		size    = 1 << 30
		total   = 4 << 30
	)
	for _, tt := range []struct {
		name  string
		make  func(uint64, int64) io.Reader
		cache func(t *testing.T) string
	}{
		{"text", harness.TextContent, noCache},
		{"weights", harness.WeightsContent, noCache},
		{"weights on disk", harness.WeightsContent, (*testing.T).TempDir},
	} {
		t.Run(tt.name, func(t *testing.T) {
			folder, store, sums := t.TempDir(), filepath.Join(t.TempDir(), "store"), new(harness.BlockSums)
			f, err := os.Create(filepath.Join(folder, "file"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := io.Copy(io.MultiWriter(f, sums), tt.make(1, size)); err != nil {
				t.Fatal(err)
			}
			harness.Publish(t, store, "org/model", folder)
			useHub(t, linktest.New(t, serveHub(t, store), linktest.Options{Delay: harness.RemoteDelay}).URL)
			m := harness.MountSource(t, "hf://org/model", "--memory=16MiB", "--cache-dir="+tt.cache(t))
			var read atomic.Int64
			harness.Parallel(readers, func(i int) {
				n, err := harness.ReadBlocks(m.Path("file"), sums, total/readers, i)
				read.Add(n)
				if err != nil {
					t.Errorf("reader %d: %v", i, err)
				}
			})
			peak := m.Status("VmHWM")
			t.Logf("%d readers read %d MiB; resident memory at most %d MiB, %d MiB after", readers, read.Load()>>20, peak>>20, m.Status("VmRSS")>>20)
			if read.Load() < total {
				t.Errorf("%d bytes were read, want %d", read.Load(), total)
			}
			if limit := int64(budget + (128 << 20)); peak > limit {
				t.Errorf("resident memory reached %d MiB, want at most %d MiB", peak>>20, limit>>20)
			}
			m.Quiet()
		})
	}
}

func noCache(*testing.T) string { return "off" }

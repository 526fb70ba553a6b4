package integration

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xetfs/xetfs/integration/internal/harness"
)

// A killing is a server with somewhat more than a disk cache holds, and such a cache.
type killing struct {
	t      *testing.T
	remote *RemoteFiles
	cache  *CacheFolder
	dice   *rand.Rand
	hits   int // busy rounds whose cache existed when they were killed
}

// A mount is killed at random moments, while readers open and close files and new chunks evict old
// ones. No entry of its disk cache is damaged. The next mount finds all entries whose
// writes had reached the kernel.
func TestD15_MountKilled(t *testing.T) {
	t.Parallel()
	harness.NeedFuse(t)
	k := &killing{t, serveNoise(t, 100, 6, 4<<20), newCacheFolder(t), rand.New(rand.NewPCG(15, 0)), 0}
	for round := range *cacheKills {
		start := time.Now()
		var flags []string
		if round%3 == 1 {
			flags = append(flags, "--materialize=always")
		}
		if round%3 == 2 {
			k.keptRound()
		} else {
			k.busyRound(flags)
		}
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
		if took := time.Since(start); took > 1500*time.Millisecond {
			t.Logf("round %d took %v", round, took)
		}
	}
	t.Logf("%d of %d rounds have killed a mount with a busy cache", k.hits, *cacheKills)
}

// busyRound kills a mount that keeps more than it has room for.
func (k *killing) busyRound(flags []string) {
	flags = k.cache.flags(append(flags, leastDisk, "--memory=1MiB")...)
	k.killedWhileRead(startEmpty(k.t, k.remote.URL, flags...))
	if _, err := os.Stat(filepath.Join(k.cache.Dir, "FORMAT")); err != nil {
		return // it had not begun
	}
	k.hits++
	k.cache.wantSound()
	m := harness.MountSource(k.t, k.remote.URL, flags...)
	k.remote.readAll(k.t, m)
	m.Quiet()
	if k.dice.IntN(2) == 0 {
		m.Kill9() // the next round finds a cache that was not closed
		return
	}
	m.Unmount()
}

// keptRound kills a mount that has room for everything. The next mount has all entries that other
// processes could see before.
func (k *killing) keptRound() {
	cache := newCacheFolder(k.t)
	m := harness.MountSource(k.t, k.remote.URL, cache.flags("--materialize=never")...)
	first := k.dice.IntN(len(k.remote.files))
	k.remote.read(k.t, m, first)
	cache.until("a file is kept", func(k Kept) bool { return k.Chunks >= chunksOf(4<<20) })
	k.killedWhileRead(m)
	cache.wantSound()
	m = harness.MountSource(k.t, k.remote.URL, cache.flags()...)
	before := k.remote.Traffic()
	k.remote.read(k.t, m, first)
	if sent := k.remote.Since(before); sent.DataBytes != 0 {
		k.t.Errorf("of what was kept %d bytes were fetched again", sent.DataBytes)
	}
	before = k.remote.Traffic()
	k.remote.readAll(k.t, m)
	k.t.Logf("the next mount fetched %d of %d bytes", k.remote.Since(before).DataBytes, len(k.remote.files)*4<<20)
	m.Quiet()
	m.Unmount()
	removeAll(k.t, cache.Dir)
}

// startEmpty starts to mount and does not wait for it.
func startEmpty(t *testing.T, source string, flags ...string) *harness.Mount {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "mnt")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return harness.StartMount(t, source, dir, flags...)
}

// killedWhileRead kills a mount within 400 ms, while four readers read whatever there is,
// and some of them from start to end.
func (k *killing) killedWhileRead(m *harness.Mount) {
	var (
		killed  atomic.Bool
		readers sync.WaitGroup
	)
	for r := range 4 {
		dice := rand.New(rand.NewPCG(k.dice.Uint64(), 0))
		readers.Go(func() {
			if _, ok := m.Log.Wait(harness.MountLimit, harness.Event("mount_ready")); !ok {
				return // killed before
			}
			for !killed.Load() {
				err := k.readOnce(m, r, dice)
				if err != nil && !killed.Load() {
					k.t.Error(err)
				}
			}
		})
	}
	time.Sleep(time.Duration(k.dice.IntN(400)) * time.Millisecond)
	killed.Store(true)
	m.Kill9()
	readers.Wait()
}

func (k *killing) readOnce(m *harness.Mount, reader int, dice *rand.Rand) error {
	i := dice.IntN(len(k.remote.files))
	if reader%2 == 0 {
		return k.remote.tryRead(k.t, m, i)
	}
	return k.remote.tryRandom(k.t, m, i, 50, dice)
}

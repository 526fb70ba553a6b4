package integration

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/integration/internal/harness"
	"golang.org/x/sys/unix"
)

// D19, D20: 64 readers cause evictions and materialize files all the time. The folder never exceeds
// its limit, and readers of evicted chunks get right bytes.
func TestD19_D20_AtTheLimit(t *testing.T) {
	t.Parallel()
	harness.NeedFuse(t)
	const limit = 16 << 20
	remote, cache := serveNoise(t, 700, 24, 1<<20), newCacheFolder(t)
	m := harness.MountSource(t, remote.URL, cache.flags(leastDisk, "--materialize=always")...)
	done := make(chan struct{})
	var most int64
	var sampler sync.WaitGroup
	sampler.Go(func() {
		for {
			most = max(most, cache.allocated())
			select {
			case <-done:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	})
	end := time.Now().Add(1500 * time.Millisecond)
	harness.Parallel(64, func(i int) {
		dice := rand.New(rand.NewPCG(19, uint64(i)))
		for time.Now().Before(end) && !t.Failed() {
			var err error
			if i%4 == 0 {
				err = remote.tryRead(t, m, dice.IntN(len(remote.files)))
			} else {
				err = remote.tryRandom(t, m, dice.IntN(len(remote.files)), 5, dice)
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	untilStats(t, m, harness.MountLimit, "files are materialized, and an entry was evicted", func(s DiskStats) bool {
		if s.Evicted == 0 { // a machine with much else to do has read little yet
			remote.readAll(t, m)
		}
		return s.Wholes > 1 && s.Evicted > 0
	})
	close(done)
	sampler.Wait()
	s := diskStats(t, m)
	t.Logf("%d bytes at most on disk, %d by its own count; %d written, %d evicted, %d whole files", most, s.PeakBytes, s.Written, s.Evicted, s.Wholes)
	if most > limit || s.PeakBytes > limit {
		t.Errorf("more than the limit of %d", limit)
	}
	if most < limit/2 || s.Evicted == 0 {
		t.Error("the limit was never near")
	}
	m.Quiet()
	m.Unmount()
	cache.wantSound()
}

// The floor of free space is kept, too: the cache shrinks when others need the room, and
// that is no reason for a line.
func TestD19_FreeSpace(t *testing.T) {
	remote, cache := serveNoise(t, 800, 4, 4<<20), newCacheFolder(t)
	onTmpfs(t, cache, "size=32m")
	m := harness.MountSource(t, remote.URL, "--cache-dir="+cache.Dir, "--cache-size=64MiB", "--cache-free=25%")
	remote.readAll(t, m)
	free := func() int64 {
		var st unix.Statfs_t
		if err := unix.Statfs(cache.Dir, &st); err != nil {
			t.Fatal(err)
		}
		return int64(st.Bavail) * st.Bsize
	}
	harness.WaitUntil(t, "all is written", func() bool { return diskStats(t, m).Written > 8<<20 })
	if free() < 8<<20 {
		t.Errorf("%d bytes are free, want 8 MiB", free())
	}
	others := filepath.Join(filepath.Dir(cache.Dir), "others")
	harness.WriteFile(t, others, make([]byte, 6<<20))
	remote.readAll(t, m)
	harness.WaitUntil(t, "it makes room", func() bool {
		remote.readAll(t, m)
		return free() >= 8<<20-1<<20
	})
}

// onTmpfs puts a cache on a file system of its own, a small one.
func onTmpfs(t testing.TB, c *CacheFolder, options string) {
	t.Helper()
	harness.NeedFuse(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); errors.Is(err, unix.EPERM) {
		t.Skip("mounting takes the rights of root")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	c.Dir = filepath.Join(dir, "cache")
}

// A cache in the mount, or the mount in the cache, is refused before anything is made
// there.
func TestD24_CacheInTheMount(t *testing.T) {
	harness.NeedFuse(t)
	remote := serveNoise(t, 900, 1, 1000)
	for _, tt := range []struct{ name, cache, mountpoint string }{
		{"the cache in the mount", "m/deep/cache", "m"},
		{"the mount in the cache", "c", "c/m"},
		{"the same", "m", "m"},
		{"through a link", "link/cache", "m"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			work := t.TempDir()
			for _, dir := range []string{"m", "c/m"} {
				if err := os.MkdirAll(filepath.Join(work, dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink("m", filepath.Join(work, "link")); err != nil {
				t.Fatal(err)
			}
			m := harness.StartMount(t, remote.URL, filepath.Join(work, tt.mountpoint), "--cache-dir="+filepath.Join(work, tt.cache))
			m.Ended = true
			if code, ok := m.Wait(harness.MountLimit); !ok || code != 7 {
				t.Errorf("exit status %d, ended %t, want 7", code, ok)
			}
			if len(m.Log.Find(harness.Event("mount_failed"))) != 1 {
				t.Errorf("no line says mount_failed:\n%s", m.Log)
			}
			if all, err := filepath.Glob(filepath.Join(work, "*", "*")); err != nil || !slices.Equal(all, []string{filepath.Join(work, "c", "m")}) {
				t.Errorf("it made %v, %v", all, err)
			}
		})
	}
}

// A memory budget of next to nothing is enough, with a disk cache as without one.
func TestD25_LittleMemory(t *testing.T) {
	t.Parallel()
	harness.NeedFuse(t)
	remote := serveNoise(t, 1000, 2, 3<<20)
	for _, memory := range []string{"0", "1", "64KiB", "1MiB"} {
		t.Run(memory, func(t *testing.T) {
			cache := newCacheFolder(t)
			for range 2 {
				m := harness.MountSource(t, remote.URL, cache.flags("--memory="+memory, leastDisk)...)
				harness.Parallel(4, func(i int) { remote.read(t, m, i%2) })
				m.Quiet()
				m.Unmount()
			}
			cache.wantSound()
		})
	}
}

// The disk cache is as secret as the data. No other user can read it, for any umask and any mode of
// the folder.
func TestD27_Modes(t *testing.T) {
	harness.NeedFuse(t)
	remote, cache := serveNoise(t, 1100, 2, 2<<20), newCacheFolder(t)
	if err := os.MkdirAll(cache.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	m := harness.MountSource(t, remote.URL, cache.flags("--materialize=always")...)
	remote.readAll(t, m)
	cache.until("a whole file is there", func(k Kept) bool { return k.Files == 2 })
	modes := func() (files int) {
		err := filepath.WalkDir(cache.Dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			want := fs.FileMode(0o600)
			if e.IsDir() {
				want = fs.ModeDir | 0o700
			} else {
				files++
			}
			if info.Mode() != want {
				t.Errorf("%s has mode %v, want %v", path, info.Mode(), want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		return files
	}
	if n := modes(); n < 5 {
		t.Errorf("%d files, want FORMAT, LOCK, an index, a segment and whole files", n)
	}
	m.Unmount()
	modes()
}

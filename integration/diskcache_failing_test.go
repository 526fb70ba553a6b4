package integration

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xetfs/xetfs/integration/internal/harness"
	"golang.org/x/sys/unix"
)

// Names of events of the disk cache.
const (
	eventDropped   = "cache_entry_dropped"
	eventFull      = "cache_full"
	eventSuspended = "cache_suspended"
	eventResumed   = "cache_resumed"
)

// Times without use of the disk: after a full disk, and until three probes of a failed disk.
const (
	fullPause   = 30 * time.Second
	failedPause = 90 * time.Second
)

// D01, D02, D03: a full disk is one log line in half a minute. Readers see no error, no entry is
// damaged, and stored entries stay.
func TestD01_D02_D03_NoRoom(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, tmpfs string
		fill, clear func(t *testing.T, m *harness.Mount, dir string)
	}{
		{"D01", "size=10m", func(*testing.T, *harness.Mount, string) {}, func(t *testing.T, m *harness.Mount, dir string) {
			remount(t, dir, 0, "size=64m")
		}},
		{"D01, others took the room", "size=64m", func(t *testing.T, _ *harness.Mount, dir string) {
			if err := fillUp(filepath.Join(dir, "others"), 1<<30); err == nil {
				t.Fatal("a file of 1 GiB fits into 64 MiB")
			}
		}, func(t *testing.T, _ *harness.Mount, dir string) {
			removeAll(t, filepath.Join(dir, "others"))
		}},
		{"D02", "size=64m,nr_inodes=60", func(t *testing.T, _ *harness.Mount, dir string) {
			takeInodes(t, dir)
		}, func(t *testing.T, _ *harness.Mount, dir string) {
			remount(t, dir, 0, "size=64m,nr_inodes=1000")
		}},
		{"D03", "size=64m", func(t *testing.T, m *harness.Mount, _ string) { limitFiles(t, m, 100<<10) }, func(t *testing.T, m *harness.Mount, _ string) {
			limitFiles(t, m, math.MaxUint64)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if *cachePatience {
				t.Parallel()
			}
			remote, cache := serveNoise(t, 2000, 8, 2<<20), newCacheFolder(t)
			onTmpfs(t, cache, tt.tmpfs)
			dir := filepath.Dir(cache.Dir)
			m := harness.MountSource(t, remote.URL, cache.flags("--cache-size=40MiB", "--memory=1MiB")...)
			remote.read(t, m, 0)
			cache.until("a file is kept", func(k Kept) bool { return k.Chunks >= chunksOf(2<<20) })
			tt.fill(t, m, dir)
			remote.readAll(t, m)
			if _, ok := m.Log.Wait(harness.Patience, harness.Event(eventFull)); !ok {
				t.Fatalf("no line says %s: %+v", eventFull, diskStats(t, m))
			}
			for range 3 {
				remote.readAll(t, m)
			}
			if n := len(m.Log.Find(harness.Event(eventFull))); n != 1 {
				t.Errorf("%d lines say %s", n, eventFull)
			}
			m.Quiet(eventFull)
			if s := diskStats(t, m); s.State != "full" || s.Chunks < chunksOf(2<<20) {
				t.Errorf("%+v", s)
			}
			cache.wantSound()
			tt.clear(t, m, dir)
			if *cachePatience {
				time.Sleep(fullPause + time.Second)
				wantAllOnDisk(t, remote, m)
				m.Quiet(eventFull)
			}
			m.Unmount()
			cache.wantSound()
			m = harness.MountSource(t, remote.URL, cache.flags("--cache-size=40MiB", "--memory=1MiB")...)
			before := remote.Traffic()
			remote.readAll(t, m)
			sent, hits := remote.Since(before).DataBytes, diskStats(t, m).Hits // a hedged request is sent twice
			if sent >= int64(len(remote.files)*2<<20) && hits == 0 || *cachePatience && sent > inMemory {
				t.Errorf("the next mount fetched %d bytes, and the disk had %d chunks", sent, hits)
			}
			m.Quiet()
		})
	}
}

// inMemory is the number of bytes that a mount may hold in memory instead of on disk. They are not
// fetched again, and so not stored.
const inMemory = 1 << 20

// wantAllOnDisk reads until all comes from the disk.
func wantAllOnDisk(t *testing.T, remote *RemoteFiles, m *harness.Mount) {
	t.Helper()
	harness.WaitUntil(t, "all is kept", func() bool {
		before := remote.Traffic()
		remote.readAll(t, m)
		return remote.Since(before).DataBytes == 0
	})
	if s := diskStats(t, m); s.State != "ok" {
		t.Errorf("%+v", s)
	}
}

// fillUp writes a file of n bytes, as far as that goes.
func fillUp(path string, n int) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for step := 64 << 10; n > 0; n -= step {
		if _, err := f.Write(make([]byte, step)); err != nil {
			return err
		}
	}
	return nil
}

// takeInodes takes all inodes of a file system.
func takeInodes(t *testing.T, dir string) {
	t.Helper()
	for i := range 1000 {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint("other-", i)))
		if err != nil {
			return
		}
		f.Close()
	}
	t.Fatal("1000 files fit where 60 should")
}

// limitFiles sets how long the files of a process may become.
func limitFiles(t *testing.T, m *harness.Mount, n uint64) {
	t.Helper()
	limit := unix.Rlimit{Cur: n, Max: math.MaxUint64}
	if err := unix.Prlimit(m.Pid(), unix.RLIMIT_FSIZE, &limit, nil); err != nil {
		t.Fatal(err)
	}
}

func remount(t *testing.T, dir string, flags uintptr, options string) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT|flags, options); err != nil {
		t.Fatal(err)
	}
}

// removeAll removes a folder in which a mount may make files meanwhile.
func removeAll(t *testing.T, path string) {
	t.Helper()
	err := os.RemoveAll(path)
	for end := time.Now().Add(harness.Patience); errors.Is(err, unix.ENOTEMPTY) && time.Now().Before(end); {
		err = os.RemoveAll(path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// D05, D07: a disk that fails permanently is one log line, and then out of use. Readers see no
// error. A disk that works again is used again.
func TestD05_D07_DiskGone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		fresh       bool // it comes back empty
		loop        bool // on a file system of its own
		lose, again func(t *testing.T, cache *CacheFolder)
	}{
		{"D05, input/output errors", false, true, shutDown, mountAgain},
		{"D07, removed", true, false, func(t *testing.T, cache *CacheFolder) {
			removeAll(t, cache.Dir)
		}, func(t *testing.T, cache *CacheFolder) {
			if err := os.Mkdir(cache.Dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}},
		{"D07, read-only", false, true, goReadOnly, mountAgain},
		{"D07, no permission", false, false, func(t *testing.T, cache *CacheFolder) {
			chmod(t, 0, cache.glob("whole")[0], cache.glob("seg")[0], cache.Dir)
		}, func(t *testing.T, cache *CacheFolder) {
			chmod(t, 0o700, cache.Dir)
			chmod(t, 0o700, cache.glob("whole")[0], cache.glob("seg")[0])
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if *cachePatience {
				t.Parallel()
			}
			remote, cache := serveNoise(t, 3000, 8, 2<<20), newCacheFolder(t)
			if tt.loop {
				onLoop(t, cache)
			}
			flags := cache.flags("--cache-size=48MiB", "--memory=1MiB")
			m := mountUnprivileged(t, remote.URL, flags...)
			remote.read(t, m, 0)
			remote.read(t, m, 1)
			cache.until("two files are kept", func(k Kept) bool { return k.Chunks >= 2*chunksOf(2<<20) })
			tt.lose(t, cache)
			harness.WaitUntil(t, "it is left alone", func() bool {
				remote.readAll(t, m)
				return diskStats(t, m).State == "suspended"
			})
			remote.readAll(t, m)
			if n := len(m.Log.After(harness.Event(eventSuspended))); n != 1 {
				t.Errorf("%d lines say %s", n, eventSuspended)
			}
			m.Quiet(eventSuspended, eventDropped)
			tt.again(t, cache)
			if *cachePatience {
				if _, ok := m.Log.Wait(failedPause+fullPause+harness.Patience, harness.Event(eventResumed)); !ok {
					t.Fatal("it does not resume")
				}
				wantAllOnDisk(t, remote, m)
			}
			m.Unmount()
			m = harness.MountSource(t, remote.URL, flags...)
			before := remote.Traffic()
			remote.readAll(t, m)
			sent, most := remote.Since(before), int64(6*2<<20)
			switch {
			case *cachePatience:
				most = inMemory
			case tt.fresh:
				most = 8 * 2 << 20
			}
			if sent.DataBytes > most+most/50+sent.Hedged()*2<<20 {
				t.Errorf("the next mount fetched %d bytes, want %d at most", sent.DataBytes, most)
			}
			m.Quiet()
			m.Unmount()
			cache.wantSound()
		})
	}
}

func chmod(t *testing.T, mode os.FileMode, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
}

// mountUnprivileged mounts as root with the right to mount, and without the right to read and write
// all files.
func mountUnprivileged(t *testing.T, source string, flags ...string) *harness.Mount {
	t.Helper()
	harness.NeedFuse(t)
	if os.Geteuid() != 0 {
		return harness.MountSource(t, source, flags...)
	}
	setpriv := harness.NeedTool(t, "setpriv")
	dir := filepath.Join(t.TempDir(), "mnt")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--bounding-set=-dac_override,-dac_read_search", harness.Program(t)}, harness.MountArgs(source, dir, flags...)...)
	m := harness.StartCommand(t, exec.Command(setpriv, args...), source, dir)
	if _, ok := m.Log.Wait(harness.MountLimit, harness.Event("mount_ready")); !ok {
		t.Fatalf("%s was not mounted within %v:\n%s", source, harness.MountLimit, m.Log)
	}
	return m
}

// onLoop puts a cache on a file system on a disk that can be made to fail.
func onLoop(t *testing.T, c *CacheFolder) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting takes the rights of root")
	}
	harness.NeedTool(t, "mkfs.ext4")
	image, dir := filepath.Join(t.TempDir(), "disk"), t.TempDir()
	harness.Run(t, "", "truncate", "--size=64M", image)
	harness.Run(t, "", "mkfs.ext4", "-q", image)
	if out, err := exec.Command("mount", "-o", "loop,errors=remount-ro", image, dir).CombinedOutput(); err != nil {
		harness.Absent(t, "no loop device: %v: %s", err, out)
	}
	t.Cleanup(func() {
		for unix.Unmount(dir, unix.MNT_DETACH) == nil { //nolint:revive // as often as it is mounted
		}
	})
	c.Dir = filepath.Join(dir, "cache")
}

// device returns the loop device that a folder is on.
func device(t *testing.T, dir string) string {
	t.Helper()
	return strings.TrimSpace(harness.Run(t, "", "findmnt", "--noheadings", "--first-only", "--output=SOURCE", "--target="+dir))
}

// shutDown makes every call to a file system fail, as one does whose disk was pulled out.
func shutDown(t *testing.T, c *CacheFolder) {
	t.Helper()
	const shutdown, withoutLog = 0x8004587d, 2 // EXT4_IOC_SHUTDOWN
	harness.Run(t, "", "sync", "--file-system", c.Dir)
	f, err := os.Open(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), shutdown, withoutLog); err != nil {
		t.Skipf("this kernel cannot shut a file system down: %v", err)
	}
}

// goReadOnly makes a file system meet an error, after which it cannot be written to.
func goReadOnly(t *testing.T, c *CacheFolder) {
	t.Helper()
	harness.Run(t, "", "sync", "--file-system", c.Dir)
	trigger := filepath.Join("/sys/fs/ext4", filepath.Base(device(t, c.Dir)), "trigger_fs_error")
	if err := os.WriteFile(trigger, []byte("1"), 0); err != nil {
		t.Skipf("this kernel cannot make a file system fail: %v", err)
	}
}

// mountAgain mounts the disk anew, in place of the file system that failed.
func mountAgain(t *testing.T, c *CacheFolder) {
	t.Helper()
	dir := filepath.Dir(c.Dir)
	from := device(t, dir)
	image := strings.TrimSpace(harness.Run(t, "", "losetup", "--noheadings", "--output=BACK-FILE", from))
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	again := strings.TrimSpace(harness.Run(t, "", "losetup", "--find", "--show", image)) // or it would be the same one
	harness.Run(t, "", "mount", again, dir)
	harness.Run(t, "", "losetup", "--detach", again) // when it is unmounted
}

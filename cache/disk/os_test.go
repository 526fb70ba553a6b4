package disk

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
	"github.com/xetfs/xetfs/codec/codectest"
)

// openAt opens a store in a real folder.
func openAt(t testing.TB, dir string, change ...func(*Options)) *fixture {
	t.Helper()
	b, err := tryOpenAt(t, dir, change...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func tryOpenAt(t testing.TB, dir string, change ...func(*Options)) (*fixture, error) {
	t.Helper()
	b := &fixture{t: t}
	o := smallOptions(newSimDisk())
	o.testing.openDir = nil
	return b, b.open(dir, o, change)
}

func cacheDir(t testing.TB) string { return filepath.Join(t.TempDir(), "cache") }

// mounted mounts a file system for the time of the test, if this user may.
func mounted(t testing.TB, dir, kind, options string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(kind, dir, kind, 0, options); err != nil {
		t.Skipf("cannot mount %s here: %v", kind, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

func TestRealFolder(t *testing.T) {
	dir := cacheDir(t)
	b := openAt(t, dir)
	for n := range 30 {
		b.put(n, 0, 20)
	}
	if err := errors.Join(b.putFile(1), b.PutPage(hashOf(2), pageOf(2)), b.Close()); err != nil {
		t.Fatal(err)
	}
	b = openAt(t, dir)
	for n := range 30 {
		b.want(n, 0, 20, 20)
	}
	f := b.openFile(1)
	got, err := io.ReadAll(f.File)
	if err != nil || !bytes.Equal(got, fileOf(1)) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := f.File.Write([]byte("x")); err == nil {
		t.Error("a whole file can be written to")
	}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestD01_DiskFull and TestD02_NoInodes fill a small file system.
func TestD01_DiskFull(t *testing.T) { fullDisk(t, "mode=0700,size=300k") }
func TestD02_NoInodes(t *testing.T) { fullDisk(t, "mode=0700,size=10m,nr_inodes=14") }

// D02: without an inode for its folders a cache cannot be opened, and one line says why.
func TestD02_NoInodesAtOpen(t *testing.T) {
	dir := cacheDir(t)
	mounted(t, dir, "tmpfs", "mode=0700,size=10m,nr_inodes=3")
	b, err := tryOpenAt(t, dir)
	if err == nil {
		b.Close()
		t.Fatal("a cache without folders was opened")
	}
	if !errors.Is(err, unix.ENOSPC) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %q, want one line of %v", err, unix.ENOSPC)
	}
}

func fullDisk(t *testing.T, options string) {
	dir := cacheDir(t)
	mounted(t, dir, "tmpfs", options)
	b := openAt(t, dir, func(o *Options) { o.testing.pause = time.Hour })
	for n := range 40 {
		_ = b.putRun(hashOf(n), runOf(t, n, chunks(0, 30), chunkSize))
		b.flush()
	}
	if b.saw(EventFull) != 1 || b.saw(EventSuspended) != 0 {
		t.Errorf("events %v", b.events)
	}
	stored := b.Stats().Chunks
	b.want(0, 0, 30, 30)
	b.Close()
	b = openAt(t, dir)
	found := 0
	for n := range 40 {
		found += b.has(n, 0, 30)
	}
	if found == 0 || found > stored {
		t.Errorf("%d chunks, %d were stored", found, stored)
	}
}

// TestD19_OthersNeedTheRoom fills the file system beside an idle cache. The cache makes room,
// and reports no event if nothing is left to evict.
func TestD19_OthersNeedTheRoom(t *testing.T) {
	dir := cacheDir(t)
	mounted(t, filepath.Dir(dir), "tmpfs", "mode=0700,size=4m")
	b := openAt(t, dir, func(o *Options) {
		o.MaxBytes, o.MinFree = 64<<20, 1<<20
		o.testing.spaceCheck = time.Millisecond
	})
	for n := range 40 {
		b.put(n, 0, 100)
	}
	others, err := os.Create(filepath.Join(filepath.Dir(dir), "others"))
	if err != nil {
		t.Fatal(err)
	}
	defer others.Close()
	for n := range int64(6) {
		before := b.Stats()
		if _, err := others.WriteAt(make([]byte, 400<<10), n*400<<10); err != nil {
			t.Fatal(err)
		}
		until(t, "there is room again", func() bool {
			var st unix.Statfs_t
			return unix.Statfs(dir, &st) == nil && int64(st.Bavail)*st.Bsize >= 1<<20
		})
		if after := b.Stats(); n > 2 && after.EvictedBytes == before.EvictedBytes {
			t.Errorf("%+v", after)
		}
	}
	if _, err := others.WriteAt(make([]byte, 1<<20), 2400<<10); err != nil {
		t.Fatal(err)
	}
	until(t, "nothing is left", func() bool { return b.Stats().Chunks == 0 })
	if b.saw(EventFull)+b.saw(EventSuspended) > 0 || b.Stats().State != "ok" {
		t.Errorf("%v", b.events)
	}
}

func TestFreeSpaceIsKept(t *testing.T) {
	dir := cacheDir(t)
	mounted(t, dir, "tmpfs", "mode=0700,size=1m")
	b := openAt(t, dir, func(o *Options) { o.MinFree = 400 << 10 })
	for n := range 200 {
		b.put(n, 0, 30)
		if free, _, err := b.Store.disk.Load().Space(); err != nil || free < 380<<10 {
			t.Fatalf("%d bytes are free, %v", free, err)
		}
	}
	b.want(199, 0, 30, 30)
	if b.Stats().Bytes < 300<<10 {
		t.Errorf("only %d bytes are used", b.Stats().Bytes)
	}
}

func TestD07_ReadOnly(t *testing.T) {
	dir := cacheDir(t)
	mounted(t, dir, "tmpfs", "mode=0700,size=4m")
	b := openAt(t, dir)
	b.put(1, 0, 30)
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	b.Close()
	remount := func(flags uintptr) {
		t.Helper()
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT|flags, "mode=0700,size=4m"); err != nil {
			t.Skip(err)
		}
	}
	remount(unix.MS_RDONLY)
	if _, err := tryOpenAt(t, dir); err == nil {
		t.Error("a store that cannot be written to was opened")
	}
	b = openAt(t, dir, func(o *Options) { o.Share = true })
	b.want(1, 0, 30, 30)
	b.Close()
	remount(0)
	b = openAt(t, dir)
	b.want(1, 0, 30, 30)
}

// TestD07_ReadOnlyAndEmpty finds no cache where none can be made.
func TestD07_ReadOnlyAndEmpty(t *testing.T) {
	dir := cacheDir(t)
	mounted(t, dir, "tmpfs", "mode=0700,size=4m")
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, "mode=0700,size=4m"); err != nil {
		t.Skip(err)
	}
	for _, name := range []string{"none", "empty"} {
		for _, share := range []bool{false, true} {
			_, err := tryOpenAt(t, filepath.Join(dir, name), func(o *Options) { o.Share = share })
			if !errors.Is(err, unix.EROFS) {
				t.Errorf("%s, share %v: %v, want %v", name, share, err, unix.EROFS)
			}
		}
	}
}

func TestD07_Removed(t *testing.T) {
	dir := cacheDir(t)
	b := openAt(t, dir)
	b.put(1, 0, 30)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	until(t, "it is noticed", func() bool {
		_ = b.putRun(hashOf(2), runOf(t, 2, chunks(0, 30), chunkSize))
		_ = b.putRun(hashOf(2), runOf(t, 2, chunks(0, 8000), 20))
		_ = b.Sync()
		b.has(1, 0, 30)
		return b.saw(EventSuspended) == 1
	})
	time.Sleep(30 * time.Millisecond)
	if b.saw(EventResumed) != 0 {
		t.Error("it resumed without a folder")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	until(t, "it resumes", func() bool { return b.saw(EventResumed) == 1 })
	b.want(1, 0, 30, 0)
	b.put(3, 0, 30)
	b.want(3, 0, 30, 30)
}

// TestD12_OtherThings puts what is no file in the place of one.
func TestD12_OtherThings(t *testing.T) {
	things := []struct {
		name string
		put  func(path string) error
	}{
		{"link", func(path string) error { return os.Symlink("/etc/passwd", path) }},
		{"FIFO", func(path string) error { return unix.Mkfifo(path, 0o600) }},
		{"folder", func(path string) error { return os.Mkdir(path, 0o700) }},
		{"device", func(path string) error { return unix.Mknod(path, unix.S_IFCHR|0o600, 1<<8|5) }},
	}
	for _, name := range []string{"seg/00000001", "whole/" + hashOf(1).String(), "index-000001.log", vfs.LockName, formatName} {
		for _, tt := range things {
			t.Run(tt.name+" for "+filepath.Base(name), func(t *testing.T) {
				dir := cacheDir(t)
				b := openAt(t, dir)
				b.put(1, 0, 20)
				if err := errors.Join(b.putFile(1), b.Close(), os.Remove(filepath.Join(dir, name))); err != nil {
					t.Fatal(err)
				}
				if err := tt.put(filepath.Join(dir, name)); err != nil {
					t.Skip(err)
				}
				b, err := tryOpenAt(t, dir)
				if err != nil {
					if name != vfs.LockName && name != formatName {
						t.Error(err)
					}
					return
				}
				b.has(1, 0, 20)
				_, _ = b.OpenFile(hashOf(1))
				b.put(2, 0, 20)
				b.want(2, 0, 20, 20)
			})
		}
	}
}

// TestD12_WhileItRuns does it to a store that is open.
func TestD12_WhileItRuns(t *testing.T) {
	dir := cacheDir(t)
	b := openAt(t, dir)
	b.keepFile(1)
	path := filepath.Join(dir, index.FileName(hashOf(1)))
	if err := errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, ok := b.OpenFile(hashOf(1)); ok || b.saw(EventDropped) != 1 {
		t.Errorf("a FIFO was opened as a file; events %v", b.events)
	}
}

func TestWholeThatSomebodyChanged(t *testing.T) {
	dir := cacheDir(t)
	b := openAt(t, dir)
	b.keepFile(1)
	f, err := os.OpenFile(filepath.Join(dir, index.FileName(hashOf(1))), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Millisecond) // the clock of the file system ticks
	if _, err := f.WriteAt([]byte{0}, 0); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, ok := b.OpenFile(hashOf(1)); ok {
		t.Error("it is returned")
	}
}

// TestWholeDeletedWhileOpen reads an open file after its deletion, which changes its ctime.
func TestWholeDeletedWhileOpen(t *testing.T) {
	dir := cacheDir(t)
	b := openAt(t, dir)
	b.keepFile(1)
	f := b.openFile(1)
	time.Sleep(10 * time.Millisecond) // the clock of the file system ticks
	if err := b.Clear(); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(fileOf(1)))
	if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, fileOf(1)) || !f.Sound() {
		t.Errorf("%v, sound %v; or the bytes are wrong", err, f.Sound())
	}
	if b.hasFile(1) || b.saw(EventDropped) > 0 {
		t.Errorf("it is returned; %v", b.events)
	}
}

// TestD19_ManyWriters has 64 of them at the limit, and looks at the disk meanwhile.
func TestD19_ManyWriters(t *testing.T) {
	t.Parallel()
	dir := cacheDir(t)
	const limit = 2 << 20
	b := openAt(t, dir, func(o *Options) { o.MaxBytes = limit })
	var writers sync.WaitGroup
	var most atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for b.Store.stats.written.Load() < 8<<20 && !t.Failed() {
			most.Store(max(most.Load(), allocated(dir)))
		}
	}()
	for w := range 64 {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 0))
			for b.Store.stats.written.Load() < 8<<20 {
				n, c := rng.IntN(400), uint32(rng.IntN(100))
				_ = b.putRun(hashOf(n), runOf(t, n, chunks(c, c+20), 2000))
				run, ok := b.Run(hashOf(n), chunks(c, c+2))
				if ok && !bytes.Equal(run.Packed, packedOf(n, run.Chunks, 2000)) {
					t.Error("wrong bytes")
				}
				if !ok {
					_ = b.Flush(t.Context())
				}
			}
		})
	}
	writers.Wait()
	<-done
	if s := b.Stats(); most.Load() > limit || s.PeakBytes > limit || most.Load() < limit/2 {
		t.Errorf("%d bytes on disk, %d by the store's own count, %d is the limit", most.Load(), s.PeakBytes, limit)
	}
}

// allocated returns what the files in a folder take.
func allocated(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil
		}
		var st unix.Stat_t
		if unix.Lstat(path, &st) == nil {
			n += st.Blocks * 512
		}
		return nil
	})
	return n
}

// TestD20_EvictedWhileRead reads what is just being thrown away.
func TestD20_EvictedWhileRead(t *testing.T) {
	t.Parallel()
	b := open(t, newSimDisk(), func(o *Options) { o.MaxBytes = 400 << 10 })
	var readers sync.WaitGroup
	var found atomic.Int64
	stop := make(chan struct{})
	for w := range 8 {
		readers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 0))
			for {
				select {
				case <-stop:
					return
				default:
				}
				n, c := rng.IntN(40), uint32(rng.IntN(20))
				run, ok := b.Run(hashOf(n), chunks(c, c+5))
				if ok {
					found.Add(1)
				}
				if ok && !bytes.Equal(run.Packed, packedOf(n, run.Chunks, chunkSize)) {
					t.Error("wrong bytes")
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(99, 0))
	for i := 0; i < 250 || found.Load() == 0 && i < 25_000; i++ { // more where the readers get no turn
		b.put(rng.IntN(40), 0, 25)
	}
	close(stop)
	readers.Wait()
	if s := b.Stats(); found.Load() == 0 || s.EvictedBytes == 0 || s.Dropped > 0 || s.State != "ok" {
		t.Errorf("%d found, %+v, %v", found.Load(), s, b.events)
	}
}

// TestD21_Clock changes the times of all files. Those of segments do not matter.
func TestD21_Clock(t *testing.T) {
	dir := cacheDir(t)
	for _, year := range []time.Duration{-365 * 24 * time.Hour, 365 * 24 * time.Hour} {
		b := openAt(t, dir)
		b.put(1, 0, 30)
		b.Close()
		then := time.Now().Add(year)
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			return errors.Join(err, os.Chtimes(path, then, then))
		})
		if err != nil {
			t.Fatal(err)
		}
		b = openAt(t, dir)
		b.want(1, 0, 30, 30)
		b.Close()
	}
}

func TestD22_FolderOfOthers(t *testing.T) {
	dir := cacheDir(t)
	openAt(t, dir).Close()
	for _, mode := range []os.FileMode{0o777, 0o770, 0o702} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := tryOpenAt(t, dir, func(o *Options) { o.Share = true }); !errors.Is(err, ErrRefused) {
			t.Errorf("mode %v: %v, want ErrRefused", mode, err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	openAt(t, dir).Close()
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if os.Chown(dir, 12345, -1) == nil {
		if _, err := tryOpenAt(t, dir); !errors.Is(err, ErrRefused) {
			t.Errorf("owned by another user: %v, want ErrRefused", err)
		}
	}
}

// D30: a cache with a foreign file where a store deletes files keeps its mode and the file.
func TestD30_ForeignNamesOnDisk(t *testing.T) {
	for _, name := range []string{"seg/notes.txt", "whole/thesis.txt"} {
		dir := cacheDir(t)
		openAt(t, dir).Close()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(path, []byte("x"), 0o644)); err != nil {
			t.Fatal(err)
		}
		if _, err := tryOpenAt(t, dir, func(o *Options) { o.Share = true }); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v, want ErrRefused", name, err)
		}
		st, err := os.Stat(dir)
		if _, gone := os.Stat(path); errors.Join(err, gone) != nil || st.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, mode %v", name, gone, st.Mode())
		}
	}
}

// A folder of other things stays exactly as it is.
func TestD22_FolderOfOtherThings(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "thesis.txt"), []byte("x"), 0o644)); err != nil {
		t.Fatal(err)
	}
	if _, err := tryOpenAt(t, dir); !errors.Is(err, ErrRefused) {
		t.Errorf("%v, want ErrRefused", err)
	}
	names, err := os.ReadDir(dir)
	st, statErr := os.Stat(dir)
	if err := errors.Join(err, statErr); err != nil {
		t.Fatal(err)
	}
	if len(names) != 1 || st.Mode().Perm() != 0o755 {
		t.Errorf("%d names, mode %v", len(names), st.Mode())
	}
}

// TestD23_Overlay keeps a cache on a file system that cannot do much.
func TestD23_Overlay(t *testing.T) {
	dir := t.TempDir()
	top := filepath.Join(dir, "tmpfs") // an overlay wants none of it to be an overlay itself
	mounted(t, top, "tmpfs", "size=8m")
	for _, name := range []string{"lower", "upper", "work"} {
		if err := os.Mkdir(filepath.Join(top, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	merged := filepath.Join(dir, "merged")
	mounted(t, merged, "overlay", "lowerdir="+top+"/lower,upperdir="+top+"/upper,workdir="+top+"/work")
	b := openAt(t, filepath.Join(merged, "cache"))
	for n := range 60 {
		b.put(n, 0, 40)
	}
	if err := errors.Join(b.putFile(1), b.Close()); err != nil {
		t.Fatal(err)
	}
	b = openAt(t, filepath.Join(merged, "cache"))
	b.want(59, 0, 40, 40)
	if !b.hasFile(1) {
		t.Error("no whole file")
	}
}

// The child process of TestKill9 finds its folder here.
const childDir = "XETFS_DISK_TEST_CHILD"

var kills = flag.Int("kills", 10, "how often TestKill9 kills")

// TestKill9 kills a process that reads, puts and evicts, at random moments, again and
// again over the same cache. No wrong byte may come out, and what it had said to be
// flushed exists unless it was evicted.
func TestKill9(t *testing.T) {
	if dir := os.Getenv(childDir); dir != "" {
		child(t, dir)
		return
	}
	rounds := *kills
	if codectest.Race {
		rounds = 3
	}
	dir := cacheDir(t)
	rng := rand.New(rand.NewPCG(7, 7))
	found, busy := 0, 0
	for range rounds {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKill9$")
		cmd.Env = append(os.Environ(), childDir+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
			t.Fatal("the child did not begin: ", err)
		}
		if _, err := tryOpenAt(t, dir, childOptions); errors.Is(err, ErrBusy) {
			busy++
		}
		time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		b := openAt(t, dir, childOptions) // the lock went with the process
		for n := range loadXorbs {
			for c := uint32(0); c < loadChunks; c += 10 {
				found += b.has(n, c, c+10)
			}
		}
		for n := range loadWholes {
			b.hasFile(n)
		}
		b.Close()
	}
	t.Logf("%d kills, %d chunks were right afterwards", rounds, found)
	if found < 100*rounds || busy < rounds {
		t.Errorf("%d chunks found, %d times the folder was busy, in %d rounds", found, busy, rounds)
	}
}

func childOptions(o *Options) {
	loadOptions(o)
	o.MaxBytes = 2 << 20
	o.SyncBytes = 300 << 10
}

func child(t *testing.T, dir string) {
	b := openAt(t, dir, childOptions)
	b.disk = newSimDisk()
	l := newLoad(b, uint64(os.Getpid()))
	for range 100 {
		l.step()
	}
	if _, err := os.Stdout.WriteString("!"); err != nil {
		t.Fatal(err)
	}
	for {
		l.step()
	}
}

// openBelow returns what this process has open in a folder.
func openBelow(t testing.TB, dir string) (names []string) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	for _, fd := range fds {
		name, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name()))
		if err == nil && strings.HasPrefix(name, dir) {
			names = append(names, name)
		}
	}
	return names
}

// TestCloseLeavesNothingOpen closes stores of all kinds.
func TestCloseLeavesNothingOpen(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Options)
		before func(b *fixture)
	}{
		{"healthy", func(*Options) {}, func(*fixture) {}},
		{"suspended", func(*Options) {}, func(b *fixture) {
			for range maxFailures {
				b.failed("reading", errTimeout)
			}
		}},
		{"shared", waiting, func(*fixture) {}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := cacheDir(t)
			owner := openAt(t, dir)
			owner.put(1, 0, 10)
			if tt.name != "shared" {
				owner.Close()
			}
			before := len(openBelow(t, dir))
			b := openAt(t, dir, tt.change)
			b.want(1, 0, 10, 10)
			tt.before(b)
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			if files := openBelow(t, dir); len(files) > before {
				t.Errorf("still open: %v", files)
			}
		})
	}
}

// TestOpenFailsAndLeavesNothingOpen cannot list the folder when all but that is done.
func TestOpenFailsAndLeavesNothingOpen(t *testing.T) {
	dir := cacheDir(t)
	lists := 0
	_, err := tryOpenAt(t, dir, func(o *Options) {
		o.testing.openDir = func(dir string, write bool) (vfs.Dir, error) {
			f, err := vfs.OpenDir(dir, write)
			return thirdListFails{f, &lists}, err
		}
	})
	if !errors.Is(err, unix.EIO) {
		t.Fatalf("error = %v, want %v", err, unix.EIO)
	}
	if files := openBelow(t, dir); len(files) > 0 {
		t.Errorf("still open: %v", files)
	}
}

type thirdListFails struct {
	vfs.Dir
	lists *int
}

func (f thirdListFails) List(dir string) ([]vfs.FileInfo, error) {
	if dir == "" {
		*f.lists++
	}
	if *f.lists == 3 {
		return nil, unix.EIO
	}
	return f.Dir.List(dir)
}

// TestReadAsItCloses has readers come when the folder was just closed, which is no damage.
func TestReadAsItCloses(t *testing.T) {
	b := openAt(t, cacheDir(t))
	b.put(1, 0, 20)
	b.keepFile(1)
	if err := b.Store.disk.Load().close(); err != nil {
		t.Fatal(err)
	}
	b.want(1, 0, 20, 0)
	if b.hasFile(1) {
		t.Error("a whole file was opened")
	}
	if s := b.Stats(); s.Dropped > 0 || s.Chunks != 20 || s.Wholes != 1 || len(b.events) > 0 {
		t.Errorf("%+v, %v", s, b.events)
	}
}

// TestD17_ForkedAsItCloses closes a store while a child that was just forked, and has not begun
// its own program, has all files of this process.
func TestD17_ForkedAsItCloses(t *testing.T) {
	dir := cacheDir(t)
	b := openAt(t, dir)
	child, err := unix.Dup(lockFD(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(child)
	b.Close()
	openAt(t, dir)
}

// lockFD returns the descriptor of the file LOCK that this process has open.
func lockFD(t testing.TB, dir string) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if name, _ := os.Readlink("/proc/self/fd/" + fd.Name()); name == filepath.Join(dir, vfs.LockName) {
			n, err := strconv.Atoi(fd.Name())
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no open file LOCK")
	return -1
}

package disk

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
)

// stealthily changes a byte of a file of which the time of change stays what it was.
func stealthily(t testing.TB, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Millisecond) // the clock of the file system ticks
	b[len(b)/2] ^= 1
	if err := errors.Join(os.WriteFile(path, b, 0), os.Chtimes(path, time.Time{}, info.ModTime())); err != nil {
		t.Fatal(err)
	}
}

// rot changes a byte of a file without touching it.
func (d *simDisk) rot(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.names[name]
	f.data = bytes.Clone(f.data)
	f.data[len(f.data)/2] ^= 1
}

// TestD09_WholeChangedByStealth writes to a file and resets its mtime, while a store has the
// folder open and between two stores. No open returns wrong bytes.
func TestD09_WholeChangedByStealth(t *testing.T) {
	for _, how := range []string{"while it is open", "while it is closed", "while it is shared"} {
		t.Run(how, func(t *testing.T) {
			dir := cacheDir(t)
			b := openAt(t, dir)
			b.keepFile(1)
			switch how {
			case "while it is closed":
				b.Close()
				stealthily(t, filepath.Join(dir, index.FileName(hashOf(1))))
				b = openAt(t, dir)
			case "while it is shared":
				b = openAt(t, dir, func(o *Options) { o.Share = true })
				fallthrough
			default:
				stealthily(t, filepath.Join(dir, index.FileName(hashOf(1))))
			}
			until(t, "it is found to be damaged", func() bool {
				if b.hasFile(1) {
					t.Fatal("it is returned")
				}
				return b.saw(EventDropped) == 1
			})
			if b.Shared() {
				return
			}
			if err := b.putFile(1); err != nil || !b.hasFile(1) {
				t.Errorf("materialized again: %v", err)
			}
		})
	}
}

// TestD09_WholeTouched changes the mode of a file, like a restored backup. The file is compared
// once. After that it can be opened, also by the next store.
func TestD09_WholeTouched(t *testing.T) {
	for _, how := range []string{"while it is open", "while it is closed"} {
		t.Run(how, func(t *testing.T) {
			dir := cacheDir(t)
			b := openAt(t, dir)
			b.keepFile(1)
			if how == "while it is closed" {
				b.Close()
			}
			time.Sleep(10 * time.Millisecond) // the clock of the file system ticks
			if err := os.Chmod(filepath.Join(dir, index.FileName(hashOf(1))), 0o400); err != nil {
				t.Fatal(err)
			}
			if how == "while it is closed" {
				b = openAt(t, dir)
			}
			if b.hasFile(1) {
				t.Error("it is returned at once")
			}
			until(t, "it is returned", func() bool { return b.hasFile(1) })
			b.Close()
			b = openAt(t, dir)
			if !b.hasFile(1) || b.saw(EventDropped) > 0 {
				t.Errorf("it is not returned by the next; %v", b.events)
			}
		})
	}
}

// TestD09_WholeOfEarlierJournal reads a journal that does not say when a file was touched.
func TestD09_WholeOfEarlierJournal(t *testing.T) {
	for _, how := range []string{"looked up", "opened", "materialized", "materialized, and damaged", "verified"} {
		t.Run(how, func(t *testing.T) {
			b := open(t, newSimDisk())
			b.keepFile(1)
			k := b.writer.Load()
			err := k.do(func() error {
				w := k.d.index.File(hashOf(1))
				w.CTime.Store(0)
				k.recordCtime(k.d, w)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			b = b.again()
			switch how {
			case "looked up": // this starts the comparison, so that a second call may find the file
				if b.HasFile(hashOf(1)) {
					t.Error("it is returned at once")
				}
			case "opened":
				if b.hasFile(1) {
					t.Error("it is returned at once")
				}
			case "materialized":
				err = b.PutFile(hashOf(1), int64(len(fileOf(1))), failingReader{})
			case "materialized, and damaged":
				b.disk.rot(index.FileName(hashOf(1)))
				err = b.putFile(1)
			case "verified":
				_, err = b.Verify(t.Context(), func(e Entry, err error) { t.Error(e, err) })
			}
			if err != nil {
				t.Error(err)
			}
			until(t, "it is returned", func() bool { return b.hasFile(1) })
			if b = b.again(); !b.hasFile(1) {
				t.Error("it is in doubt again")
			}
			b.Close()
			if got := b.disk.bytes(); got != b.Stats().Bytes {
				t.Errorf("%d bytes on disk, %d by the store's own count", got, b.Stats().Bytes)
			}
		})
	}
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("unexpected read") }

// TestD09_WholeRots changes a byte without a new ctime, like a bad disk. The first open may
// succeed, the next one fails.
func TestD09_WholeRots(t *testing.T) {
	t.Parallel()
	d := newSimDisk()
	b := open(t, d)
	if err := errors.Join(b.putFile(1), b.putFile(2)); err != nil {
		t.Fatal(err)
	}
	d.rot(index.FileName(hashOf(1)))
	b = b.again()
	f, ok := b.OpenFile(hashOf(1))
	if !ok || !b.hasFile(2) {
		t.Fatal("it is not returned before it was compared")
	}
	until(t, "it is found to be damaged", func() bool { return b.saw(EventDropped) == 1 })
	if b.hasFile(1) || !b.hasFile(2) {
		t.Error("the damaged one is returned, or the other one is not")
	}
	if !b.WasCorrupt(hashOf(1)) || b.WasCorrupt(hashOf(2)) {
		t.Error("it is not known that it was damaged, or that the other one was not")
	}
	if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, errChecksum) || f.Sound() {
		t.Errorf("read of the damaged one: %v, want %v; sound %v", err, errChecksum, f.Sound())
	}
	f.Close()
	until(t, "it is deleted", func() bool { return !d.there(index.FileName(hashOf(1))) })
	b.again(func(o *Options) { o.MaxBytes *= 2 }).hasFile(2)
}

// TestD09_WholeRots changes a byte without a new ctime, like a bad disk. The first open may
// succeed, the next one fails.
func TestD09_WholeRotsLater(t *testing.T) {
	t.Parallel()
	d := newSimDisk()
	var opens atomic.Int64
	d.setFault(func(op, name string) error {
		if op == "open" && name == index.FileName(hashOf(1)) {
			opens.Add(1)
		}
		return nil
	})
	b := open(t, d)
	b.keepFile(1)
	for range 10 {
		b.hasFile(1)
	}
	time.Sleep(20 * time.Millisecond)
	if n := opens.Load(); n != 10 {
		t.Errorf("opened %d times for 10 readers of what was just materialized", n)
	}
	b = b.again(func(o *Options) { o.testing.recheck = time.Nanosecond })
	b.hasFile(1)
	until(t, "it is compared", func() bool { return opens.Load() == 12 })
	w := b.Store.disk.Load().index.File(hashOf(1))
	until(t, "it is found to be sound", func() bool { return w.Due.Load() != isQueued })
	d.rot(index.FileName(hashOf(1)))
	if f, ok := b.OpenFile(hashOf(1)); ok {
		f.Close()
	}
	until(t, "it is found to be damaged", func() bool { return b.saw(EventDropped) == 1 })
}

// putLarge lays a file of zeros down as the first.
func (b *fixture) putLarge(size int64) {
	b.t.Helper()
	if err := b.PutFile(hashOf(1), size, io.LimitReader(zeros{}, size)); err != nil {
		b.t.Fatal(err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func largeWhole(o *Options) { o.MaxBytes = 1 << 30 }

// TestCheckEndsWithTheStore closes a store that compares a large file: it reads a little of
// it and no more.
func TestCheckEndsWithTheStore(t *testing.T) {
	t.Parallel()
	const blocks = 64
	d := newSimDisk()
	b := open(t, d, largeWhole)
	b.putLarge(blocks * verifyBytes)
	b = b.again(largeWhole)
	var reads atomic.Int64
	d.setFault(func(op, name string) error {
		if op == "read" && name == index.FileName(hashOf(1)) {
			reads.Add(1)
		}
		return nil
	})
	b.openFile(1)
	until(t, "it is compared", func() bool { return reads.Load() > 1 })
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	n := reads.Load()
	if n == blocks {
		t.Error("it read the whole file")
	}
	time.Sleep(100 * time.Millisecond)
	if reads.Load() != n {
		t.Error("it goes on after Close")
	}
}

func TestVerifyEndsInTheMiddleOfAFile(t *testing.T) {
	t.Parallel()
	const blocks = 16
	d := newSimDisk()
	b := open(t, d, largeWhole)
	b.putLarge(blocks * verifyBytes)
	ctx, cancel := context.WithCancel(t.Context())
	reads := 0
	d.setFault(func(op, name string) error {
		if op == "read" && name == index.FileName(hashOf(1)) {
			if reads++; reads == 3 {
				cancel()
			}
		}
		return nil
	})
	n, err := b.Verify(ctx, func(e Entry, err error) { t.Errorf("%v: %v", e, err) })
	if !errors.Is(err, context.Canceled) || n != 0 || reads != 3 {
		t.Errorf("%d entries after %d reads, error %v", n, reads, err)
	}
	if !b.HasFile(hashOf(1)) {
		t.Error("the file is forgotten")
	}
}

// TestD09_VerifiedByAnother damages a file and lets a process compare it that may not delete it.
// The owner does not serve the file any more.
func TestD09_VerifiedByAnother(t *testing.T) {
	dir := cacheDir(t)
	owner := openAt(t, dir)
	if err := errors.Join(owner.putFile(1), owner.Sync()); err != nil {
		t.Fatal(err)
	}
	verifier := openAt(t, dir, func(o *Options) { o.Share = true })
	path := filepath.Join(dir, index.FileName(hashOf(1)))
	stealthily(t, path)
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	for _, b := range []*fixture{owner, verifier} {
		b.Store.disk.Load().index.File(hashOf(1)).CTime.Store(st.Ctim.Nano())
	}
	if f, ok := owner.OpenFile(hashOf(1)); !ok {
		t.Fatal("it is seen from outside")
	} else {
		defer f.Close()
	}
	time.Sleep(10 * time.Millisecond) // the clock of the file system ticks
	found := 0
	if _, err := verifier.Verify(t.Context(), func(Entry, error) { found++ }); err != nil || found != 1 {
		t.Errorf("%d faults, %v", found, err)
	}
	if f, ok := owner.OpenFile(hashOf(1)); ok {
		f.Close()
		t.Error("the owner gives it out")
	}
	until(t, "the owner deletes it", func() bool {
		_, err := os.Stat(path)
		return os.IsNotExist(err) && owner.saw(EventDropped) == 1
	})
}

// suspend suspends a store until resume is called.
func (b *fixture) suspend() (resume func()) {
	b.t.Helper()
	var works atomic.Bool
	b.disk.addFault(func(op, name string) error {
		if name == vfs.ProbeName && !works.Load() {
			return unix.EIO
		}
		return nil
	})
	for range maxFailures {
		b.failed("reading", errTimeout)
	}
	return func() {
		b.t.Helper()
		before := b.saw(EventResumed)
		works.Store(true)
		until(b.t, "it resumes", func() bool { return b.saw(EventResumed) > before })
	}
}

// addFault is setFault that keeps the former fault.
func (d *simDisk) addFault(f func(op, name string) error) {
	d.mu.Lock()
	before := d.fault
	d.mu.Unlock()
	d.setFault(func(op, name string) error {
		if before != nil {
			if err := before(op, name); err != nil {
				return err
			}
		}
		return f(op, name)
	})
}

// TestD09_CorruptWhileSuspended suspends a store during the comparison of a corrupt file. The store does
// not return the file after it has resumed.
func TestD09_CorruptWhileSuspended(t *testing.T) {
	for name, resumesBefore := range map[string]bool{"found before the store resumes": false, "found after the store has resumed": true} {
		t.Run(name, func(t *testing.T) {
			d := newSimDisk()
			b := open(t, d)
			b.keepFile(1)
			b.keepFile(2)
			b = b.again()
			d.rot(index.FileName(hashOf(1)))
			comparing, proceed, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
			wait, end := sync.OnceFunc(func() { close(comparing); <-proceed }), sync.OnceFunc(func() { close(ended) })
			d.setFault(func(op, name string) error {
				switch {
				case op == "read" && name == index.FileName(hashOf(1)):
					wait()
				case op == "read" && name == index.FileName(hashOf(2)):
					end()
				}
				return nil
			})
			b.openFile(1)
			<-comparing
			resume := b.suspend()
			if !resumesBefore {
				close(proceed)
				until(t, "it is found corrupt", func() bool { return b.WasCorrupt(hashOf(1)) })
			}
			resume()
			if resumesBefore {
				close(proceed)
			}
			b.openFile(2) // its comparison follows that of the first
			<-ended
			until(t, "it is deleted", func() bool {
				if b.hasFile(1) { // it fails for wrong bytes
					t.Fatal("it is returned")
				}
				return !d.there(index.FileName(hashOf(1)))
			})
		})
	}
}

// TestD09_ReplacedWhenSuspended suspends a store that has a good copy of a file that was corrupt.
func TestD09_ReplacedWhenSuspended(t *testing.T) {
	d := newSimDisk()
	b := open(t, d)
	b.keepFile(1)
	b = b.again()
	d.rot(index.FileName(hashOf(1)))
	b.openFile(1).Close()
	until(t, "it is deleted", func() bool { return !d.there(index.FileName(hashOf(1))) })
	b.keepFile(1)
	b.suspend()()
	until(t, "it is returned", func() bool { return b.hasFile(1) })
	if n := b.saw(EventDropped); n != 1 {
		t.Errorf("%d files were dropped, want 1", n)
	}
}

// TestD09_CorruptAfterSuspended closes a store that is suspended and has found a file corrupt. The next
// store does not return the file.
func TestD09_CorruptAfterSuspended(t *testing.T) {
	dir := cacheDir(t)
	b := openAt(t, dir, func(o *Options) { o.testing.probe = time.Hour })
	b.keepFile(1)
	path := filepath.Join(dir, index.FileName(hashOf(1)))
	stealthily(t, path)
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	wr := b.writer.Load()
	w := wr.d.index.File(hashOf(1))
	w.CTime.Store(st.Ctim.Nano()) // as if the disk had changed the byte
	if err := wr.do(func() error { wr.recordCtime(wr.d, w); return nil }); err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Millisecond) // the clock of the file system ticks
	for range maxFailures {
		b.failed("reading", errTimeout)
	}
	if err := b.scrubFile(t.Context(), wr.d, w, nil); !errors.Is(err, errChecksum) {
		t.Fatal(err)
	}
	b.Close()
	b = openAt(t, dir)
	until(t, "it is found corrupt", func() bool {
		if b.hasFile(1) {
			t.Fatal("it is returned")
		}
		return b.saw(EventDropped) == 1
	})
}

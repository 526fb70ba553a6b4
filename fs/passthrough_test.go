package fs

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/sequence"
)

// A keptMount is a mount of one file that can be materialized on command.
type keptMount struct {
	mountFixture
	t    *testing.T
	e    *fakeEngine
	file page.Entry
	want []byte
	disk string
}

func mountKept(t *testing.T, size int, o Options) keptMount {
	t.Helper()
	e := newFakeEngine()
	want := pattern(size)
	file := e.file("f", want)
	m := keptMount{mountFake(t, newFakeTree(file), e, o), t, e, file, want, t.TempDir()}
	if !o.Stateless && m.s.files.passthrough.kernel == nil {
		t.Skip("this kernel has no FUSE passthrough")
	}
	return m
}

// keep lays the file down whole.
func (m keptMount) keep() { m.e.keep(m.t, m.disk, m.file) }

func (m keptMount) open(flags int) *os.File {
	m.t.Helper()
	fd, err := unix.Open(m.path("f"), unix.O_RDONLY|flags, 0)
	if err != nil {
		m.t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "f")
}

// check reads all of an open file.
func (m keptMount) check(f *os.File) {
	m.t.Helper()
	got, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<40))
	if err != nil || !bytes.Equal(got, m.want) {
		m.t.Errorf("read %d bytes, %v, want %d; or they differ", len(got), err, len(m.want))
	}
}

// checkOnce opens the file to read all of it.
func (m keptMount) checkOnce() {
	m.t.Helper()
	f := m.open(0)
	defer f.Close()
	m.check(f)
}

// closed waits until no file is open. The kernel does not wait for RELEASE.
func (m keptMount) closed() {
	m.t.Helper()
	eventually(m.t, "all is given back", func() bool {
		p := m.s.files.passthrough
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.inodes) == 0 && m.e.plains.Load() == 0 && m.e.streams.Load() == 0 && m.s.files.files.len() == 0
	})
}

func (m keptMount) counts() FileStats { return m.s.files.counters.files(sequence.Stats{}) }

func TestPassthrough_NoReads(t *testing.T) {
	m := mountKept(t, 3<<20+17, Options{})
	m.keep()
	f := m.open(0)
	m.check(f)
	mapped, err := unix.Mmap(int(f.Fd()), 0, len(m.want), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	m.closed() // the mapping is of the file below, which the mount has forgotten
	if err := os.Remove(m.e.kept[m.file.ID.File]); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(mapped, m.want) {
		t.Error("the mapping has other bytes")
	}
	if err := unix.Munmap(mapped); err != nil {
		t.Fatal(err)
	}
	if got, want := m.counts(), (FileStats{Open: 1, Passthrough: 1}); got != want {
		t.Errorf("messages = %+v, want %+v", got, want)
	}
}

// The first open decides how an inode is read, and later opens follow.
func TestPassthrough_FirstOpenDecides(t *testing.T) {
	m := mountKept(t, 1<<20, Options{})
	before := m.open(0)
	m.check(before)
	m.keep()
	beside := m.open(0)
	m.check(beside)
	before.Close()
	if got := m.counts().Passthrough; got != 0 {
		t.Errorf("%d opens passed through while the inode was in the page cache", got)
	}
	beside.Close()
	m.closed()

	reads := m.counts().Read
	first := m.open(0)
	m.check(first)
	m.e.drop(m.file) // as if it had been thrown out, or was damaged
	second := m.open(0)
	m.check(second)
	first.Close()
	third := m.open(0)
	m.check(third)
	second.Close()
	third.Close()
	m.closed()
	if got := m.counts(); got.Passthrough != 3 || got.Read != reads {
		t.Errorf("messages = %+v, want 3 passed through and %d reads", got, reads)
	}
	m.checkOnce()
	m.closed()
	if got := m.counts().Passthrough; got != 3 {
		t.Errorf("%d opens passed through, and the file is not kept any more", got)
	}
}

// O_DIRECT needs no alignment, as where the file is not kept.
func TestPassthrough_Direct(t *testing.T) {
	for _, kept := range []bool{false, true} {
		m := mountKept(t, 300_001, Options{})
		if kept {
			m.keep()
		}
		f := m.open(unix.O_DIRECT)
		p := make([]byte, 100_003)
		for _, off := range []int64{0, 1, 511, 4096, 250_000, 300_000, 300_001} {
			want := m.want[off:min(off+100_001, int64(len(m.want)))]
			n, err := unix.Pread(int(f.Fd()), p[1:100_002], off)
			if err != nil || !bytes.Equal(p[1:1+max(n, 0)], want) {
				t.Errorf("kept %t: read at %d = %d, %v, want %d bytes", kept, off, n, err, len(want))
			}
		}
		m.checkOnce()
		f.Close()
		m.closed()
	}
}

// A file with passthrough remains readable to its end after an unmount.
func TestPassthrough_Unmount(t *testing.T) {
	m := mountKept(t, 1<<20, Options{})
	m.keep()
	f := m.open(0)
	defer f.Close()
	if err := m.s.Unmount(); !errors.Is(err, unix.EBUSY) {
		t.Errorf("Unmount with an open file: %v, want EBUSY", err)
	}
	if err := m.s.Shutdown(10 * time.Millisecond); err != nil {
		t.Error(err)
	}
	m.closed()
	m.check(f)
}

// A refuser is a kernel that takes no file.
type refuser struct{ errno syscall.Errno }

func (r refuser) RegisterBackingFd(*fuse.BackingMap) (int32, syscall.Errno) { return 0, r.errno }
func (r refuser) UnregisterBackingFd(int32) syscall.Errno                   { return unix.ENOENT }

func TestPassthrough_Refused(t *testing.T) {
	tests := []struct {
		name   string
		kernel backer
		lines  int // in the log
	}{
		{"old kernel", nil, 1},
		{"no rights", refuser{unix.EPERM}, 1},
		{"stacked too deep", refuser{unix.ELOOP}, 1},
		{"no memory", refuser{unix.ENOMEM}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			log := newSyncBuffer()
			m := mountKept(t, 3<<20+17, Options{Logger: logger(log)})
			m.s.files.passthrough.kernel = tt.kernel
			m.keep()
			for range 3 {
				f := m.open(0)
				if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
					t.Fatal(err)
				}
				m.check(f)
				f.Close()
			}
			m.closed()
			if got := log.lines("event=passthrough_refused"); len(got) != tt.lines {
				t.Errorf("log = %q, want %d lines", got, tt.lines)
			}
			if got := m.counts(); got.Passthrough != 0 || got.Spliced == 0 || got.Bytes < 3*int64(len(m.want)) { // the kernel may read a page twice
				t.Errorf("messages = %+v, want some spliced", got)
			}
		})
	}
}

// A plain file that cannot be spliced is no reason for a read to fail, or to be short.
func TestPassthrough_SpliceFails(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(m keptMount)
		damage  func(path string) error
	}{
		{"unreadable", func(m keptMount) { m.e.writeOnly.Store(true) }, func(string) error { return nil }},
		{"cut off", func(keptMount) {}, func(path string) error { return os.Truncate(path, 100_000) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := mountKept(t, 1<<20, Options{})
			m.s.files.passthrough.kernel = nil
			m.keep()
			tt.prepare(m)
			f := m.open(0)
			defer f.Close()
			if err := tt.damage(m.e.kept[m.file.ID.File]); err != nil {
				t.Fatal(err)
			}
			m.check(f)
			broken := errors.New("broken on purpose")
			m.e.readErr.Store(&broken)
			if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
				t.Fatal(err)
			}
			if _, err := f.ReadAt(make([]byte, 1<<20), 0); !errors.Is(err, unix.EIO) {
				t.Errorf("nothing can be read: %v, want EIO", err)
			}
		})
	}
}

// A reader that is killed is gone, also where what it reads could not be spliced and now has
// to come from elsewhere.
func TestPassthrough_KilledReader(t *testing.T) {
	m := mountKept(t, 1<<20, Options{})
	m.s.files.passthrough.kernel = nil
	m.keep()
	m.e.block = make(chan struct{})
	m.e.writeOnly.Store(true) // the last step: later readers see the difference
	cmd := exec.Command("dd", "if="+m.path("f"), "of=/dev/null", "bs=1M", "count=1", "iflag=direct")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is read", func() bool { return m.e.reading.Load() > 0 })
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("it is still there")
		close(m.e.block)
		<-ended
	}
	m.closed()
}

// A file was found corrupt while it is open. A new open reads the right bytes, from the origin.
func TestPassthrough_DamagedWhileOpen(t *testing.T) {
	m := mountKept(t, 1<<20, Options{})
	m.keep()
	before := m.open(0)
	m.check(before)
	wrong := bytes.Repeat([]byte("wrong"), len(m.want)/5+1)[:len(m.want)]
	if err := os.WriteFile(m.e.kept[m.file.ID.File], wrong, 0); err != nil {
		t.Fatal(err)
	}
	m.e.rotten.Store(true)
	m.e.drop(m.file)
	m.checkOnce()
	during := m.open(0)
	m.check(during)
	before.Close()
	m.check(during)
	m.checkOnce()
	during.Close()
	m.closed()
	m.checkOnce()
	if got := m.counts(); got.Open != 5 || got.Passthrough != 1 {
		t.Errorf("messages = %+v, want 5 opens, 1 of them passed through", got)
	}
}

// An open of a corrupt file drops the pages of the kernel.
func TestPassthrough_DamagedInPageCache(t *testing.T) {
	m := mountKept(t, 256<<10, Options{})
	m.s.files.passthrough.kernel = nil
	m.keep()
	wrong := bytes.Repeat([]byte("wrong"), len(m.want)/5+1)[:len(m.want)]
	if err := os.WriteFile(m.e.kept[m.file.ID.File], wrong, 0); err != nil {
		t.Fatal(err)
	}
	f := m.open(0)
	defer f.Close()
	got := make([]byte, len(m.want))
	if _, err := f.ReadAt(got, 0); err != nil || bytes.Equal(got, m.want) {
		t.Fatalf("nothing wrong is read: %v", err)
	}
	m.e.rotten.Store(true)
	m.checkOnce()
	m.check(f)
}

// A read with O_DIRECT uses the origin if the materialized file fails.
func TestPassthrough_DirectReadFails(t *testing.T) {
	m := mountKept(t, 1<<20, Options{})
	m.keep()
	f := m.open(unix.O_DIRECT)
	defer f.Close()
	if err := os.Truncate(m.e.kept[m.file.ID.File], 100_000); err != nil {
		t.Fatal(err)
	}
	m.check(f)
}

// A plain file of another size is not what the catalog means.
func TestPassthrough_OtherSize(t *testing.T) {
	m := mountKept(t, 100_000, Options{})
	m.keep()
	if err := os.Truncate(m.e.kept[m.file.ID.File], 99_999); err != nil {
		t.Fatal(err)
	}
	m.checkOnce()
	m.closed()
	if got := m.counts().Passthrough; got != 0 {
		t.Errorf("%d opens passed through", got)
	}
}

func TestPassthrough_Stateless(t *testing.T) {
	m := mountKept(t, 100_000, Options{Stateless: true})
	m.keep()
	m.checkOnce()
	if got := m.e.plains.Load(); got != 0 {
		t.Errorf("%d plain files are open", got)
	}
	if m.s.files.passthrough.kernel != nil {
		t.Error("passthrough is on in a stateless mount")
	}
}

// Whatever order opens and closes come in, no open fails and no byte is another.
func TestPassthrough_Storm(t *testing.T) {
	m := mountKept(t, 200_000, Options{})
	begin := time.Now()
	goesOn := func() bool { // for a second, and until both ways of opening were met
		got, took := m.counts(), time.Since(begin)
		return took < time.Second || (got.Passthrough == 0 || got.Passthrough == got.Open) && took < patience
	}
	var group sync.WaitGroup
	group.Go(func() {
		for kept := false; goesOn(); kept = !kept {
			if kept {
				m.e.drop(m.file)
			} else {
				m.keep()
			}
			time.Sleep(time.Millisecond)
		}
	})
	for i := range 3 {
		random := rand.New(rand.NewPCG(uint64(i), 1))
		group.Go(func() {
			for goesOn() {
				f, err := os.Open(m.path("f"))
				if err != nil {
					t.Error(err)
					return
				}
				off := random.IntN(len(m.want) - 5000)
				p := make([]byte, 5000)
				if _, err := f.ReadAt(p, int64(off)); err != nil || !bytes.Equal(p, m.want[off:off+5000]) {
					t.Errorf("read at %d: %v, or other bytes", off, err)
				}
				f.Close()
				time.Sleep(time.Duration(random.IntN(1000)) * time.Microsecond)
			}
		})
	}
	group.Wait()
	m.closed()
	if got := m.counts(); got.Passthrough == 0 || got.Passthrough == got.Open {
		t.Errorf("messages = %+v, want both ways of opening", got)
	}
}

package cache

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/disk"
)

// stall makes it look as if the disk wrote nothing of what it got, until go on is called.
func (m *mount) stall() (goOn func()) {
	f := &m.fetches
	add := func(n int64) {
		f.mu.Lock()
		f.keeping.lent += n
		f.mu.Unlock()
	}
	add(maxLent + 1)
	return func() {
		add(-maxLent - 1)
		f.keeping.room <- struct{}{}
	}
}

// D19: what comes faster than the disk takes it is kept all the same, as long as it fits into
// memory.
func TestD19_FasterThanTheDisk(t *testing.T) {
	const n = 64 * 20
	x, dir := store(t, false, same(n, 1000)...), t.TempDir()
	m := &mount{disk: openDisk(t, dir, disk.Options{QueueBytes: 20_000}), src: hook(x.src, nil)}
	m.Cache = open(t, m.src, Options{Disk: m.disk, MemoryBytes: noMemory})
	goOn := m.stall()
	for i := 0; i < n; i += 64 {
		x.read(t, m.Cache, chunks(i, i+64), 0, 64_000)
	}
	goOn()
	m.settle(t)
	if got, lost := m.wantGood(t, x), m.Stats().NotKept; got != n || lost != 0 {
		t.Errorf("%d chunks are kept, %d are not, want all of %d", got, lost, n)
	}
}

// What waits for the disk is not asked for again by Run, which has it from the disk else.
func TestRunTakesWhatWaits(t *testing.T) {
	x := store(t, false, same(300, 1000)...)
	m := mountOn(t, t.TempDir(), x.src, Options{MemoryBytes: noMemory})
	goOn := m.stall()
	for i := 0; i < 256; i += 64 {
		x.read(t, m.Cache, chunks(i, i+64), 0, 64_000)
	}
	m.wantAsked(t, "read", 4, 256)
	for _, tt := range []struct {
		from, to         int
		requests, chunks int64
	}{
		{0, 64, 0, 0},
		{70, 75, 0, 0},
		{100, 150, 0, 0}, // of two fetches
		{230, 280, 1, 24},
		{290, 300, 1, 10},
	} {
		if err := x.unpack(t, m.Cache, chunks(tt.from, tt.to)); err != nil {
			t.Error(err)
		}
		m.wantAsked(t, chunks(tt.from, tt.to).String(), tt.requests, tt.chunks)
	}
	goOn()
	m.settle(t)
	if got := m.wantGood(t, x); got != 290 {
		t.Errorf("%d chunks are kept", got)
	}
}

// Bytes that nobody has compared with their hashes are not handed on while they wait.
func TestRunTakesNothingUnchecked(t *testing.T) {
	x := store(t, false, same(128, 1000)...)
	m := mountOn(t, t.TempDir(), x.src, Options{MemoryBytes: noMemory})
	goOn := m.stall()
	x.read(t, m.Cache, chunks(64, 128), 0, 64_000) // behind which all else waits
	m.wantAsked(t, "read before", 1, 64)
	a := m.NewAhead()
	a.Want(x.Hash(), chunks(0, 64))
	x.read(t, m.Cache, chunks(10, 20), 0, 10_000)
	a.Close()
	m.wantAsked(t, "read", 1, 64)
	if err := x.unpack(t, m.Cache, chunks(0, 64)); err != nil {
		t.Error(err)
	}
	m.wantAsked(t, "read again", 2, 54)
	goOn()
	m.settle(t)
	if got := m.wantGood(t, x); got != 128 {
		t.Errorf("%d chunks are kept", got)
	}
}

// D08: a disk that hangs does not keep the cache from being closed.
func TestD08_CloseWhileTheDiskHangs(t *testing.T) {
	x, dir := store(t, false, same(256, 1000)...), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d, err := disk.Open(dir, disk.Options{MinFree: -1})
		if err != nil {
			t.Fatal(err)
		}
		c, closeCache := openHere(t, x.src, Options{Disk: d, MemoryBytes: noMemory})
		m := &mount{Cache: c, disk: d}
		m.stall()
		for i := 0; i < 256; i += 64 {
			x.read(t, c, chunks(i, i+64), 0, 64_000)
		}
		c.Spare(nil)
		begin := time.Now()
		closeCache()
		if took := time.Since(begin); took != mostLate {
			t.Errorf("closed after %v, want %v", took, mostLate)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

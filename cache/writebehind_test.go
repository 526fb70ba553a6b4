package cache

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/disk"
	"github.com/xetfs/xetfs/cache/origin"
)

// stall keeps the disk from writing further chunks until goOn is called. Chunks that it has
// already are not taken back.
func (m *mount) stall(t *testing.T) (goOn func()) {
	t.Helper()
	x := store(t, false, 1000)
	run, err := x.src.Chunks(t.Context(), x.Hash(), chunks(0, 1), origin.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stalled, release := make(chan struct{}), make(chan struct{})
	err = m.disk.PutRunNoCopy(x.Hash(), run, func() {
		close(stalled)
		<-release
	})
	if err != nil {
		t.Fatal(err)
	}
	<-stalled
	goOn = sync.OnceFunc(func() { close(release) })
	t.Cleanup(goOn)
	return goOn
}

// mountHere is mountOn for a bubble, which must be left empty: call close and close the disk.
func mountHere(t *testing.T, dir string, src origin.Source, o disk.Options) (m *mount, close func()) {
	t.Helper()
	o.MinFree = -1
	d, err := disk.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	m = &mount{disk: d, src: hook(src, nil)}
	m.Cache, close = openHere(t, m.src, Options{Disk: d, MemoryBytes: noMemory})
	return m, close
}

// D19: what comes faster than the disk takes it is kept all the same, as long as it fits into
// memory.
func TestD19_FasterThanTheDisk(t *testing.T) {
	const n = 64 * 20
	x, dir := store(t, false, same(n, 1000)...), t.TempDir()
	m := &mount{disk: openDisk(t, dir, disk.Options{QueueBytes: 20_000}), src: hook(x.src, nil)}
	m.Cache = open(t, m.src, Options{Disk: m.disk, MemoryBytes: noMemory})
	goOn := m.stall(t)
	for i := 0; i < n; i += 64 {
		x.read(t, m.Cache, chunks(i, i+64), 0, 64_000)
	}
	goOn()
	m.settle(t)
	if got, lost := m.wantGood(t, x), m.Stats().NotKept; got != n || lost != 0 {
		t.Errorf("%d chunks are kept, %d are not, want all of %d", got, lost, n)
	}
}

// Run takes chunks from the write-behind queue and does not request them again.
func TestRunTakesWhatWaits(t *testing.T) {
	x := store(t, false, same(300, 1000)...)
	m := mountOn(t, t.TempDir(), x.src, Options{MemoryBytes: noMemory})
	goOn := m.stall(t)
	for i := 0; i < 256; i += 64 {
		x.read(t, m.Cache, chunks(i, i+64), 0, 64_000)
	}
	m.wantRequested(t, "read", 4, 256)
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
		m.wantRequested(t, chunks(tt.from, tt.to).String(), tt.requests, tt.chunks)
	}
	goOn()
	m.settle(t)
	if got := m.wantGood(t, x); got != 290 {
		t.Errorf("%d chunks are kept", got)
	}
}

// Unverified bytes are not shared while they wait.
func TestRunTakesNothingUnchecked(t *testing.T) {
	x := store(t, false, same(128, 1000)...)
	m := mountOn(t, t.TempDir(), x.src, Options{MemoryBytes: noMemory})
	goOn := m.stall(t)
	x.read(t, m.Cache, chunks(64, 128), 0, 64_000) // behind which all else waits
	m.wantRequested(t, "read before", 1, 64)
	a := m.NewReadahead()
	a.Prefetch(x.Hash(), chunks(0, 64), 0)
	x.read(t, m.Cache, chunks(10, 20), 0, 10_000)
	a.Close()
	m.wantRequested(t, "read", 1, 64)
	if err := x.unpack(t, m.Cache, chunks(0, 64)); err != nil {
		t.Error(err)
	}
	m.wantRequested(t, "read again", 2, 54)
	goOn()
	m.settle(t)
	if got := m.wantGood(t, x); got != 128 {
		t.Errorf("%d chunks are kept", got)
	}
}

// A disk that refuses chunks is no user of their fetch any more.
func TestRefusedPutFreesFetch(t *testing.T) {
	x := store(t, false, 1000)
	m := mountOn(t, t.TempDir(), x.src, Options{})
	run, err := m.src.Chunks(t.Context(), x.Hash(), chunks(0, 1), origin.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.disk.Close(); err != nil {
		t.Fatal(err)
	}
	f := &fetch{xorb: x.Hash(), chunks: run.Chunks, annotated: run, users: 1}
	if m.putOnDisk(f, f.chunks); f.users != 1 {
		t.Errorf("the fetch has %d users, want 1", f.users)
	}
}

// D08: a disk that hangs does not keep the cache from being closed.
func TestD08_CloseWhileTheDiskHangs(t *testing.T) {
	x, dir := store(t, false, same(256, 1000)...), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		m, closeCache := mountHere(t, dir, x.src, disk.Options{QueueBytes: 1})
		goOn := m.stall(t)
		for i := 0; i < 256; i += 64 {
			x.read(t, m.Cache, chunks(i, i+64), 0, 64_000)
		}
		m.MarkRedundant(nil)
		begin := time.Now()
		closeCache()
		if took := time.Since(begin); took != maxDrain {
			t.Errorf("closed after %v, want %v", took, maxDrain)
		}
		goOn()
		if err := m.disk.Close(); err != nil {
			t.Error(err)
		}
	})
}

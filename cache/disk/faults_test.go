package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/wal"
	"github.com/xetfs/xetfs/codec/codectest"
)

// on returns a fault that gives err to some calls on some files.
func on(op, name string, err error) func(string, string) error {
	return func(o, n string) error {
		if o == op && strings.HasPrefix(n, name) {
			return err
		}
		return nil
	}
}

// TestD03_NoRoom covers every error for a lack of room. Stored entries stay readable, writes
// pause for a while, and then continue.
func TestD03_NoRoom(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"write", "create"} {
		for _, err := range []error{unix.ENOSPC, unix.EDQUOT, unix.EFBIG} {
			t.Run(fmt.Sprint(op, " ", err), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { noRoom(t, on(op, "seg/", err)) })
			})
		}
	}
}

// TestD03_FirstPutAfterwards puts chunks after a lack of room that cost the journal. The first put
// that is accepted stores them.
func TestD03_FirstPutAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSimDisk()
		b := open(t, d)
		b.put(1, 0, 5)
		d.setFault(on("write", "", unix.ENOSPC))
		b.Drop(hashOf(1), chunks(0, 1))
		b.flush()
		if b.saw(EventFull) != 1 || b.WriteErr() == nil {
			t.Fatalf("events %v", b.events)
		}
		d.setFault(nil)
		time.Sleep(time.Second) // the pause ends
		b.put(2, 0, 5)
		b.want(2, 0, 5, 5)
	})
}

func noRoom(t *testing.T, fault func(op, name string) error) {
	d := newSimDisk()
	b := open(t, d)
	b.put(1, 0, 20)
	d.setFault(fault)
	for n := range 10 {
		_ = b.putRun(hashOf(10+n), runOf(t, 10+n, chunks(0, 30), chunkSize))
		b.flush()
	}
	if b.saw(EventFull) != 1 || b.saw(EventSuspended) != 0 {
		t.Errorf("events: %v", b.events)
	}
	if err := b.putRun(hashOf(2), runOf(t, 2, chunks(0, 9), chunkSize)); !errors.Is(err, ErrFull) {
		t.Errorf("PutRun: %v, want ErrFull", err)
	}
	b.want(1, 0, 20, 20)
	d.setFault(nil)
	until(t, "it is tried again", func() bool {
		_ = b.putRun(hashOf(2), runOf(t, 2, chunks(0, 9), chunkSize))
		b.flush()
		return b.has(2, 0, 9) == 9
	})
	b = b.again()
	b.want(1, 0, 20, 20)
	b.want(2, 0, 9, 9)
}

func TestD04_SomeReadsFail(t *testing.T) {
	d := newSimDisk()
	b := open(t, d)
	b.put(1, 0, 30)
	n := 0
	d.setFault(func(op, name string) error {
		if op != "read" {
			return nil
		}
		if n++; n%10 == 3 {
			return unix.EIO
		}
		return nil
	})
	for c := range uint32(20) {
		b.has(1, c, c+1)
	}
	if b.saw(EventDropped) != 2 || b.saw(EventSuspended) != 0 {
		t.Errorf("events: %v", b.events)
	}
	for c := range uint32(10) {
		b.has(1, 20+c, 21+c)
	}
	if b.saw(EventSuspended) != 1 {
		t.Errorf("events: %v", b.events)
	}
}

// D04: a process without free file descriptors says nothing about its disk.
func TestD04_NoDescriptors(t *testing.T) {
	for _, errno := range []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM} {
		d := newSimDisk()
		b := open(t, d)
		b.put(1, 0, 20)
		d.setFault(func(op, _ string) error { return errno })
		for n := range 10 {
			_ = b.putRun(hashOf(10+n), runOf(t, 10+n, chunks(0, 30), chunkSize))
			b.flush()
			b.has(1, uint32(n), uint32(n)+1)
		}
		d.setFault(nil)
		if b.saw(EventSuspended) != 0 {
			t.Errorf("%v: events: %v", errno, b.events)
		}
		b.put(2, 0, 20)
		b.want(2, 0, 20, 20)
	}
}

// TestD05_EveryReadFails asks no more after three failures, and resumes after three good
// looks at the disk.
func TestD05_EveryReadFails(t *testing.T) {
	d := newSimDisk()
	b := open(t, d)
	for n := range 5 {
		b.put(n, 0, 10)
	}
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	var reads atomic.Int64
	d.setFault(func(op, name string) error {
		if op == "read" {
			reads.Add(1)
			return unix.EIO
		}
		return nil
	})
	for n := range 5 {
		b.want(n, 0, 10, 0)
	}
	if b.saw(EventSuspended) != 1 || b.saw(EventResumed) != 0 || b.Stats().State != "suspended" {
		t.Errorf("events: %v", b.events)
	}
	if err := b.putRun(hashOf(9), runOf(t, 9, chunks(0, 5), chunkSize)); !errors.Is(err, ErrSuspended) {
		t.Errorf("PutRun: %v, want ErrSuspended", err)
	}
	if _, ok := b.OpenFile(hashOf(1)); ok {
		t.Error("a file from a suspended store")
	}
	d.setFault(nil)
	until(t, "it resumes", func() bool { return b.saw(EventResumed) == 1 })
	b.want(4, 0, 10, 10)
	b.put(7, 0, 10)
	b.want(7, 0, 10, 10)
}

func TestD06_WritesFail(t *testing.T) {
	tests := []struct{ op, name string }{
		{"write", "seg/"}, {"create", "seg/"}, {"sync", "seg/"}, {"syncdir", "seg"},
		{"write", "index"}, {"sync", "index"}, {"create", "index"}, {"rename", "index"}, {"syncdir", ""},
		{"write", "whole/"}, {"create", "whole/"}, {"sync", "whole/"}, {"rename", "whole/"}, {"syncdir", "whole"},
	}
	for _, tt := range tests {
		t.Run(tt.op+" "+tt.name, func(t *testing.T) {
			d := newSimDisk()
			b := open(t, d, func(o *Options) { o.testing.probe = time.Hour })
			b.put(1, 0, 20)
			if err := errors.Join(b.putFile(1), b.Sync()); err != nil {
				t.Fatal(err)
			}
			d.setFault(on(tt.op, tt.name, unix.EIO))
			for n := range 60 {
				_ = b.putRun(hashOf(10+n), runOf(t, 10+n, chunks(0, 40), chunkSize))
				_ = b.Flush(t.Context())
				_ = b.Sync()
				_ = b.putFile(2)
				b.has(10+n, 0, 40)
				b.hasFile(2)
			}
			if b.saw(EventSuspended) != 1 {
				t.Errorf("events: %v", b.events)
			}
			d.setFault(nil)
			b.Close()
			b = open(t, d)
			b.want(1, 0, 20, 20)
			if !b.hasFile(1) {
				t.Error("a file that was synced is gone")
			}
			for n := range 60 {
				b.has(10+n, 0, 40)
			}
			b.hasFile(2)
		})
	}
}

func TestD06_OneFailureIsNoReasonToStop(t *testing.T) {
	for _, op := range []string{"write", "sync", "create", "rename", "syncdir"} {
		t.Run(op, func(t *testing.T) {
			d := newSimDisk()
			b := open(t, d)
			failed := false
			for n := range 60 {
				if n == 20 {
					d.setFault(func(o, name string) error {
						if o != op || failed {
							return nil
						}
						failed = true
						return unix.EIO
					})
				}
				_ = b.putRun(hashOf(n), runOf(t, n, chunks(0, 30), chunkSize))
				_ = b.Sync()
			}
			for n := range 60 {
				if found := b.has(n, 0, 30); found < 30 && (n < 20 || n > 40) {
					t.Errorf("xorb %d: %d chunks", n, found)
				}
			}
			b = b.again()
			for n := range 60 {
				if found := b.has(n, 0, 30); found < 30 && n > 40 {
					t.Errorf("opened again: xorb %d: %d chunks", n, found)
				}
			}
		})
	}
}

// TestD06_SyncFails fails one sync of a segment or of its folder. The journal, which would have
// the records, is not synced. Neither of them is written any more, and the next sync includes the
// folder.
func TestD06_SyncFails(t *testing.T) {
	for _, failing := range []string{"sync seg/", "syncdir seg"} {
		d := newSimDisk()
		b := open(t, d).again() // opens the journal by its name
		b.put(1, 0, 5)
		segment, journal := b.onlySegment(), b.onlyLog()
		var mu sync.Mutex
		var calls []string // guarded by mu
		take := func() (taken []string) {
			mu.Lock()
			defer mu.Unlock()
			taken, calls = calls, nil
			return taken
		}
		failed := ""
		d.setFault(func(op, name string) error {
			mu.Lock()
			defer mu.Unlock()
			call := op + " " + name
			calls = append(calls, call)
			if failed == "" && strings.HasPrefix(call, failing) {
				failed = call
				return unix.EIO
			}
			return nil
		})
		if err := b.Sync(); err == nil || slices.Contains(take(), "sync "+journal) {
			t.Errorf("%s fails: error %v of Sync", failing, err)
		}
		if err := b.Sync(); err != nil || !slices.Contains(take(), "syncdir seg") {
			t.Errorf("%s failed: the next Sync omits the folder, or fails: %v", failing, err)
		}
		b.put(1, 5, 10)
		if all := take(); slices.Contains(all, "write "+segment) || slices.Contains(all, "write "+journal) {
			t.Errorf("%s failed: calls %q, want no write to %s and %s", failing, all, segment, journal)
		}
		b.want(1, 0, 10, 10)
	}
}

// TestD06_WriteFailsAfterAPart checks the recorded length of a segment after a write that failed
// with a part of its bytes.
func TestD06_WriteFailsAfterAPart(t *testing.T) {
	for _, truncate := range []error{nil, unix.EIO} {
		d := newSimDisk()
		b := open(t, d)
		b.put(1, 0, 5)
		s := b.Store.disk.Load().index.Segments()[0]
		d.setFault(func(op, name string) error {
			switch {
			case op == "truncate":
				return truncate
			case op != "write" || name != s.Name():
				return nil
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			f := d.names[name]
			f.data = append(f.data, "a part"...)
			return unix.EIO
		})
		_ = b.putRun(hashOf(2), runOf(t, 2, chunks(0, 5), chunkSize))
		b.flush()
		if got, want := s.Size.Load(), int64(len(d.content(s.Name()))); got != want {
			t.Errorf("truncate: %v: recorded length %d of %d bytes", truncate, got, want)
		}
		b.want(1, 0, 5, 5)
	}
}

// TestD08_LateOpen opens a whole file that the disk returns after the limit. The file is closed,
// and remains evictable.
func TestD08_LateOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSimDisk()
		b := open(t, d)
		b.keepFile(1)
		before, release := d.openFiles(), make(chan struct{})
		d.setFault(func(op, name string) error {
			if op == "open" {
				<-release
			}
			return nil
		})
		if _, ok := b.OpenFile(hashOf(1)); ok {
			t.Error("the file was opened")
		}
		close(release)
		synctest.Wait()
		w := b.Store.disk.Load().index.File(hashOf(1))
		if n := w.Open.Load(); n != 0 || d.openFiles() != before {
			t.Errorf("%d handles, %d open files, want 0 and %d", n, d.openFiles(), before)
		}
	})
}

// TestD06_MovedNotSynced fails the sync of chunks that eviction moved. The segment that they were
// moved to is not written any more: the kernel may have lost its pages.
func TestD06_MovedNotSynced(t *testing.T) {
	d := newSimDisk()
	b := open(t, d)
	for n := range 10 {
		b.put(n, 0, 20)
		b.want(n, 0, 5, 5)
	}
	failed := ""
	d.setFault(func(op, name string) error {
		if op == "sync" && failed == "" && strings.HasPrefix(name, "seg/") {
			failed = name
			return unix.EIO
		}
		return nil
	})
	wr := b.writer.Load()
	err := wr.do(func() error {
		for failed == "" && wr.evict() {
		}
		for _, s := range wr.heads {
			if s != nil && s.Name() == failed {
				t.Errorf("%s is still written", failed)
			}
		}
		return nil
	})
	if err != nil || failed == "" {
		t.Errorf("error %v, failed sync of %q", err, failed)
	}
}

// TestD08_Hangs blocks every call for a while. No reader waits longer than the limit, and at
// most maxStuck hang. A suspended store does not wait.
func TestD08_Hangs(t *testing.T) { synctest.Test(t, hangs) }

func hangs(t *testing.T) {
	d := newSimDisk()
	b := open(t, d)
	b.put(1, 0, 200)
	release := make(chan struct{})
	var stuck, most atomic.Int64
	d.setFault(func(op, name string) error {
		most.Store(max(most.Load(), stuck.Add(1)))
		<-release
		stuck.Add(-1)
		return nil
	})
	var readers sync.WaitGroup
	for c := range uint32(200) {
		readers.Go(func() {
			start := time.Now()
			b.want(1, c, c+1, 0)
			if took := time.Since(start); took > smallReadLimit {
				t.Errorf("a reader waited for %v", took)
			}
		})
	}
	readers.Wait()
	if most.Load() > maxStuck+2 { // and the writer, and its sync
		t.Errorf("%d calls hang", most.Load())
	}
	if b.saw(EventSuspended) != 1 {
		t.Errorf("events: %v", b.events)
	}
	start := time.Now()
	b.want(1, 0, 1, 0)
	if took := time.Since(start); took > 0 {
		t.Errorf("a suspended store takes %v", took)
	}
	close(release)
	until(t, "it resumes", func() bool { return b.saw(EventResumed) == 1 })
	b.want(1, 0, 200, 200)
}

// TestD08_WholeHangs reads an open whole file within the limit, correctly or not at all. An
// unreadable file is forgotten.
func TestD08_WholeHangs(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault func(release chan struct{}) error
		stays bool
	}{
		{"fails", func(chan struct{}) error { return unix.EIO }, false},
		{"ends early", func(chan struct{}) error { return io.EOF }, false},
		{"hangs", func(release chan struct{}) error { <-release; return nil }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { wholeHangs(t, tt.fault, tt.stays) })
		})
	}
}

func wholeHangs(t *testing.T, fault func(release chan struct{}) error, stays bool) {
	d := newSimDisk()
	b := open(t, d)
	b.keepFile(1)
	f := b.openFile(1)
	want := fileOf(1)
	got := make([]byte, len(want))
	if n, err := f.ReadAt(got, 0); n != len(want) || err != nil || !bytes.Equal(got, want) {
		t.Fatalf("ReadAt = %d, %v", n, err)
	}
	if n, err := f.ReadAt(got, 10); n != len(want)-10 || !errors.Is(err, io.EOF) || !b.HasFile(hashOf(1)) {
		t.Fatalf("ReadAt to the end = %d, %v", n, err)
	}
	release := make(chan struct{})
	defer close(release)
	d.setFault(func(op, _ string) error {
		if op == "read" {
			return fault(release)
		}
		return nil
	})
	if n, err := f.ReadAt(got, 0); err == nil || n == len(want) {
		t.Errorf("ReadAt = %d, %v", n, err)
	}
	if b.HasFile(hashOf(1)) != stays {
		t.Errorf("it is kept: %t", !stays)
	}
}

func TestD08_PutsDoNotWait(t *testing.T) { synctest.Test(t, putsDoNotWait) }

func putsDoNotWait(t *testing.T) {
	d := newSimDisk()
	b := open(t, d, func(o *Options) {
		o.QueueBytes = 100 << 10
		o.testing.ending = 10 * time.Millisecond
	})
	release := d.hang(t)
	busy := 0
	for n := range 50 {
		start := time.Now()
		if errors.Is(b.putRun(hashOf(n), runOf(t, n, chunks(0, 20), chunkSize)), ErrBusy) {
			busy++
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("PutRun took %v", took)
		}
	}
	if busy == 0 || busy == 50 {
		t.Errorf("%d of 50 puts were refused", busy)
	}
	if err := b.Close(); err == nil {
		t.Error("Close does not say that the disk hangs")
	}
	release()
	<-b.writer.Load().done
	b.Store.disk.Load().close()
}

// damaged opens a copy of the disk of b with one file changed.
func (b *fixture) damaged(name string, change func([]byte) []byte, options ...func(*Options)) *fixture {
	d := b.disk.killed()
	f := d.names[name]
	f.data = change(append([]byte(nil), f.data...))
	return open(b.t, d, options...)
}

// TestD09_EveryByte changes every byte of a segment, one at a time.
func TestD09_EveryByte(t *testing.T) {
	b := open(t, newSimDisk())
	b.put(1, 0, 3)
	size := len(packedOf(1, chunks(0, 3), chunkSize))
	step := 1
	if codectest.Race {
		step = 29
	}
	f := b.disk.names["seg/00000001"]
	for off := 0; off < size; off += step {
		f.data[off] ^= 0x10
		found := 0
		for c := range uint32(3) {
			found += b.has(1, c, c+1)
		}
		if found != 2 || b.saw(EventDropped) == 0 {
			t.Fatalf("byte %d: %d of 3 chunks were taken for good", off, found)
		}
		f.data[off] ^= 0x10
		if b.Clear() != nil {
			t.Fatal("not cleared")
		}
		b.put(1, 0, 3)
		f = b.disk.names[b.onlySegment()]
	}
}

// onlySegment and onlyLog return the name of the one there is.
func (b *fixture) onlySegment() string { return b.disk.only("seg/") }
func (b *fixture) onlyLog() string     { return b.disk.only("index-") }

func (d *simDisk) only(prefix string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.names {
		if strings.HasPrefix(name, prefix) {
			return name
		}
	}
	return ""
}

// TestD10_Swapped puts segments in each other's place.
func TestD10_Swapped(t *testing.T) {
	b := open(t, newSimDisk())
	for n := range 3 { // of the same lengths, each in a segment of its own
		b.put(n, 0, 25)
		b.writerSeals()
	}
	b.Close()
	swap := b.disk.killed()
	swap.names["seg/00000001"], swap.names["seg/00000002"] = swap.names["seg/00000002"], swap.names["seg/00000001"]
	s := open(t, swap)
	s.want(0, 0, 25, 0)
	s.want(1, 0, 25, 0)
	s.want(2, 0, 25, 25)
	over := b.disk.killed()
	over.names["seg/00000001"] = over.names["seg/00000002"]
	s = open(t, over)
	s.want(0, 0, 25, 0)
	s.want(1, 0, 25, 25)
	if s.saw(EventDropped) == 0 {
		t.Error("nothing was said about it")
	}
}

// writerSeals makes the next chunk begin a new segment.
func (b *fixture) writerSeals() {
	b.t.Helper()
	if err := b.writer.Load().do(func() error { b.writer.Load().seal(index.Probation); return nil }); err != nil {
		b.t.Fatal(err)
	}
}

func TestD11_OtherLength(t *testing.T) {
	b := open(t, newSimDisk())
	b.put(1, 0, 20)
	b.Close()
	tests := []struct {
		name   string
		change func([]byte) []byte
		want   int
	}{
		{"cut", func(f []byte) []byte { return f[:len(f)/2] }, 10},
		{"one byte short", func(f []byte) []byte { return f[:len(f)-1] }, 19},
		{"longer", func(f []byte) []byte { return append(f, "more"...) }, 20},
		{"empty", func(f []byte) []byte { return nil }, 0},
		{"zeros", func(f []byte) []byte { return make([]byte, len(f)) }, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := b.damaged("seg/00000001", tt.change)
			found := 0
			for c := range uint32(20) {
				found += s.has(1, c, c+1)
			}
			if found != tt.want {
				t.Errorf("%d chunks, want %d", found, tt.want)
			}
			s.put(2, 0, 20)
			s = s.again()
			s.want(2, 0, 20, 20)
			s.want(1, 0, 9, min(9, tt.want))
		})
	}
}

// TestD13_TornIndex cuts the journal at every byte. The store continues with the records before
// the cut.
func TestD13_TornIndex(t *testing.T) {
	b := open(t, newSimDisk())
	for n := range 10 {
		b.put(n, 0, 5)
	}
	b.Close()
	name := b.onlyLog()
	size := len(b.disk.names[name].data)
	step := 1
	if codectest.Race {
		step = 17
	}
	for cut := 0; cut < size; cut += step {
		s := b.damaged(name, func(f []byte) []byte { return f[:cut] })
		found := 0
		for n := range 10 {
			got := s.has(n, 0, 5)
			if got != 0 && found != 5*n {
				t.Fatalf("cut to %d bytes: %d chunks of xorb %d", cut, got, n)
			}
			found += got
		}
		s.put(11, 0, 5)
		s.want(11, 0, 5, 5)
		s.Close()
	}
}

func TestD13_DamagedIndex(t *testing.T) {
	b := open(t, newSimDisk())
	for n := range 10 {
		b.put(n, 0, 5)
	}
	b.Close()
	name := b.onlyLog()
	for off := range b.disk.names[name].data {
		s := b.damaged(name, func(f []byte) []byte { f[off] ^= 0x10; return f })
		for n := range 10 {
			s.has(n, 0, 5)
		}
		s.Close()
	}
	tests := []struct {
		name   string
		change func([]byte) []byte
		events int // that the index was rebuilt
		least  int // chunks that are found
	}{
		{"garbage", func(f []byte) []byte { return codectest.Bytes(1, len(f)) }, 1, 0},
		{"empty", func(f []byte) []byte { return nil }, 1, 0},
		{"zeros", func(f []byte) []byte { return make([]byte, len(f)) }, 1, 0},
		{"zeros behind", func(f []byte) []byte { return append(f, make([]byte, 9000)...) }, 0, 50},
		{"garbage behind", func(f []byte) []byte { return append(f, codectest.Bytes(1, 9000)...) }, 0, 50},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := b.damaged(name, tt.change)
			found := 0
			for n := range 10 {
				found += s.has(n, 0, 5)
			}
			if found < tt.least || s.saw(EventRebuilt) != tt.events {
				t.Errorf("%d chunks, events %v", found, s.events)
			}
			s.put(11, 0, 5)
			s = s.again()
			s.want(11, 0, 5, 5)
		})
	}
}

// TestD13_KeepsACopyOfDamage has good records behind bad ones.
func TestD13_KeepsACopyOfDamage(t *testing.T) {
	large := func(o *Options) {
		o.MaxBytes = 1 << 30
		o.testing.journal = 1 << 20
	}
	b := open(t, newSimDisk(), large)
	for n := range 1200 { // more than two blocks of 32 KiB
		b.put(n%40, uint32(n/40*5), uint32(n/40*5+5))
	}
	b.Close()
	s := b.damaged(b.onlyLog(), func(f []byte) []byte { f[20000] ^= 1; return f }, large)
	if s.saw(EventRebuilt) != 1 || !s.disk.there(wal.DamagedName) {
		t.Errorf("events %v", s.events)
	}
	if found := s.has(0, 0, 5); found != 5 {
		t.Errorf("%d chunks from before the damage", found)
	}
}

func TestD13_MissingIndex(t *testing.T) {
	b := open(t, newSimDisk())
	b.put(1, 0, 5)
	b.Close()
	delete(b.disk.names, b.onlyLog())
	s := open(t, b.disk)
	s.want(1, 0, 5, 0)
	until(t, "the segment is deleted", func() bool { return s.Stats().SegmentBytes == 0 })
	if s.saw(EventRebuilt) != 1 {
		t.Errorf("events %v", s.events)
	}
}

func TestD13_NewerIndex(t *testing.T) {
	b := open(t, newSimDisk())
	b.put(1, 0, 5)
	k := b.writer.Load()
	if err := k.do(func() error { k.write(&wal.Record{Kind: wal.CloseRecord + 1}); k.flush(); return nil }); err != nil {
		t.Fatal(err)
	}
	d := b.disk.killed()
	before := d.steps()
	if _, err := tryOpen(t, d); !errors.Is(err, ErrNewer) {
		t.Errorf("error = %v, want ErrNewer", err)
	}
	if n := d.steps() - before; n > 2 { // the existing folders
		t.Errorf("%d changes", n)
	}
	if d.locked {
		t.Error("still locked")
	}
}

func TestD14_IndexAndFolderDiffer(t *testing.T) {
	b := open(t, newSimDisk())
	b.putThree()
	b.Close()
	d := b.disk
	delete(d.names, "seg/00000002")
	delete(d.names, index.FileName(hashOf(1)))
	d.names["seg/00000099"] = &simFile{data: make([]byte, 5000)}
	d.names["seg/.nfs0001"] = &simFile{data: []byte("deleted while it was open")}
	d.names[index.FileName(hashOf(9))] = &simFile{data: make([]byte, 5000)}
	d.names[tmpFileName(hashOf(8))] = &simFile{data: make([]byte, 5000)}
	d.names[wal.TmpName] = &simFile{data: make([]byte, 5000)}
	s := open(t, d)
	s.want(0, 0, 25, 25)
	s.want(1, 0, 25, 0)
	s.want(2, 0, 25, 25)
	if !s.hasFile(0) || s.hasFile(1) || s.hasFile(9) {
		t.Error("not the files that are there and known")
	}
	until(t, "unknown files are deleted", func() bool {
		return !d.there("seg/00000099") && !d.there(index.FileName(hashOf(9))) && !d.there(tmpFileName(hashOf(8))) && !d.there(wal.TmpName)
	})
	if !d.there("seg/.nfs0001") {
		t.Error("a file that is not ours was deleted")
	}
	for n := range 60 { // a number is never used twice
		s.put(20+n, 0, 25)
	}
	if !d.there("seg/0000009a") {
		t.Error("new segments do not follow the highest number that was ever seen")
	}
}

// TestD14_PutWhileOrphansGo lays a file down whose remains are still to be deleted.
func TestD14_PutWhileOrphansGo(t *testing.T) {
	d := newSimDisk()
	open(t, d).Close()
	for n := range 200 {
		d.names[index.FileName(hashOf(n))] = &simFile{data: make([]byte, 5000)}
		d.names[tmpFileName(hashOf(n))] = &simFile{data: make([]byte, 5000)}
	}
	b := open(t, d, func(o *Options) { o.MaxBytes = 32 << 20 })
	for n := range 200 {
		b.keepFile(n)
	}
	until(t, "the others are deleted", func() bool {
		b.flush()
		return b.Stats().Bytes == d.bytes()
	})
	for n := range 200 {
		if !b.hasFile(n) {
			t.Errorf("file %d is gone", n)
		}
	}
}

func TestD17_TwoProcesses(t *testing.T) {
	d := newSimDisk()
	b := open(t, d)
	b.put(1, 0, 20)
	if err := errors.Join(b.putFile(1), b.PutPage(hashOf(5), pageOf(5)), b.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	if _, err := tryOpen(t, d); !errors.Is(err, ErrBusy) {
		t.Errorf("second process: %v, want ErrBusy", err)
	}
	share := func(o *Options) { o.Share = true }
	s := open(t, d, share)
	if !s.Shared() || s.Stats().State != "shared" {
		t.Error("it does not know that it shares")
	}
	s.want(1, 0, 20, 20)
	if got, want := s.Stats().Bytes, b.Stats().Bytes; got != want {
		t.Errorf("%d bytes by the one that shares, %d by the owner", got, want)
	}
	if _, ok := s.Page(hashOf(5)); !ok || !s.hasFile(1) {
		t.Error("not all is shared")
	}
	for _, err := range []error{s.PutPage(hashOf(6), pageOf(6)), s.putFile(2), s.Clear(), s.Trim(0)} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("error = %v, want ErrReadOnly", err)
		}
	}
	s.Drop(hashOf(1), chunks(0, 5))
	s.want(1, 0, 20, 0)
	b.want(1, 0, 20, 20)
	if err := b.Clear(); err != nil {
		t.Fatal(err)
	}
	s.want(1, 10, 20, 10) // it has the file open
	fresh := open(t, d, share)
	fresh.want(1, 0, 20, 0)
	b.Close()
	open(t, d).Close()
}

func TestD26_Versions(t *testing.T) {
	b := open(t, newSimDisk())
	b.put(1, 0, 20)
	b.Close()
	tests := []struct {
		name, format string
		refused      bool
		found        int // the journal has the id, too
	}{
		{"newer", formatKind + "\nversion 2\nwhatever\n", true, 0},
		{"older", formatKind + "\nversion 0\nid 00\n", false, 0},
		{"garbage", "\x00\x01\x02", false, 20},
		{"empty", "", false, 20},
		{"no id", formatKind + "\nversion 1\nid 00\n", false, 20},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := b.disk.killed()
			d.names[formatName].data = []byte(tt.format)
			before := d.steps()
			s, err := tryOpen(t, d)
			if tt.refused {
				if !errors.Is(err, ErrNewer) || d.steps() != before {
					t.Errorf("error = %v, %d changes", err, d.steps()-before)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			s.want(1, 0, 20, tt.found)
			if tt.found == 0 {
				until(t, "what was there is deleted", func() bool { return s.Stats().SegmentBytes == 0 })
				s.put(1, 0, 20)
			} else if s.saw(EventRebuilt) != 1 {
				t.Errorf("events %v", s.events)
			}
			s = s.again()
			s.want(1, 0, 20, 20)
		})
	}
}

func TestRefusesAFolderOfOtherThings(t *testing.T) {
	d := newSimDisk()
	d.names["thesis.tex"] = &simFile{data: []byte("years of work")}
	if _, err := tryOpen(t, d); !errors.Is(err, ErrRefused) || d.steps() > 0 {
		t.Errorf("error = %v, %d changes", err, d.steps())
	}
}

// TestD30_ForeignNames opens caches among whose files there are others: nothing is changed.
func TestD30_ForeignNames(t *testing.T) {
	b := open(t, newSimDisk())
	b.putThree()
	b.Close()
	tests := []struct {
		name, format string
		refused      bool
	}{
		{"seg/notes.txt", "", true},
		{"seg/0000002A", "", true},
		{"seg/2a", "", true},
		{"whole/thesis.tex", "", true},
		{"whole/" + strings.ToUpper(hashOf(200).String()), "", true},
		{"whole/" + hashOf(200).String() + ".tmp.tmp", "", true},
		{"whole/" + hashOf(200).String() + ".bak", "", true},
		{"thesis.tex", "Thesis, version 3\n", true},
		{"thesis.tex", "", false}, // beside the cache: it stays
		{"whole/.nfs0001", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := b.disk.killed()
			if tt.format != "" {
				d.names[formatName].data = []byte(tt.format)
			}
			d.names[tt.name] = &simFile{data: []byte("years of work")}
			before := d.steps()
			s, err := tryOpen(t, d)
			if tt.refused {
				if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tt.name) || d.steps() != before {
					t.Errorf("error = %v, %d changes", err, d.steps()-before)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			s.want(1, 0, 25, 25)
			s.Close()
			if !d.there(tt.name) {
				t.Error("it was deleted")
			}
		})
	}
}

// TestD08_WholesAreOpenedLate has more readers open a whole file than may hang: none of them
// leaves anything behind.
func TestD08_WholesAreOpenedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSimDisk()
		b := open(t, d)
		b.keepFile(1)
		release := make(chan struct{})
		d.setFault(func(op, _ string) error {
			if op == "open" {
				<-release
			}
			return nil
		})
		var readers sync.WaitGroup
		for range maxStuck + 20 {
			readers.Go(func() {
				if _, ok := b.OpenFile(hashOf(1)); ok {
					t.Error("it was opened")
				}
			})
		}
		readers.Wait()
		close(release) // the bubble does not end while one of them waits
	})
}

// TestD05_ResumeFails lets fail once what a store does to resume: it tries again.
func TestD05_ResumeFails(t *testing.T) {
	for _, op := range []string{"opendir", "lock", "list"} {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newSimDisk()
				b := open(t, d)
				b.put(1, 0, 10)
				failed := false
				d.setFault(func(o, _ string) error {
					if o == op && !failed {
						failed = true
						return unix.EIO
					}
					return nil
				})
				for range maxFailures {
					b.failed("reading", errTimeout)
				}
				until(t, "it resumes", func() bool { return b.saw(EventResumed) == 1 })
				if !failed {
					t.Error("nothing failed")
				}
				b.want(1, 0, 10, 10)
			})
		})
	}
}

// TestD05_ResumesWithoutRoom suspends a store whose journal has lost its end. There is no room for a new
// journal before the store evicts something.
func TestD05_ResumesWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSimDisk()
		b := open(t, d, func(o *Options) { o.MaxBytes = 160 << 10 })
		wr, fits := b.writer.Load(), true
		for n := 0; fits; n++ {
			b.put(n, 0, 2)
			err := wr.do(func() error {
				fits = wr.fits(wal.SnapshotSize(wr.d.index), 0)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		resume := b.suspend()
		name := b.onlyLog()
		d.mu.Lock()
		f := d.names[name]
		f.data = f.data[:len(f.data)-1]
		d.mu.Unlock()
		resume()
		b.put(1000, 0, 2) // starts the journal
		b.put(1001, 0, 2)
		b.want(1001, 0, 2, 2)
		b.Close()
	})
}

// TestD04_NothingToOpenWith has a process, or the machine, that can open no more files: those
// that are kept are as good as before.
func TestD04_NothingToOpenWith(t *testing.T) {
	for _, lack := range []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM} {
		t.Run(lack.Error(), func(t *testing.T) {
			d := newSimDisk()
			b := open(t, d)
			b.putThree()
			b = b.again()
			d.setFault(on("open", "", lack))
			b.want(0, 0, 25, 0)
			if b.hasFile(1) {
				t.Error("a file was opened")
			}
			_, err := b.Verify(t.Context(), func(e Entry, err error) { t.Errorf("verify: %v: %v", e, err) })
			if !errors.Is(err, lack) {
				t.Errorf("verify: error = %v, want %v", err, lack)
			}
			d.setFault(on("open", "whole/", lack))
			if _, err := b.Verify(t.Context(), func(e Entry, err error) { t.Errorf("verify: %v: %v", e, err) }); !errors.Is(err, lack) {
				t.Errorf("verify of files: error = %v, want %v", err, lack)
			}
			d.setFault(nil)
			b.flush()
			b.want(0, 0, 25, 25)
			if !b.hasFile(1) || b.saw(EventDropped) > 0 {
				t.Errorf("something is forgotten; %v", b.events)
			}
		})
	}
}

// TestD14_NumbersOfWhatHasGone throws away the newest segment and all that the journal said of
// it: its number is not used again.
func TestD14_NumbersOfWhatHasGone(t *testing.T) {
	b := open(t, newSimDisk())
	b.put(1, 0, 20)
	for n := range 3 {
		before := b.onlySegment()
		if err := b.Clear(); err != nil {
			t.Fatal(err)
		}
		b = b.again()
		b.put(2+n, 0, 20)
		if now := b.onlySegment(); now <= before {
			t.Errorf("%s follows %s", now, before)
		}
		b.want(2+n, 0, 20, 20)
	}
}

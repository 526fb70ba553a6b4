package disk

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/nowait"
	"github.com/xetfs/xetfs/codec"
)

// TestRunOptions requests chunks in all ways.
func TestRunOptions(t *testing.T) {
	b := openAt(t, cacheDir(t))
	b.put(1, 0, 20)
	b.put(1, 25, 30)
	tests := []struct {
		name   string
		chunks codec.ChunkRange
		into   RunOptions
		want   int
	}{
		{"what is there", chunks(0, 20), RunOptions{}, 20},
		{"what is there of it", chunks(10, 30), RunOptions{}, 10},
		{"all that is there", chunks(0, 20), RunOptions{All: true}, 20},
		{"all, and some are not there", chunks(10, 30), RunOptions{All: true}, 0},
		{"all, and the last is not there", chunks(28, 31), RunOptions{All: true}, 0},
		{"now", chunks(3, 7), RunOptions{NoWait: true}, 4},
		{"unchecked", chunks(3, 7), RunOptions{Unchecked: true}, 4},
		{"nothing", chunks(20, 25), RunOptions{}, 0},
		{"nothing now", chunks(20, 25), RunOptions{NoWait: true, All: true, Unchecked: true}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lent := 0
			tt.into.Buffer = func(n int) []byte { lent++; return make([]byte, n) }
			run, ok := b.RunIn(hashOf(1), tt.chunks, tt.into)
			if !ok {
				if tt.want > 0 || lent > 0 {
					t.Errorf("nothing came, want %d chunks; %d buffers were lent", tt.want, lent)
				}
				return
			}
			if run.Chunks.Len() != tt.want || !bytes.Equal(run.Packed, packedOf(1, run.Chunks, chunkSize)) || lent != 1 {
				t.Errorf("chunks %s in %d buffers, want %d chunks", run.Chunks, lent, tt.want)
			}
			if !b.Check(hashOf(1), run) {
				t.Error("they do not match their checksums")
			}
		})
	}
}

// notInMemory returns a store with chunks whose pages were dropped. now reads chunks without waiting for the
// disk, and reports whether all were in memory.
func notInMemory(t *testing.T) (b *fixture, now func() bool) {
	t.Helper()
	dir := cacheDir(t)
	b = openAt(t, dir)
	b.put(1, 0, 20)
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	now = func() bool {
		_, ok := b.RunIn(hashOf(1), chunks(0, 20), RunOptions{Buffer: newBytes, NoWait: true})
		return ok
	}
	if !now() {
		t.Skip("this kernel, or this file system, does not tell what is in memory")
	}
	f, err := os.Open(filepath.Join(dir, "seg/00000001"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	if nowait.ReadAt(int(f.Fd()), make([]byte, 4096), 0) > 0 {
		t.Skip("this file system keeps all in memory")
	}
	return b, now
}

// TestNoWaitIsInMemory checks that chunks outside memory are neither returned nor read.
func TestNoWaitIsInMemory(t *testing.T) {
	b, now := notInMemory(t)
	for range 3 {
		if now() {
			t.Fatal("it came, though it was not in memory")
		}
	}
	if st := b.Stats(); st.Hits != 20 || st.Misses != 0 {
		t.Errorf("%d hits, %d misses", st.Hits, st.Misses)
	}
	b.want(1, 0, 20, 20)
	if !now() {
		t.Error("it was read, and is not in memory")
	}
}

// TestWillRead checks that chunks come into memory without a read.
func TestWillRead(t *testing.T) {
	b, now := notInMemory(t)
	b.WillRead(hashOf(1), chunks(20, 30)) // not stored
	b.WillRead(hashOf(2), chunks(0, 20))
	if now() {
		t.Error("memory has chunks that were not requested")
	}
	b.WillRead(hashOf(1), chunks(0, 30))
	for deadline := time.Now().Add(time.Minute); !now(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the chunks did not come into memory")
		}
	}
}

// TestD08_WillReadDoesNotHang takes all slots of readahead, as a disk that hangs does. WillRead then
// does not wait, and leaves the disk alone. Readers have other slots.
func TestD08_WillReadDoesNotHang(t *testing.T) {
	d := newSimDisk()
	b := open(t, d)
	b.put(1, 0, 20)
	for range cap(b.ahead) {
		b.ahead <- struct{}{}
	}
	d.setFault(func(op, name string) error { t.Errorf("%s of %s", op, name); return unix.EIO })
	b.WillRead(hashOf(1), chunks(0, 20))
	d.setFault(nil)
	b.want(1, 0, 20, 20)
	for range cap(b.ahead) {
		<-b.ahead
	}
}

// Close waits for readahead, which uses the folder, and none starts later.
func TestCloseWaitsForReadahead(t *testing.T) {
	b := background(make(chan struct{}, 2))
	started, end := make(chan struct{}), make(chan struct{})
	ended := false // written before close returns
	b.try(func() {
		close(started)
		<-end
		ended = true
	})
	<-started
	if err := b.close(time.Millisecond); !errors.Is(err, errTimeout) {
		t.Errorf("close = %v while a call runs, want %v", err, errTimeout)
	}
	<-b // the slot that this close has taken
	close(end)
	if err := b.close(time.Minute); err != nil || !ended {
		t.Errorf("close = %v, and the call has ended: %v", err, ended)
	}
	b.try(func() { t.Error("a call runs after close") })
}

// TestD08_NoWaitDoesNotHang blocks the disk. A read of chunks in memory does not use it.
func TestD08_NoWaitDoesNotHang(t *testing.T) {
	d := newSimDisk()
	b := open(t, d)
	b.put(1, 0, 20)
	d.setFault(func(op, name string) error { t.Errorf("%s of %s", op, name); return unix.EIO })
	if run, ok := b.RunIn(hashOf(1), chunks(0, 20), RunOptions{Buffer: newBytes, NoWait: true}); ok {
		t.Errorf("chunks %s came, of a disk of which nothing is in memory", run.Chunks)
	}
	d.setFault(nil)
	b.want(1, 0, 20, 20)
}

// TestD09_Unchecked changes every byte of a segment, one at a time: what comes unchecked
// is found by Check, or has become no run.
func TestD09_Unchecked(t *testing.T) {
	b := open(t, newSimDisk())
	b.put(1, 0, 3)
	f := b.disk.names["seg/00000001"]
	for off := range packedOf(1, chunks(0, 3), chunkSize) {
		f.data[off] ^= 0x10
		run, ok := b.RunIn(hashOf(1), chunks(0, 3), RunOptions{Buffer: newBytes, Unchecked: true})
		if ok && b.Check(hashOf(1), run) {
			t.Fatalf("byte %d: the damage was not found", off)
		}
		f.data[off] ^= 0x10
		if gaps := b.Missing(hashOf(1), chunks(0, 3)); len(gaps) != 1 || gaps[0].Len() != 1 {
			t.Fatalf("byte %d: %v are forgotten, want one chunk", off, gaps)
		}
		if ok && b.Check(hashOf(1), run) {
			t.Fatalf("byte %d: what is forgotten was checked", off)
		}
		if b.Clear() != nil {
			t.Fatal("not cleared")
		}
		b.put(1, 0, 3)
		f = b.disk.names[b.onlySegment()]
	}
}

// TestReadMoved closes the file of some chunks during a read. All chunks are searched once more,
// and none is missed.
func TestReadMoved(t *testing.T) {
	b := open(t, newSimDisk())
	b.put(1, 0, 15)
	b.writerSeals()
	b.put(1, 15, 25)
	for _, tt := range []struct{ closed, want int32 }{{2, 25}, {4, 15}} {
		var reads atomic.Int32
		b.disk.setFault(func(op, name string) error {
			if op == "read" && name == "seg/00000002" && reads.Add(1) <= tt.closed {
				return os.ErrClosed
			}
			return nil
		})
		b.want(1, 0, 25, int(tt.want))
		if reads.Load() == 0 {
			t.Error("the second segment was not read")
		}
	}
	b.disk.setFault(nil)
	b.want(1, 0, 25, 25)
}

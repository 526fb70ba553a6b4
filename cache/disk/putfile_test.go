package disk

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
)

// TestPutFileManyShareASync checks that concurrent files get their names together. One sync of
// the folder serves all files that arrived during the sync before.
func TestPutFileManyShareASync(t *testing.T) {
	const files = 20
	for _, tt := range []struct {
		name  string
		fault error // of the second sync
	}{
		{"it works", nil},
		{"it fails", unix.EIO},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newSimDisk()
			b := open(t, d)
			var syncs atomic.Int32
			first := 0 // that get their names with the first sync
			d.setFault(func(op, name string) error {
				if op != "syncdir" || name != "whole" {
					return nil
				}
				if syncs.Add(1) > 1 {
					return tt.fault
				}
				first = 0
				for n := range files {
					if d.there(index.FileName(hashOf(n))) {
						first++
					}
				}
				for begin := time.Now(); b.writer.Load().naming() < files-first && time.Since(begin) < time.Minute; {
					time.Sleep(time.Millisecond)
				}
				return nil
			})
			var (
				layers  sync.WaitGroup
				failed  atomic.Int32
				started sync.WaitGroup // content is read once there is room for all
			)
			started.Add(files)
			for n := range files {
				layers.Go(func() {
					content := &hookedReader{b: fileOf(n), hook: func() { started.Done(); started.Wait() }}
					if err := b.PutFile(hashOf(n), int64(len(content.b)), content); err != nil {
						failed.Add(1)
						if !errors.Is(err, tt.fault) {
							t.Error(err)
						}
					}
				})
			}
			layers.Wait()
			if n := syncs.Load(); n > 2 {
				t.Errorf("%d syncs for %d files, want 2 at most", n, files)
			}
			d.setFault(nil)
			kept := 0
			for n := range files {
				if b.hasFile(n) {
					kept++
				}
				if name := index.FileName(hashOf(n)); d.there(tmpFileName(hashOf(n))) || d.there(name) != b.HasFile(hashOf(n)) {
					t.Errorf("file %d is half there", n)
				}
			}
			want := files
			if tt.fault != nil {
				want = first
			}
			if kept != want || int(failed.Load()) != files-want {
				t.Errorf("%d files are kept and %d failed, want %d kept", kept, failed.Load(), want)
			}
			if b.saw(EventSuspended) > 0 {
				t.Error("one failure was counted for each file")
			}
		})
	}
}

// naming returns how many files wait for their names.
func (wr *writer) naming() (n int) {
	wr.mu.Lock()
	defer wr.mu.Unlock()
	for _, o := range wr.ops {
		if o.name != nil {
			n++
		}
	}
	return n
}

// TestLaidDownAnewBeforeItIsDeleted forgets a file, and the writer hears of it when the same
// file exists again.
func TestLaidDownAnewBeforeItIsDeleted(t *testing.T) {
	b := open(t, newSimDisk())
	b.keepFile(1)
	d, k := b.Store.disk.Load(), b.writer.Load()
	w := d.index.ForgetFile(hashOf(1)) // as forgetFile does, first
	b.keepFile(1)
	if err := k.do(func() error { k.removeFile(d, w); return nil }); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if !b.hasFile(1) {
			t.Error("the new one is gone")
		}
		b.wantCounted(t)
		b = b.again()
	}
}

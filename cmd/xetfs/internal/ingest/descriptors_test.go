package ingest

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// S31: an open waits for a descriptor only while a file of the same Ingest will be closed.
func TestS31_WaitForDescriptor(t *testing.T) {
	d := newDescriptors(false, nil)
	folder, err := d.openFolder(t.Context(), unix.AT_FDCWD, t.TempDir(), 0, noOthers)
	if err != nil {
		t.Fatal(err)
	}
	var free atomic.Bool // a descriptor
	d.fault = func(string) error {
		if free.Load() {
			return nil
		}
		return unix.EMFILE
	}
	others := func(folders, _ int) bool { return folders > 0 }
	if _, err := d.openFolder(t.Context(), unix.AT_FDCWD, "/", 0, otherFiles); !errors.Is(err, unix.EMFILE) {
		t.Errorf("nothing of its own will be closed: %v", err)
	}
	opened := make(chan error)
	go func() {
		_, err := d.openFolder(t.Context(), unix.AT_FDCWD, "/", 0, others)
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Fatalf("did not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	free.Store(true)
	d.closeFolder(folder)
	if err := <-opened; err != nil {
		t.Errorf("after a folder was closed: %v", err)
	}
}

// S31: the number of open folders is bounded, beside those that lead to the current one.
func TestS31_FoldersOpen(t *testing.T) {
	d := newDescriptors(false, nil)
	d.maxFolders = 2
	for own, open := range map[int]int{0: 2, 3: 5} {
		d.folders = open - 1
		if d.full(own) {
			t.Errorf("%d of %d folders open, %d own: full", open-1, d.maxFolders, own)
		}
		d.folders = open
		if !d.full(own) {
			t.Errorf("%d of %d folders open, %d own: not full", open, d.maxFolders, own)
		}
	}
	d.folders = 5
	room := make(chan error)
	go func() { room <- d.waitForRoom(t.Context(), 3) }()
	d.closeFolder(-1)
	if err := <-room; err != nil || d.full(3) {
		t.Errorf("after a folder was closed: %v", err)
	}
}

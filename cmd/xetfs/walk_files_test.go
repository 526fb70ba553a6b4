package main

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// S31: a walk waits for a descriptor while one of its own will be closed, and no longer.
func TestS31_WaitForDescriptor(t *testing.T) {
	w := newWalkFiles(false)
	folder, err := w.openFolder(t.Context(), unix.AT_FDCWD, t.TempDir(), 0, noOthers)
	if err != nil {
		t.Fatal(err)
	}
	var free atomic.Bool // a descriptor
	w.fault = func(string) error {
		if free.Load() {
			return nil
		}
		return unix.EMFILE
	}
	others := func(folders, _ int) bool { return folders > 0 }
	if _, err := w.openFolder(t.Context(), unix.AT_FDCWD, "/", 0, otherFiles); !errors.Is(err, unix.EMFILE) {
		t.Errorf("nothing of its own will be closed: %v", err)
	}
	opened := make(chan error)
	go func() {
		_, err := w.openFolder(t.Context(), unix.AT_FDCWD, "/", 0, others)
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Fatalf("did not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	free.Store(true)
	w.closeFolder(folder)
	if err := <-opened; err != nil {
		t.Errorf("after a folder was closed: %v", err)
	}
}

// S31: the lister has a bounded number of folders open, beside those that lead to where it is.
func TestS31_FoldersOpen(t *testing.T) {
	w := newWalkFiles(false)
	w.maxFolders = 2
	for own, open := range map[int]int{0: 2, 3: 5} {
		w.folders = open - 1
		if w.full(own) {
			t.Errorf("%d of %d folders open, %d own: full", open-1, w.maxFolders, own)
		}
		w.folders = open
		if !w.full(own) {
			t.Errorf("%d of %d folders open, %d own: not full", open, w.maxFolders, own)
		}
	}
	w.folders = 5
	room := make(chan error)
	go func() { room <- w.waitForRoom(t.Context(), 3) }()
	w.closeFolder(-1)
	if err := <-room; err != nil || w.full(3) {
		t.Errorf("after a folder was closed: %v", err)
	}
}

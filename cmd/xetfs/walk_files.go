package main

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A walkFiles is what the goroutines of one walk share: its system calls, its open files
// and what it knows of mounts.
type walkFiles struct {
	fileCalls
	mounts walkMounts

	mu      sync.Mutex
	folders int           // that are open; guarded by mu
	files   int           // that are open; guarded by mu
	closes  int           // so far; guarded by mu
	closed  chan struct{} // is closed with the next file or folder; nil: no goroutine waits; guarded by mu

	maxFolders int // open at a time, beside those that lead to where the lister is
	readers    int // goroutines that read files
}

// Limits of what a walk has open. A process may have few descriptors, and the store needs
// some of them.
const (
	foldersOpen    = 256
	foundReaders   = 8                // goroutines: on a network file system each waits for one file
	descriptorWait = 10 * time.Second // for one of the own descriptors
)

func newWalkFiles(oneFileSystem bool) *walkFiles {
	limit := uint64(1024)
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err == nil {
		limit = uint64(r.Cur) //nolint:unconvert // an int64 on some machines
	}
	return &walkFiles{
		mounts:     walkMounts{oneFileSystem: oneFileSystem},
		maxFolders: int(min(foldersOpen, max(2, limit/8))),
		readers:    int(min(foundReaders, max(1, limit/16))),
	}
}

// openFolder opens a folder. While no descriptor is free, and others can say that one of
// theirs will be closed, it waits for that.
func (w *walkFiles) openFolder(ctx context.Context, dir int, name string, flags int, others func(folders, files int) bool) (fd int, err error) {
	if fd, err = w.open(ctx, dir, name, unix.O_DIRECTORY|flags, others); err == nil {
		w.count(1, 0)
	}
	return fd, err
}

// openFile opens a regular file; a pipe or device in its place must not be waited for.
func (w *walkFiles) openFile(ctx context.Context, dir int, name string, others func(folders, files int) bool) (fd int, err error) {
	if fd, err = w.open(ctx, dir, name, unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_NOCTTY, others); err == nil {
		w.count(0, 1)
	}
	return fd, err
}

func (w *walkFiles) closeFolder(fd int) {
	_ = unix.Close(fd) // nothing was written
	w.count(-1, 0)
}

func (w *walkFiles) closeFile(fd int) {
	_ = unix.Close(fd) // nothing was written
	w.count(0, -1)
}

// noOthers and otherFiles say which open files will be closed without the caller.
func noOthers(_, _ int) bool       { return false }
func otherFiles(_, files int) bool { return files > 0 }

// count counts open folders and files, and wakes those that wait for fewer.
func (w *walkFiles) count(folders, files int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.folders += folders
	w.files += files
	if folders+files > 0 {
		return
	}
	w.closes++
	if w.closed != nil {
		close(w.closed)
		w.closed = nil
	}
}

func (w *walkFiles) open(ctx context.Context, dir int, name string, flags int, others func(folders, files int) bool) (int, error) {
	fd, err := w.openAt(dir, name, flags)
	if !isNoDescriptor(err) {
		return fd, err
	}
	ctx, cancel := context.WithTimeout(ctx, descriptorWait)
	defer cancel()
	for {
		closes := w.closesSoFar()
		fd, err := w.openAt(dir, name, flags)
		if !isNoDescriptor(err) || !w.wait(ctx, closes, others) {
			return fd, err
		}
	}
}

// wait waits until more than some files were closed. It returns false if none will be, or
// ctx ends before.
func (w *walkFiles) wait(ctx context.Context, closes int, others func(folders, files int) bool) bool {
	w.mu.Lock()
	if w.closes != closes {
		w.mu.Unlock()
		return true
	}
	if !others(w.folders, w.files) {
		w.mu.Unlock()
		return false
	}
	if w.closed == nil {
		w.closed = make(chan struct{})
	}
	closed := w.closed
	w.mu.Unlock()
	select {
	case <-closed:
		return true
	case <-ctx.Done():
		return false
	}
}

func (w *walkFiles) closesSoFar() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closes
}

// full says whether no further folder may be open, beside the own ones of the caller.
func (w *walkFiles) full(own int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.folders-own >= w.maxFolders
}

// waitForRoom waits until another folder may be open.
func (w *walkFiles) waitForRoom(ctx context.Context, own int) error {
	for {
		closes := w.closesSoFar()
		if !w.full(own) {
			return nil
		}
		w.wait(ctx, closes, func(folders, _ int) bool { return folders > own })
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

package ingest

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/ui"
)

// A descriptors opens files and folders for the goroutines of one Ingest, and limits their
// number.
type descriptors struct {
	syscalls
	mounts mounts

	mu      sync.Mutex
	folders int           // open now; guarded by mu
	files   int           // open now; guarded by mu
	closes  int           // so far; guarded by mu
	closed  chan struct{} // closed with the next file or folder; nil: no goroutine waits; guarded by mu

	maxFolders int // open at a time, beside those that lead to the current one
	readers    int // goroutines that read files
}

// Limits of open files. A process may have few descriptors, and the store needs some of them.
const (
	foldersOpen    = 256
	maxReaders     = 8                // goroutines; on a network file system each waits for one file
	descriptorWait = 10 * time.Second // for a descriptor of this Ingest
)

func newDescriptors(oneFileSystem bool, fault func(call string) error) *descriptors {
	limit := uint64(1024)
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err == nil {
		limit = uint64(r.Cur) //nolint:unconvert // an int64 on some machines
	}
	return &descriptors{
		syscalls:   syscalls{fault},
		mounts:     mounts{oneFileSystem: oneFileSystem},
		maxFolders: int(min(foldersOpen, max(2, limit/8))),
		readers:    int(min(maxReaders, max(1, limit/16))),
	}
}

// openFolder opens a folder. Without a free descriptor it waits, if others reports that one of
// the open files will be closed.
func (d *descriptors) openFolder(ctx context.Context, dir int, name string, flags int, others func(folders, files int) bool) (fd int, err error) {
	if fd, err = d.open(ctx, dir, name, unix.O_DIRECTORY|flags, others); err == nil {
		d.count(1, 0)
	}
	return fd, err
}

// openFile opens a regular file. It does not wait for a pipe or device in its place.
func (d *descriptors) openFile(ctx context.Context, dir int, name string, others func(folders, files int) bool) (fd int, err error) {
	if fd, err = d.open(ctx, dir, name, unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_NOCTTY, others); err == nil {
		d.count(0, 1)
	}
	return fd, err
}

func (d *descriptors) closeFolder(fd int) {
	_ = unix.Close(fd) // nothing was written
	d.count(-1, 0)
}

func (d *descriptors) closeFile(fd int) {
	_ = unix.Close(fd) // nothing was written
	d.count(0, -1)
}

// noOthers and otherFiles report whether open files will be closed without the caller.
func noOthers(_, _ int) bool       { return false }
func otherFiles(_, files int) bool { return files > 0 }

// count counts open folders and files, and wakes goroutines that wait for fewer.
func (d *descriptors) count(folders, files int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.folders += folders
	d.files += files
	if folders+files > 0 {
		return
	}
	d.closes++
	if d.closed != nil {
		close(d.closed)
		d.closed = nil
	}
}

func (d *descriptors) open(ctx context.Context, dir int, name string, flags int, others func(folders, files int) bool) (int, error) {
	fd, err := d.openAt(dir, name, flags)
	if !ui.IsNoDescriptor(err) {
		return fd, err
	}
	ctx, cancel := context.WithTimeout(ctx, descriptorWait)
	defer cancel()
	for {
		closes := d.closesSoFar()
		fd, err := d.openAt(dir, name, flags)
		if !ui.IsNoDescriptor(err) || !d.wait(ctx, closes, others) {
			return fd, err
		}
	}
}

// wait waits until the number of closed files exceeds closes. It returns false if none will be
// closed, or if ctx ends.
func (d *descriptors) wait(ctx context.Context, closes int, others func(folders, files int) bool) bool {
	d.mu.Lock()
	if d.closes != closes {
		d.mu.Unlock()
		return true
	}
	if !others(d.folders, d.files) {
		d.mu.Unlock()
		return false
	}
	if d.closed == nil {
		d.closed = make(chan struct{})
	}
	closed := d.closed
	d.mu.Unlock()
	select {
	case <-closed:
		return true
	case <-ctx.Done():
		return false
	}
}

func (d *descriptors) closesSoFar() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closes
}

// full reports whether the limit of folders is reached. The caller has own of them.
func (d *descriptors) full(own int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.folders-own >= d.maxFolders
}

// waitForRoom waits until another folder may be open.
func (d *descriptors) waitForRoom(ctx context.Context, own int) error {
	for {
		closes := d.closesSoFar()
		if !d.full(own) {
			return nil
		}
		d.wait(ctx, closes, func(folders, _ int) bool { return folders > own })
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

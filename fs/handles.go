package fs

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/xetfs/xetfs/cache/recent"
)

// A handleTable numbers the open files and directories for messages of the kernel.
type handleTable[T any] struct {
	mu   sync.RWMutex
	open map[uint64]T // guarded by mu
	last uint64       // last number; guarded by mu
}

func (t *handleTable[T]) add(v T) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = make(map[uint64]T)
	}
	t.last++
	t.open[t.last] = v
	return t.last
}

func (t *handleTable[T]) get(n uint64) (T, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	v, ok := t.open[n]
	return v, ok
}

func (t *handleTable[T]) remove(n uint64) (T, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.open[n]
	delete(t.open, n)
	return v, ok
}

// removeAll empties the table and returns its values.
func (t *handleTable[T]) removeAll() map[uint64]T {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.open
	t.open = nil
	return all
}

// all returns the values of the table.
func (t *handleTable[T]) all() []T {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Collect(maps.Values(t.open))
}

const (
	maxOpenFiles = 256              // cached files of a stateless mount
	idleFile     = 10 * time.Second // an idle file is closed after one to two times this time
)

// openFiles are the open files of a stateless mount by inode. The first read opens a file. It is
// closed when it is idle, when others replace it, or when the kernel forgets its inode.
type openFiles = recent.Set[uint64, *fileHandle]

// A sharedFile is an open file that several readers share.
type sharedFile = recent.Item[uint64, *fileHandle]

func (f *filesystem) newOpenFiles() *openFiles {
	return recent.New[uint64](maxOpenFiles, idleFile, func(h *fileHandle) {
		h.reader.Close() // it only stops readahead
		h.claim.close(&f.claimBytes)
	})
}

// takeFile returns the file of an inode. The caller must put it back after the read.
func (f *filesystem) takeFile(req *request, ino uint64) (*sharedFile, fuse.Status) {
	if known := f.shared.Find(ino); known != nil {
		return known, fuse.OK
	}
	h, status := f.open(req, ino)
	if !status.Ok() {
		return nil, status
	}
	return f.shared.Add(ino, h), fuse.OK
}

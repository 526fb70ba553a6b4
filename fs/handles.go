package fs

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/xetfs/xetfs/cache/recent"
)

// A handleTable numbers the open files and directories for messages of the kernel.
type handleTable[T any] struct {
	open sync.Map      // number → T; lookups take no lock
	last atomic.Uint64 // last number
}

func (t *handleTable[T]) add(v T) uint64 {
	n := t.last.Add(1)
	t.open.Store(n, v)
	return n
}

func (t *handleTable[T]) get(n uint64) (T, bool) {
	v, ok := t.open.Load(n)
	found, _ := v.(T)
	return found, ok
}

func (t *handleTable[T]) remove(n uint64) (T, bool) {
	v, ok := t.open.LoadAndDelete(n)
	found, _ := v.(T)
	return found, ok
}

// removeAll empties the table and returns its values.
func (t *handleTable[T]) removeAll() (all []T) {
	t.open.Range(func(n, _ any) bool {
		if v, ok := t.remove(n.(uint64)); ok {
			all = append(all, v)
		}
		return true
	})
	return all
}

// all returns the values of the table.
func (t *handleTable[T]) all() (all []T) {
	t.open.Range(func(_, v any) bool {
		all = append(all, v.(T))
		return true
	})
	return all
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
		f.claims.Release(h.pathClaim)
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

package ingest

import (
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/statcache"
	"github.com/xetfs/xetfs/codec/page"
)

// An Entry is one name of a folder on its way into a tree. It belongs to the stage that has
// its batch.
type Entry struct {
	page.Entry
	Unchanged bool // the content is from the stat cache
	Private   bool // other users cannot read the file

	root    string      // folder as the user calls it
	in      *openFolder // nil: the root, or released
	state   entryState
	stat    statcache.StatInfo // of a file with content, as it was read
	read    int64              // when it was read, nanoseconds since 1970
	known   *statcache.Entry   // nil: unknown to the last publish
	content []byte             // of a small file that has been read, in batch.buf
	why     error              // why it, or a part of it, is skipped
}

type entryState uint8

const (
	stateNamed   entryState = iota // only the path is known
	stateRead                      // a small file, to be packed
	stateLarge                     // a file, to be read and packed
	stateDone                      // complete, or complete when its shard is stored
	stateSkipped                   // see why
)

// FullPath returns the path as the user calls it.
func (e *Entry) FullPath() string { return filepath.Join(e.root, e.Path) }

// name returns the name in the open folder.
func (e *Entry) name() string {
	if e.in.file != "" {
		return e.in.file
	}
	return e.Path[strings.LastIndexByte(e.Path, '/')+1:]
}

// procPath returns a path for system calls that need one.
func (e *Entry) procPath() string { return e.in.procPath(e.name()) }

func (e *Entry) skip(why error) { e.state, e.why = stateSkipped, why }

// memory returns the approximate memory of e.
func (e *Entry) memory() int64 {
	n := 400 + len(e.Path) + len(e.Inline) + len(e.Target)
	for name, value := range e.Xattrs {
		n += 64 + len(name) + len(value)
	}
	return int64(n)
}

// A batch has consecutive entries of the tree.
type batch struct {
	entries []Entry
	folders []*openFolder // open while the batch needs them
	buf     []byte        // contents of small files
	ready   chan struct{} // closed after the readers
	waiting int           // files whose shard is not stored; guarded by reorderBuffer.mu
	memory  int64
}

// Limits of a batch.
const (
	batchEntries = 64
	batchFolders = 8
)

func newBatch() *batch {
	return &batch{entries: make([]Entry, 0, batchEntries), ready: make(chan struct{})}
}

// hold keeps a folder open while the batch needs it.
func (b *batch) hold(f *openFolder) {
	if n := len(b.folders); f == nil || n > 0 && b.folders[n-1] == f {
		return
	}
	f.users.Add(1)
	b.folders = append(b.folders, f)
}

func (b *batch) full() bool {
	return len(b.entries) >= batchEntries || len(b.folders) >= batchFolders
}

// release closes folders without further users.
func (b *batch) release() {
	for _, f := range b.folders {
		f.release()
	}
	b.folders = nil
	for i := range b.entries {
		e := &b.entries[i]
		e.in, e.content = nil, nil
		b.memory += e.memory()
	}
}

// An openFolder is a folder whose entries are being read. Its entries are opened relative to
// it. A folder that another process renames or replaces by a link leads nowhere else.
type openFolder struct {
	fd      int
	path    string   // in the tree
	names   []string // of path
	prefix  string   // of the keys of its entries
	dev     uint64
	mount   uint64 // id; 0: unknown
	private bool   // other users cannot reach its entries
	file    string // path of the only entry, if the user named a file
	files   *descriptors
	users   atomic.Int32
}

// newOpenFolder returns a folder in another one, or the root. It has one user.
func newOpenFolder(files *descriptors, fd int, in *openFolder, name string) *openFolder {
	f := &openFolder{fd: fd, files: files}
	if in != nil {
		f.path, f.names = in.join(name), append(slices.Clip(in.names), name)
	}
	f.prefix = page.ChildKey(f.path)
	f.users.Store(1)
	return f
}

// fileFolder returns a folder with one entry, a file that the user named. It is never closed.
func fileFolder(files *descriptors, path string) *openFolder {
	f := newOpenFolder(files, unix.AT_FDCWD, nil, "")
	f.file, f.private = path, aboveIsPrivate(path)
	return f
}

// release removes one user.
func (f *openFolder) release() {
	if f.users.Add(-1) == 0 {
		f.files.closeFolder(f.fd)
	}
}

// join returns the path of an entry in the tree.
func (f *openFolder) join(name string) string {
	if f.path == "" {
		return name
	}
	return f.path + "/" + name
}

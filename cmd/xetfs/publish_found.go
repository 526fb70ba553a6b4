package main

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/xetfs/xetfs/cmd/xetfs/internal/statcache"
	"github.com/xetfs/xetfs/codec/page"
)

// A found is one thing in the folder on its way into the tree.
//
//	lister ──▶ readers ──▶ packer ──▶ assembly ──▶ tree
//	names      stat, read  chunks     waits for    in the order of keys
//	           small files            shards
//
// It travels in batches, and belongs to whoever has its batch.
type found struct {
	in      *openFolder // where it lies; nil for the root
	entry   page.Entry
	state   foundState
	stat    statcache.StatInfo // of a file with content, as it was read
	read    int64              // when it was read, nanoseconds since 1970; 0: the content is from the stat cache
	known   *statcache.Entry   // nil: the last publish did not read it
	content []byte             // of a small file that has been read, in batch.buf
	why     error              // it is passed over, or a part of it is
}

type foundState uint8

const (
	foundNamed   foundState = iota // nothing but its path is known
	foundRead                      // a small file, to be packed
	foundLarge                     // a file, to be read and packed
	foundDone                      // its entry is complete, or will be when its shard is stored
	foundSkipped                   // see why
)

// name returns the last part of the path.
func (f *found) name() string { return f.entry.Path[strings.LastIndexByte(f.entry.Path, '/')+1:] }

// skip passes over f.
func (f *found) skip(why error) { f.state, f.why = foundSkipped, why }

// memory is about what f takes.
func (f *found) memory() int64 {
	n := 400 + len(f.entry.Path) + len(f.entry.Inline) + len(f.entry.Target)
	for name, value := range f.entry.Xattrs {
		n += 64 + len(name) + len(value)
	}
	return int64(n)
}

// A foundBatch is some things that follow each other in the tree.
type foundBatch struct {
	found   []found
	folders []*openFolder // held open
	buf     []byte        // contents of small files
	ready   chan struct{} // closed when the readers are through
	waiting int           // files whose shard is not stored yet; guarded by assembly.mu
	memory  int64
}

// Limits of a batch.
const (
	batchFound   = 64
	batchFolders = 8
)

func newFoundBatch() *foundBatch {
	return &foundBatch{found: make([]found, 0, batchFound), ready: make(chan struct{})}
}

// hold keeps a folder open as long as the batch needs it.
func (b *foundBatch) hold(d *openFolder) {
	if n := len(b.folders); d == nil || n > 0 && b.folders[n-1] == d {
		return
	}
	d.users.Add(1)
	b.folders = append(b.folders, d)
}

func (b *foundBatch) full() bool {
	return len(b.found) >= batchFound || len(b.folders) >= batchFolders
}

// release closes the folders that nobody else needs. Entries alone are left.
func (b *foundBatch) release() {
	for _, d := range b.folders {
		d.release()
	}
	b.folders = nil
	for i := range b.found {
		f := &b.found[i]
		f.in, f.content = nil, nil
		b.memory += f.memory()
	}
}

// An openFolder is a folder whose entries are being read. Nothing in it is reached by a
// path, so that nobody who renames folders or puts links in their places leads out of
// the tree.
type openFolder struct {
	fd      int
	path    string   // in the tree
	names   []string // of path
	prefix  string   // of the keys of its entries
	dev     uint64
	mount   uint64 // id; 0: unknown
	private bool   // other users cannot reach what is in it
	files   *walkFiles
	users   atomic.Int32
}

// newOpenFolder is a folder with this name in another, or the root; it has one user.
func newOpenFolder(files *walkFiles, fd int, in *openFolder, name string) *openFolder {
	d := &openFolder{fd: fd, files: files}
	if in != nil {
		d.path, d.names = in.join(name), append(slices.Clip(in.names), name)
	}
	d.prefix = page.ChildKey(d.path)
	d.users.Store(1)
	return d
}

// release says that one user less needs the folder open.
func (d *openFolder) release() {
	if d.users.Add(-1) == 0 {
		d.files.closeFolder(d.fd)
	}
}

// join returns the path of an entry.
func (d *openFolder) join(name string) string {
	if d.path == "" {
		return name
	}
	return d.path + "/" + name
}

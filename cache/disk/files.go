package disk

import (
	"io"
	"os"
)

// files is the folder of a store, as the operating system keeps it. Names are relative
// to it, with at most one slash. A test puts a disk in its place that fails, hangs, or
// forgets at a power loss what was not synced. It is safe for concurrent use.
type files interface {
	// create makes a file that must not be there yet, for writing and reading.
	create(name string) (file, error)

	// open opens a plain file of ours for reading, or for writing too. What is anything
	// else, a link or a pipe for example, is errForeign.
	open(name string, write bool) (file, error)

	// rename puts a file in the place of another, or of none. It lasts after syncDir.
	rename(from, to string) error
	remove(name string) error
	stat(name string) (entry, error)
	mkdir(name string) error

	// list returns what is in a folder, "" being the folder of the store. A file of which
	// nothing but the name can be found out is there with the reason.
	list(dir string) ([]entry, error)
	syncDir(dir string) error

	// space returns the bytes that are free, and all, of the file system.
	space() (free, total int64, err error)

	// lock makes the caller the only one to write here; errLocked if another process is.
	lock() error

	// probe writes, syncs, reads and removes a file: does the disk work again?
	probe() error
	close() error
}

// An entry is one name in a folder.
type entry struct {
	name     string
	size     int64
	mtime    int64 // time of change in nanoseconds since 1970
	ctime    int64 // the same of anything about the file, its name included; nobody can set it
	regular  bool  // an ordinary file
	unlinked bool  // it was deleted, which touched it
	err      error // why nothing but the name is known; nil: all is
}

// A file is one open file.
type file interface {
	io.ReaderAt
	io.WriterAt

	// tryRead is ReadAt of what is in memory already: it never waits for the disk, and
	// returns how many bytes there were, from off on. 0 may mean that it cannot tell.
	tryRead(p []byte, off int64) int
	truncate(size int64) error
	sync() error // the bytes and the size last
	stat() (entry, error)
	osFile() *os.File // nil where the kernel knows of no such file
	io.Closer
}

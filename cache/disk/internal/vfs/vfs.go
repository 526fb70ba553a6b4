package vfs

import (
	"io"
	"os"
)

// Dir is the folder of a store, as the operating system keeps it. Names are relative
// to it, with at most one slash. A test puts a disk in its place that fails, hangs, or
// forgets at a power loss what was not synced. It is safe for concurrent use.
type Dir interface {
	// create makes a file that must not be there yet, for writing and reading.
	Create(name string) (File, error)

	// open opens a plain file of ours for reading, or for writing too. What is anything
	// else, a link or a pipe for example, is errForeign.
	Open(name string, write bool) (File, error)

	// rename puts a file in the place of another, or of none. It lasts after syncDir.
	Rename(from, to string) error
	Remove(name string) error
	Stat(name string) (FileInfo, error)
	Mkdir(name string) error

	// list returns what is in a folder, "" being the folder of the store. A file of which
	// nothing but the name can be found out is there with the reason.
	List(dir string) ([]FileInfo, error)
	SyncDir(dir string) error

	// space returns the bytes that are free, and all, of the file system.
	Space() (free, total int64, err error)

	// lock makes the caller the only one to write here; errLocked if another process is.
	Lock() error

	// probe writes, syncs, reads and removes a file: does the disk work again?
	Probe() error
	Close() error
}

// An entry is one name in a folder.
type FileInfo struct {
	Name     string
	Size     int64
	MTime    int64 // time of change in nanoseconds since 1970
	CTime    int64 // the same of anything about the file, its name included; nobody can set it
	Regular  bool  // an ordinary file
	Unlinked bool  // it was deleted, which touched it
	Err      error // why nothing but the name is known; nil: all is
}

// A File is one open file.
type File interface {
	io.ReaderAt
	io.WriterAt

	// tryRead is ReadAt of what is in memory already: it never waits for the disk, and
	// returns how many bytes there were, from off on. 0 may mean that it cannot tell.
	TryRead(p []byte, off int64) int
	Truncate(size int64) error
	Sync() error // the bytes and the size last
	Stat() (FileInfo, error)
	OSFile() *os.File // nil where the kernel knows of no such file
	io.Closer
}

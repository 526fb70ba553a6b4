package vfs

import (
	"io"
	"os"
)

// Dir is the folder of a store. Names are relative to it, with at most one slash. Tests replace
// it by a disk that fails, hangs, or loses unsynced bytes at a power loss. It is safe for
// concurrent use.
type Dir interface {
	// Create creates a file, which must be absent, for writing and reading.
	Create(name string) (File, error)

	// Open opens a regular file of this user for reading, or with write also for writing.
	// Another file, for example a link or a pipe, is ErrForeign.
	Open(name string, write bool) (File, error)

	// Rename replaces a file or creates a name. It is durable after SyncDir.
	Rename(from, to string) error
	Remove(name string) error
	Stat(name string) (FileInfo, error)
	Mkdir(name string) error

	// List returns the entries of a folder; "" is the folder of the store. An entry that cannot
	// be examined has an Err.
	List(dir string) ([]FileInfo, error)
	SyncDir(dir string) error

	// Space returns the free and total bytes of the file system.
	Space() (free, total int64, err error)

	// Lock makes this process the only writer. It returns ErrLocked if another process is.
	Lock() error

	// Probe writes, syncs, reads and removes a file to test the disk.
	Probe() error
	Close() error
}

// A FileInfo describes one name in a folder.
type FileInfo struct {
	Name     string
	Size     int64
	MTime    int64 // modification in nanoseconds since 1970
	CTime    int64 // change of content or inode in nanoseconds; programs cannot set it
	Regular  bool  // a regular file
	Unlinked bool  // without a name; the deletion has changed CTime
	Err      error // the reason why only the name is known
}

// A File is one open file.
type File interface {
	io.ReaderAt
	io.WriterAt

	// TryRead is ReadAt of bytes in memory: it never waits for the disk. It returns the number
	// of bytes from off on; 0 may mean unknown.
	TryRead(p []byte, off int64) int
	Truncate(size int64) error
	Sync() error // makes bytes and size durable
	Stat() (FileInfo, error)
	OSFile() *os.File // nil if the file has no descriptor
	io.Closer
}

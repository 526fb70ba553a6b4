// Package page holds what an index says of one name in a tree: a file, a directory
// or a symbolic link. Catalogs keep entries in pages, named by their hash; a mount
// without a catalog makes entries itself.
package page

import (
	"time"

	"github.com/xetfs/xetfs/codec"
)

// A Hash names a page: plain BLAKE3 of its bytes, not a Xet hash.
type Hash [32]byte

// An Entry is one file, directory or symbolic link of a tree.
type Entry struct {
	Path    string // slash-separated, without a leading slash
	Type    Type
	Mode    uint32 // permission bits
	ModTime time.Time
	Size    int64 // bytes of a file
	ID      codec.FileID
	Inline  []byte    // the whole content of a tiny file, instead of ID
	SHA256  *[32]byte // nil: not recorded
	Owner   *Owner    // nil: whoever mounts
	Target  string    // of a link
	Xattrs  map[string]string
}

// A Type says what an Entry is.
type Type uint8

// The three types of entries. A tree has no device nodes, sockets or pipes.
const (
	File Type = iota
	Dir
	Symlink
)

// An Owner is the numeric owner and group of an entry.
type Owner struct{ UID, GID uint32 }

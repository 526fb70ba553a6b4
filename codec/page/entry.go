package page

import (
	"bytes"
	"maps"
	"time"

	"github.com/xetfs/xetfs/codec"
)

// MaxInline is the largest content of a file that is part of its entry.
const MaxInline = 256

// An Entry is one file, directory or symbolic link of a tree. In a leaf it is a row
// whose key is that of its path, and whose value is
//
//	 uvarint  flags: type in bits 0 to 2, then bits for what follows
//	 uvarint  permission bits
//	 svarint  seconds of the modification time, less the base time of the page
//	 uvarint  nanoseconds, 1 to 999,999,999                      bit 3
//	 uvarint  owner, uvarint group                               bit 4
//	 uvarint  size                                               file
//	          content, 1 to 256 bytes                            bit 7, file
//	32 bytes  Xet hash of the file                               file with a size, not bit 7
//	 uvarint  s: 0, or 1 + index into the shard table            with the Xet hash
//	 uvarint  offset of the File Info block in that shard / 48   s > 0
//	32 bytes  SHA-256 of the content                             bit 5, file
//	 uvarint  length, then the target                            link
//	 uvarint  count, of each attribute: uvarint length, name,
//	          uvarint length, value; sorted by name              bit 6
//	 uvarint  length, then bytes to be skipped                   bit 8
//
// Nothing has two spellings: a time without nanoseconds has no bit 3, an empty file
// neither content nor hash. Bit 8 is for the future; it is read and never written.
type Entry struct {
	Path    string // slash-separated, without a leading slash; the root is ""
	Type    Type
	Mode    uint32    // permission bits, at most 07777
	ModTime time.Time // UTC in decoded entries
	Size    int64     // bytes of a file; 0 for others
	ID      codec.FileID
	Inline  []byte    // the whole content of a tiny file, instead of ID
	SHA256  *[32]byte // of a file's content; nil: not recorded
	Owner   *Owner    // nil: the user of the mount
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

// String returns "file", "directory" or "link".
func (t Type) String() string {
	switch t {
	case File:
		return "file"
	case Dir:
		return "directory"
	case Symlink:
		return "link"
	}
	return "unknown type"
}

// An Owner is the numeric owner and group of an entry.
type Owner struct{ UID, GID uint32 }

// Equal reports whether all fields of e and o are equal, including the place of the description
// of a file (ID.Shard).
func (e *Entry) Equal(o *Entry) bool {
	return e.Path == o.Path && e.Type == o.Type && e.Mode == o.Mode && e.ModTime.Equal(o.ModTime) &&
		e.Size == o.Size && e.ID == o.ID && bytes.Equal(e.Inline, o.Inline) &&
		equal(e.SHA256, o.SHA256) && equal(e.Owner, o.Owner) &&
		e.Target == o.Target && maps.Equal(e.Xattrs, o.Xattrs)
}

// EqualContent reports whether e and o are the same in the identity form of a page. The place of
// the description of a file may differ.
func (e *Entry) EqualContent(o *Entry) bool {
	moved := *o
	moved.ID = e.ID
	return e.ID.File == o.ID.File && e.Equal(&moved)
}

func equal[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

package hub

import (
	"context"
	"crypto/sha256"
	"encoding/binary"

	"github.com/xetfs/xetfs/codec"
)

// A PlainFile is a file outside Xet: a git blob, or a file in LFS.
type PlainFile struct {
	Commit string // a commit with the file
	Path   string // of the file there
	Size   int64
	Git    *[20]byte // SHA-1 of "blob SIZE\0" and the content; nil: in LFS
	SHA256 *[32]byte // of the content; nil: in git
}

// A Locator finds the files outside Xet by their names. It is safe for concurrent use.
type Locator interface {
	// Locate returns the file with a name, or origin.ErrNotFound. It sends no request.
	Locate(ctx context.Context, file codec.Hash) (PlainFile, error)
}

// Plain returns the entry of a file as a PlainFile. ok is false for a folder, an empty file and a
// file in Xet.
func (e *Entry) Plain() (f PlainFile, ok bool) {
	if e.Dir || e.Size == 0 || !e.Xet.IsZero() {
		return PlainFile{}, false
	}
	f = PlainFile{Path: e.Path, Size: e.Size, Git: e.Git}
	if e.Git == nil {
		f.SHA256 = e.SHA256
	}
	return f, true
}

// Hash returns the name of the file. It depends on hash and size, so equal names mean equal
// content.
func (f *PlainFile) Hash() codec.Hash {
	b := []byte("xetfs file outside Xet\x00")
	if f.Git != nil {
		b = append(append(b, "git"...), f.Git[:]...)
	} else {
		b = append(append(b, "lfs"...), f.SHA256[:]...)
	}
	return codec.PlainHash(sha256.Sum256(binary.LittleEndian.AppendUint64(b, uint64(f.Size))), 0)
}

package page

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
)

// A ContentKey identifies the content that an entry describes: file hash, size and SHA-256.
type ContentKey [16]byte

// ContentKey returns the key of the content of a file. Entries with equal keys describe the
// same content. Inline content is not part of the key.
func (e *Entry) ContentKey() ContentKey {
	h := sha256.New()
	h.Write(e.ID.File[:])
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(e.Size)))
	if e.SHA256 != nil {
		h.Write(e.SHA256[:])
	}
	return ContentKey(h.Sum(nil))
}

// Hash returns the Xet hash of a file. Inline content has one chunk at most.
func (e *Entry) Hash() codec.Hash {
	if len(e.Inline) == 0 {
		return e.ID.File
	}
	return merkle.File([]merkle.Leaf{{Hash: merkle.Chunk(e.Inline), Size: uint64(len(e.Inline))}})
}

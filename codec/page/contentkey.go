package page

import (
	"crypto/sha256"
	"encoding/binary"
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

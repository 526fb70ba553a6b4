package xorb

import (
	"encoding/binary"
	"io"

	"github.com/xetfs/xetfs/codec"
)

// Peek returns the hash of the xorb from its footer, with two small reads. It does not check
// the rest of the footer. It returns ErrNoFooter if the end of the xorb leads to none. Callers
// use it to identify objects; ReadInfo checks footers.
func Peek(r io.ReaderAt, size int64) (codec.Hash, error) {
	const head = int64(len(identFooter) + 1 + 32) // ident, version, xorb hash
	var trailer [4]byte
	if size < head+4 {
		return codec.Hash{}, ErrNoFooter
	}
	if err := readAt(r, trailer[:], size-4); err != nil {
		return codec.Hash{}, err
	}
	length := int64(binary.LittleEndian.Uint32(trailer[:]))
	if length < head || length > size-4 {
		return codec.Hash{}, ErrNoFooter
	}
	var b [head]byte
	if err := readAt(r, b[:], size-4-length); err != nil {
		return codec.Hash{}, err
	}
	if string(b[:len(identFooter)]) != identFooter || b[len(identFooter)] > 1 {
		return codec.Hash{}, ErrNoFooter
	}
	return codec.Hash(b[len(identFooter)+1:]), nil
}

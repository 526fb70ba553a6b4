package xorb

import (
	"encoding/binary"
	"io"

	"github.com/xetfs/xetfs/codec"
)

// Peek returns the hash that the footer of a xorb gives it, in two small reads and
// without checking the footer any further; ErrNoFooter if no footer can be found from
// the end. It serves to tell objects apart; ReadInfo checks.
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

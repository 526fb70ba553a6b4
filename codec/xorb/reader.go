package xorb

import (
	"encoding/binary"
	"io"

	"github.com/xetfs/xetfs/codec"
)

// tailSize is how much is read at once from the end of a xorb. It has room for the footer of
// 1,600 chunks; a full xorb of average chunks has 1,000.
const tailSize = 64 << 10

// ReadInfo reads the footer of a xorb of size bytes, with one read of the tail, or two if the
// footer is long. It returns ErrNoFooter if the last bytes do not lead to the ident of a
// footer. An invalid footer is a CorruptError. Errors of r are returned unchanged.
//
// An old footer (version 0) lacks the unpacked sizes of the chunks. ReadInfo then reads the
// chunk headers, too, as WalkInfo does.
func ReadInfo(r io.ReaderAt, size int64) (*Info, error) {
	in, err := readFooter(r, size)
	if err != nil {
		return nil, err
	}
	if in.Footer == FooterV0 {
		if err := in.learnSizes(r); err != nil {
			return nil, err
		}
	}
	if err := in.checkRoot(); err != nil {
		return nil, err
	}
	return in, nil
}

// readFooter is ReadInfo without a walk over the chunks and without a look at the
// hash of the xorb.
func readFooter(r io.ReaderAt, size int64) (*Info, error) {
	tail := make([]byte, min(max(size, 0), tailSize))
	if len(tail) < lengthSize+identSize {
		return nil, ErrNoFooter
	}
	if err := readAt(r, tail, size-int64(len(tail))); err != nil {
		return nil, err
	}
	split := len(tail) - lengthSize
	length := int64(binary.LittleEndian.Uint32(tail[split:]))
	start := size - lengthSize - length
	if start < 0 || length < int64(identSize) {
		return nil, ErrNoFooter
	}
	tail = tail[:split]
	if length <= int64(len(tail)) {
		return identAndDecode(tail[int64(len(tail))-length:], start)
	}
	return readLong(r, tail, start, length)
}

// readLong reads what tail does not hold of a footer of length bytes from start on.
// Only of a footer of possible length is all of it read.
func readLong(r io.ReaderAt, tail []byte, start, length int64) (*Info, error) {
	if length > maxFooterSize {
		var ident [identSize]byte
		if err := readAt(r, ident[:], start); err != nil {
			return nil, err
		}
		if string(ident[:]) != identFooter {
			return nil, ErrNoFooter
		}
		return nil, codec.Corrupt("xorb footer", start, "has %d bytes, %d is the most", length, maxFooterSize)
	}
	b := make([]byte, length)
	missing := length - int64(len(tail))
	if err := readAt(r, b[:missing], start); err != nil {
		return nil, err
	}
	copy(b[missing:], tail)
	return identAndDecode(b, start)
}

func identAndDecode(b []byte, off int64) (*Info, error) {
	if string(b[:identSize]) != identFooter {
		return nil, ErrNoFooter
	}
	return decodeFooter(b, off)
}

// learnSizes fills UnpackedEnd from the chunk headers, which must lie where the footer
// says.
func (in *Info) learnSizes(r io.ReaderAt) error {
	footerAt := startOf(in.PackedEnd, uint32(in.Len()))
	in.UnpackedEnd = make([]uint32, 0, in.Len())
	var end uint32
	for c, err := range Chunks(r, footerAt) {
		if err != nil {
			return err
		}
		if c.Index >= in.Len() || c.End() != int64(in.PackedEnd[c.Index]) {
			return chunkError(c.Index, badHeader(c.Off, "ends at byte %d, not where the footer says", c.End()))
		}
		end += uint32(c.Header.Unpacked)
		in.UnpackedEnd = append(in.UnpackedEnd, end)
	}
	if n := len(in.UnpackedEnd); n < in.Len() { // the ident of a footer is where a header should be
		return chunkError(n, badHeader(startOf(in.PackedEnd, uint32(n)), "is the ident of a footer"))
	}
	return nil
}

// readAt fills p. A reader that ends early is not as long as its size.
func readAt(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == io.EOF || err == nil {
		err = io.ErrUnexpectedEOF
	}
	return err
}

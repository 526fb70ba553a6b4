package xorb

import (
	"encoding/binary"
	"io"
	"iter"

	"github.com/xetfs/xetfs/codec"
)

// A walk reads a page around each header of large chunks. If several headers are on a page, it
// reads much more at once.
const (
	smallWindow = 4 << 10
	largeWindow = 64 << 10
)

// A ChunkAt is a chunk of a xorb and its place.
type ChunkAt struct {
	Index  int
	Off    int64 // of its header in the xorb
	Header ChunkHeader
}

// End returns where the packed chunk ends in the xorb.
func (c ChunkAt) End() int64 { return c.Off + ChunkHeaderSize + int64(c.Header.Packed) }

// Chunks walks over the chunks of a xorb of size bytes by their headers. It stops at the end or
// at the ident of a footer. It ends with the first error: a CorruptError, or one of r. A xorb
// without chunks is corrupt.
//
// It makes one small read per chunk, or per group of small chunks. Readers with expensive reads
// should read ahead.
func Chunks(r io.ReaderAt, size int64) iter.Seq2[ChunkAt, error] {
	return func(yield func(ChunkAt, error) bool) {
		w := walker{r: r, size: size}
		for i := 0; ; i++ {
			c, ok, err := w.next(i)
			if err != nil {
				yield(ChunkAt{Index: i, Off: w.off}, err)
				return
			}
			if !ok || !yield(c, nil) {
				return
			}
			w.off = c.End()
		}
	}
}

// WalkInfo learns from the chunk headers of a xorb of size bytes where its chunks lie.
// It is for xorbs without a footer: one whose footer ReadInfo did not find because the
// end is damaged is refused. Reads are those of Chunks.
func WalkInfo(r io.ReaderAt, size int64) (*Info, error) {
	in := new(Info)
	var packed int64
	var unpacked uint32
	for c, err := range Chunks(r, size) {
		if err != nil {
			return nil, err
		}
		packed, unpacked = c.End(), unpacked+uint32(c.Header.Unpacked)
		in.PackedEnd = append(in.PackedEnd, uint32(packed))
		in.UnpackedEnd = append(in.UnpackedEnd, unpacked)
	}
	if err := checkTrailer(r, packed, size); err != nil {
		return nil, err
	}
	return in, nil
}

// checkTrailer checks that the length at the end of a xorb leads to the footer at start, so
// that no bytes follow the footer. If start is the end, the xorb has no footer.
func checkTrailer(r io.ReaderAt, start, size int64) error {
	if start == size {
		return nil
	}
	var last [lengthSize]byte
	if err := readAt(r, last[:], size-lengthSize); err != nil {
		return err
	}
	length := int64(binary.LittleEndian.Uint32(last[:]))
	switch leads := size - lengthSize - length; {
	case leads < 0:
		return codec.Corrupt("xorb footer", size-lengthSize, "the length of %d bytes exceeds the %d before it", length, size-lengthSize)
	case leads != start:
		return codec.Corrupt("xorb footer", size-lengthSize, "the length leads to byte %d, the footer begins at %d", leads, start)
	}
	return nil
}

// A walker goes from header to header and keeps the bytes around the last one.
type walker struct {
	r      io.ReaderAt
	size   int64
	off    int64 // of the next header
	buf    []byte
	bufOff int64
	packed int // size of the last chunk
}

// next returns the chunk at w.off. ok is false at the end of the chunks.
func (w *walker) next(index int) (c ChunkAt, ok bool, err error) {
	if w.off == w.size && index > 0 {
		return ChunkAt{}, false, nil
	}
	b, err := w.peek()
	if err != nil {
		return ChunkAt{}, false, err
	}
	if isFooter(b) && index > 0 {
		return ChunkAt{}, false, nil
	}
	c, err = chunkAt(b, index, w.off, w.size)
	w.packed = c.Header.Packed
	return c, err == nil, err
}

// chunkAt decodes the header b at byte off of a xorb of size bytes and checks that the
// chunk fits there. An error in the header names the chunk.
func chunkAt(b []byte, index int, off, size int64) (ChunkAt, error) {
	switch {
	case index == 0 && (len(b) == 0 || isFooter(b)):
		return ChunkAt{}, codec.Corrupt("xorb", off, "no chunks")
	case index >= codec.MaxXorbChunks:
		return ChunkAt{}, codec.Corrupt("xorb", off, "more than %d chunks", codec.MaxXorbChunks)
	}
	h, err := decodeChunkHeader(b, off)
	c := ChunkAt{Index: index, Off: off, Header: h}
	if err == nil && c.End() > size {
		err = badHeader(off+1, "packed size %d, %d bytes are left", h.Packed, size-off-ChunkHeaderSize)
	}
	switch {
	case err != nil:
		return ChunkAt{}, chunkError(index, err)
	case c.End() > maxBody:
		return ChunkAt{}, codec.Corrupt("xorb", off, "chunks have more than %d bytes", maxBody)
	}
	return c, nil
}

// isFooter reports whether b, the bytes where a header would be, begins a footer.
func isFooter(b []byte) bool {
	return len(b) >= identSize && string(b[:identSize]) == identFooter
}

// peek returns the bytes of the next header, fewer if the xorb ends in them.
func (w *walker) peek() ([]byte, error) {
	want := min(ChunkHeaderSize, w.size-w.off)
	at := w.off - w.bufOff
	if at < 0 || at+want > int64(len(w.buf)) {
		if err := w.fill(); err != nil {
			return nil, err
		}
		at = 0
	}
	return w.buf[at : at+want], nil
}

func (w *walker) fill() error {
	n := smallWindow
	if w.off > 0 && w.packed < smallWindow/2 {
		n = largeWindow
	}
	n = int(min(int64(n), w.size-w.off))
	if cap(w.buf) < n {
		w.buf = make([]byte, n)
	}
	w.buf, w.bufOff = w.buf[:n], w.off
	return readAt(w.r, w.buf, w.off)
}

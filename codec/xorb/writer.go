package xorb

import (
	"fmt"
	"io"
	"slices"

	"github.com/xetfs/xetfs/codec"
)

// A Writer packs chunks into the body of one xorb: what clients upload, without a
// footer. It writes every chunk at once. A Writer is not safe for concurrent use.
type Writer struct {
	w        io.Writer
	packer   Packer
	buf      []byte // one packed chunk and its header
	info     Info
	packed   int
	unpacked int
	err      error
}

// NewWriter returns a Writer for an empty xorb that starts at the position of w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Add packs one chunk by scheme s, or by None where s saves nothing. h must be the
// hash of the chunk. Add returns ErrFull if the chunk does not fit; then nothing was
// written. After an error of the underlying writer, the end of the xorb is unknown, and
// all further calls return that error.
func (w *Writer) Add(h codec.Hash, chunk []byte, s Scheme) error {
	switch {
	case w.err != nil:
		return w.err
	case len(chunk) == 0 || len(chunk) > codec.MaxChunkSize:
		return fmt.Errorf("chunk of %d bytes: want 1 to %d", len(chunk), codec.MaxChunkSize)
	case s > ByteGrouping4LZ4:
		return fmt.Errorf("scheme %d is not known", uint8(s))
	case w.info.Len() == codec.MaxXorbChunks, w.unpacked+len(chunk) > codec.MaxXorbSize:
		return ErrFull
	}
	w.buf = w.packer.Append(w.buf[:0], chunk, s)
	if w.packed+len(w.buf) > codec.MaxXorbSize {
		return ErrFull
	}
	if _, w.err = w.w.Write(w.buf); w.err != nil {
		return w.err
	}
	w.packed += len(w.buf)
	w.unpacked += len(chunk)
	w.info.Chunks = append(w.info.Chunks, h)
	w.info.PackedEnd = append(w.info.PackedEnd, uint32(w.packed))
	w.info.UnpackedEnd = append(w.info.UnpackedEnd, uint32(w.unpacked))
	return nil
}

// Info returns what is known of the chunks so far, the hash of a xorb of them included.
// Its AppendFooter makes the footer, which the Writer does not write. Later calls of
// Add do not change it.
func (w *Writer) Info() *Info {
	return &Info{
		Xorb:        w.info.Root(),
		Chunks:      slices.Clip(w.info.Chunks),
		PackedEnd:   slices.Clip(w.info.PackedEnd),
		UnpackedEnd: slices.Clip(w.info.UnpackedEnd),
	}
}

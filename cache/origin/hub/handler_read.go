package hub

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// pieceSize is the length of the reads of one answer, and its memory.
const pieceSize = 128 << 10

// pieces are buffers of pieceSize bytes.
var pieces = sync.Pool{New: func() any { return new([pieceSize]byte) }}

// A fileReader reads a file for one answer, in pieces.
type fileReader struct {
	ctx    context.Context // of the request: io.Reader has no argument for it
	file   ContentReader
	size   int64
	header http.Header // of the answer
	off    int64
	sent   int64 // bytes of the answer before off
	err    error // of the first read that failed

	buf   *[pieceSize]byte
	piece []byte // of buf
	at    int64  // offset of piece
}

// Read implements io.Reader.
func (fr *fileReader) Read(p []byte) (int, error) {
	if fr.off >= fr.size {
		return 0, io.EOF
	}
	if err := fr.fill(); err != nil {
		fr.err = err
		return 0, err
	}
	n := copy(p, fr.piece[fr.off-fr.at:])
	fr.off += int64(n)
	fr.sent += int64(n)
	return n, nil
}

// fill reads the piece at off, but nothing behind the requested range.
func (fr *fileReader) fill() error {
	if fr.at <= fr.off && fr.off < fr.at+int64(len(fr.piece)) {
		return nil
	}
	n := min(pieceSize, fr.size-fr.off)
	if length, err := strconv.ParseInt(fr.header.Get("Content-Length"), 10, 64); err == nil && length > fr.sent {
		n = min(n, length-fr.sent) // http.ServeContent sets it before it reads
	}
	if fr.buf == nil {
		fr.buf = pieces.Get().(*[pieceSize]byte) //nolint:forcetypeassert // nothing else is in the pool
	}
	fr.piece, fr.at = fr.buf[:0], fr.off
	got, err := fr.file.ReadAt(fr.ctx, fr.buf[:n], fr.off)
	if int64(got) < n && (err == nil || errors.Is(err, io.EOF)) {
		err = io.ErrUnexpectedEOF
	}
	if int64(got) < n {
		return err
	}
	fr.piece = fr.buf[:n]
	return nil
}

// free returns the memory of the reader.
func (fr *fileReader) free() {
	if fr.buf != nil {
		pieces.Put(fr.buf)
		fr.buf, fr.piece = nil, nil
	}
}

// Seek implements io.Seeker.
func (fr *fileReader) Seek(off int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		off += fr.off
	case io.SeekEnd:
		off += fr.size
	}
	if off < 0 {
		return 0, errors.New("a place before the beginning")
	}
	fr.off = off
	return off, nil
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

package hub

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
)

// pieceSize is the length of the reads of one answer, and its memory.
const pieceSize = 128 << 10

// pieces are buffers of pieceSize bytes.
var pieces = sync.Pool{New: func() any { return new([pieceSize]byte) }}

// A fileReader reads a file for one answer.
type fileReader struct {
	ctx  context.Context // of the request: io.Reader has no argument for it
	file ContentReader
	size int64
	off  int64
	err  error // of the first read that failed
}

// Read implements io.Reader. It fills p, or reads up to the end of the file.
func (fr *fileReader) Read(p []byte) (int, error) {
	n := min(int64(len(p)), fr.size-fr.off)
	if n <= 0 {
		return 0, io.EOF
	}
	got, err := fr.file.ReadAt(fr.ctx, p[:n], fr.off)
	if int64(got) < n {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		fr.err = err
		return 0, err
	}
	fr.off += n
	return int(n), nil
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

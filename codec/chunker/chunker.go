package chunker

import "io"

// MinSize is the least number of bytes of a chunk that is not the last of its stream.
const MinSize = 8 << 10

const (
	window   = 64                     // bytes that the hash depends on
	boundary = uint64(1) << (64 - 16) // a hash below it ends a chunk
)

// maxEmptyReads is how often a reader may return neither bytes nor an error.
const maxEmptyReads = 100

// Fill reads into the free capacity of buf until it is full, or the stream ends or fails. The
// error is that of r, io.EOF included, or io.ErrNoProgress if r returns no bytes repeatedly.
func Fill(r io.Reader, buf []byte) ([]byte, error) {
	for empty := 0; len(buf) < cap(buf); {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err != nil {
			return buf, err
		}
		if empty++; n > 0 {
			empty = 0
		}
		if empty == maxEmptyReads {
			return buf, io.ErrNoProgress
		}
	}
	return buf, nil
}

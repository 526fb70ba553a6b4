// Package chunker cuts a stream into chunks at boundaries that its content defines, so that
// an insertion moves few of them.
//
// In order of use: Fill reads into a buffer, and Cut returns the size of its first chunk.
//
// # Rule
//
// A rolling hash of 64 bits runs over the stream: for each byte b, h = h<<1 + gear[b]. A byte
// leaves the hash after 64 steps. A chunk of at least MinSize bytes ends behind a byte where
// the upper 16 bits of h are zero. It ends at codec.MaxChunkSize bytes in any case, and with
// the stream. Chunks of random data have 64 KiB on average.
//
// The hash starts anew with every chunk. Its window is much shorter than the smallest chunk,
// so a boundary depends on the 64 bytes before it alone. The hash may therefore start 64 bytes
// before the first possible boundary.
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

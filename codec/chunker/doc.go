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

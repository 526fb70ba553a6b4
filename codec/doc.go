// Package codec holds the words that all formats of xetfs share: hashes, terms,
// pieces, the size limits, and the one kind of error that means damage.
//
// # The formats
//
// Bytes are found in three steps, each a format with a package of its own:
//
//	shard   file hash → terms: "chunks [a, b) of this xorb come next"
//	xorb    chunk index → packed chunk
//	merkle  bytes → hash, and the trees of hashes that name xorbs and files
//
// Everything below this folder is pure: bytes in, bytes out. No package here opens
// a file, asks the network, reads the clock or logs.
//
// # Words
//
// A chunk is a piece of a file, cut by its content, of at most MaxChunkSize bytes.
// It is packed (as stored, compressed or not) or unpacked. A xorb is a row of packed
// chunks. A term names consecutive chunks of one xorb. Ranges are [start, end). An
// offset is in the file, in the xorb or in the term; names say which where two meet.
package codec

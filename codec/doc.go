// Package codec has the terms that all formats of xetfs share: hashes, terms, pieces, size
// limits, and the error kind for corrupt data.
//
// In order of use: Hash, ParseHash; FileID, Term, Piece, ChunkRange, ChunkSet; Corrupt,
// CorruptError, ChunkError.
//
// # The formats
//
// A file is read in three steps. Each step is a format with a package of its own:
//
//	shard   file hash → terms: "chunks [a, b) of this xorb come next"
//	xorb    chunk index → packed chunk
//	merkle  bytes → hash, and the trees of hashes that name xorbs and files
//
// All packages below this folder are pure: bytes in, bytes out. None of them opens a file,
// sends a request, reads a clock or logs.
//
// # Words
//
// A chunk is a content-defined piece of a file, of at most MaxChunkSize bytes. It is packed (as
// stored) or unpacked. A xorb is a sequence of packed chunks. A term names consecutive chunks
// of one xorb. Ranges are [start, end). An offset is in the file, in the xorb or in the term.
package codec

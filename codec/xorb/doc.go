// Package xorb reads and writes xorbs: rows of packed chunks, often with a footer that
// says where they are.
//
// # Format
//
//	header 0 │ packed chunk 0 │ header 1 │ packed chunk 1 │ … │ footer │ length of the footer
//
// Everything is little-endian, nothing is aligned. The header of a chunk has 8 bytes
// (ChunkHeader). A packed chunk is the chunk itself (None), an LZ4 frame of it (LZ4), or an
// LZ4 frame of its bytes dealt into four groups (ByteGrouping4LZ4).
//
// The footer is optional: clients upload chunks only, and a store may add it. It
// begins with an ident whose first byte is no version of a chunk header, so a
// walk from header to header ends there. Version 1, with n chunks:
//
//	   offset  size  field
//	        0     8  "XETBLOB", 1
//	        8    32  hash of the xorb
//	       40     8  "XBLBHSH", 0                              the hash section
//	       48     4  n
//	       52  32 n  hash of each chunk
//	52 + 32 n     8  "XBLBBND", 1                              the boundary section
//	60 + 32 n     4  n
//	64 + 32 n   4 n  end of each packed chunk, header included
//	64 + 36 n   4 n  end of each chunk in the unpacked stream
//	64 + 40 n     4  n
//	68 + 40 n     4  from the start of the hash section to the end of the footer: 52 + 40 n
//	72 + 40 n     4  from the start of the boundary section to there: 40 + 8 n
//	76 + 40 n    16  free: zeros, or a nonce; ignored
//	92 + 40 n     4  length of the footer without these four bytes: 92 + 40 n
//
// Version 0, which is read and not written, knows no unpacked sizes:
//
//	   offset  size  field
//	        0     8  "XETBLOB", 0
//	        8    32  hash of the xorb
//	       40     4  n
//	       44   4 n  end of each packed chunk, header included
//	 44 + 4 n  32 n  hash of each chunk
//	44 + 36 n    16  free
//	60 + 36 n     4  length of the footer without these four bytes: 60 + 36 n
//
// # Promises
//
// A reader takes what the format's own implementation takes, less what can only be
// damage: chunks of no bytes, plain chunks of two sizes, LZ4 frames without an end or with
// something behind it, bytes between chunks and footer or behind it. A writer writes
// what that implementation would write. Nothing is allocated because some bytes
// announce it: sizes are compared with what is there first.
package xorb

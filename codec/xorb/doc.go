// Package xorb reads and writes xorbs: sequences of packed chunks, often with a footer that has
// their places.
//
// In order of use: ReadInfo, Info.Narrow; ParseRun, Run.Unpack; Packer, Writer; Check, Describe.
//
// # Format
//
//	header 0 │ packed chunk 0 │ header 1 │ packed chunk 1 │ … │ footer │ length of the footer
//
// Everything is little-endian, nothing is aligned. The header of a chunk has 8 bytes
// (ChunkHeader). A packed chunk is the plain chunk (None), its LZ4 frame (LZ4), or the LZ4 frame
// of its bytes in four groups (ByteGrouping4LZ4).
//
// The footer is optional: clients upload chunks only, and a store may add it. The first byte of
// its ident is no version of a chunk header, so a walk over the headers ends there. Version 1,
// with n chunks:
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
// Version 0 is read and not written. It has no unpacked sizes:
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
// A reader accepts the input of the format's own implementation, except for certain corruption.
// It refuses empty chunks, plain chunks of two sizes, incomplete LZ4 frames, and unexpected bytes
// behind frames or around the footer. A writer writes what that implementation would write.
// Sizes are compared with the available bytes before an allocation.
package xorb

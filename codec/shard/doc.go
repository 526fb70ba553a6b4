// Package shard reads and writes shards: the objects with the terms of files and the chunks of
// xorbs.
//
// In order of use: NewReader, Reader.FileInfo; ReadFileInfo without a Reader; Writer, Blocks; Describe.
//
// # Format
//
// A shard is a sequence of 48-byte records between a header and an optional footer. All
// numbers are little-endian, hashes are 32 raw bytes:
//
//	     0  header                48 bytes
//	    48  File Info section     a block per file, then a bookend
//	        CAS Info section      a block per xorb, then a bookend
//	        file lookup table     12 bytes per file   ┐
//	        CAS lookup table      12 bytes per xorb   │ optional
//	        chunk lookup table    16 bytes per chunk  ┘
//	        footer                200 bytes, optional
//
//	File Info block    header, a record per term,
//	                   a record per term with its verification hash (optional),
//	                   a record with the SHA-256 (optional)
//	CAS Info block     header, a record per chunk
//	bookend            32 bytes ff, 16 bytes 00
//
// A stored shard has tables and a footer. The answer of a server and an upload of the JavaScript
// client have a footer only, other uploads have neither. A header without the footer flag is no
// proof: an export with a chunk hash key copies the header of its input. Readers therefore also
// look for a footer at the end.
//
// # Checks
//
// A count is compared with the available bytes before an allocation. A term has at least one
// chunk and a possible number of bytes. The chunks of a xorb have no gaps. Sections end at the
// offsets of the footer. Other data is refused, although the format's own implementation accepts
// some of it. Unknown flags, unused fields and the totals of the footer are ignored.
//
// Lookup tables are hints: a reader compares all 32 bytes of a hash with the block. CheckTables
// compares them with the sections. The chunk hashes of a keyed shard (Meta.Keyed) serve for
// deduplication and prove no data.
package shard

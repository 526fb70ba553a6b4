// Package shard reads and writes shards: the objects that say which chunks of which
// xorbs make up a file, and which chunks a xorb holds.
//
// # Format
//
// A shard is a row of 48-byte records between a header and an optional footer. All
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
// Shards come with tables and footer (as stored), with a footer only (as a server
// answers, and as the JavaScript client uploads) and with neither (as uploaded). A
// header that says "no footer" is no proof: an export with a chunk hash key copies
// the header of its input. So the end of the shard is looked at too.
//
// # What is checked
//
// A count is compared with the bytes that are there before anything is allocated by
// it. A term has at least one chunk and as many bytes as its chunks can have; the
// chunks of a xorb follow each other without gaps; sections end where the footer says.
// All of that is refused although the format's own implementation accepts some of it:
// it can only be damage. Unknown flags, unused fields and the totals of the footer
// are ignored, as others write there.
//
// Lookup tables are hints. What they point to is compared with all 32 bytes of the
// hash, and Files, Xorbs and Heads do without them. CheckTables compares them with
// the sections.
//
// A shard can name chunks by keyed hashes (Meta.Keyed). Those are for finding out
// what a server has, and must never be used to check data: they are not the hashes
// of the chunks.
package shard

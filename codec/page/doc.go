// Package page encodes and decodes the index pages of a catalog: the entries of a tree, sorted
// by path. A mount without a catalog makes entries itself and has no pages.
//
// In order of use: Decode, DecodeAs, Page.Find, Page.CheckChild; Page.Identity, Page.ProveChild;
// Builder, Level; Getter, Diff; Describe.
//
// # Format
//
// A tree is its entries, sorted by key, divided into leaves of about 128 KiB. Pages of links are
// above them, up to one page, the root. The name of a page is the BLAKE3 hash of its bytes, and
// a link has the name of the page below. The name of the root therefore proves the whole tree.
// A page also has an identity, which does not depend on the places of files (below).
//
//	offset  size  field
//	     0     8  "XETFSPG" and the version, 2
//	     8     1  level: 0 for a leaf, one more for each level above, at most 5
//	     9     1  codec, always 0
//	    10     2  restart interval
//	    12     4  rows
//	    16     8  entries below, in a leaf its rows
//	    24     8  sum of the sizes of the files below
//	    32     8  base time, signed seconds: of the first entry; 0 above leaves
//	    40     4  S, hashes in the shard table; 0 above leaves
//	    44     4  R, restart points
//	    48     4  B, bytes of the body
//	    52    12  zero
//	    64   32S  shard table, in the order of first use
//	     …     B  body: the rows
//	     …    4R  restart points: offsets in the body
//
// All numbers are little-endian. A page ends after the restart points, within 2 MiB. A row
// omits the bytes that its key shares with the key before. Every 16th row (the restart interval)
// omits none and is a restart point of a search:
//
//	uvarint  bytes shared with the key before
//	uvarint  n, bytes of the key behind those
//	n bytes  end of the key
//	uvarint  n, bytes of the value
//	n bytes  value
//
// Entry and Link have the formats of values. Varints are those of package encoding/binary, in
// their shortest form.
//
// The key of a/b/c is "a NUL b NUL NUL c": each directory with a NUL behind it, one NUL more,
// the name. The entries of a directory are therefore consecutive, and so is each subtree.
//
// A page of at least the minimum size ends at a key whose XXH64 matches, or at the maximum size
// (Sizes). Sizes are those of the identity form. The boundaries depend on keys alone, so similar
// trees share most of their pages.
//
// # Identity
//
// The identity form of a page has the same fields, except that it
//
//   - begins with "XETFSID" and 1;
//   - has no shard table, and 0 in S;
//   - has leaf rows without the place of the file (s, and the offset in the shard);
//   - has links without the hash and the length of the page;
//   - has B and the restart points of the shorter rows.
//
// Its BLAKE3 hash is the identity of the page. A link has the identity of the page below, so that
// the identity of the root depends on the entries and the Sizes alone.
package page

// Package page reads and writes the pages of a catalog's index: what is in a tree, by
// path. An Entry is one file, directory or symbolic link; a mount without a catalog
// makes entries itself and has no pages.
//
// # Format
//
// A tree is its entries, sorted by key, cut into leaves of about 128 KiB, and above
// them pages of links until one page is left, the root. A page is named by the BLAKE3
// hash of its bytes, and a link says the name of the page below, so the root's name
// proves the whole tree.
//
//	offset  size  field
//	     0     8  "XETFSPG" and the version, 1
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
// All numbers are little-endian, and a page ends after the restart points, within
// 1 MiB. A row is a key and a value. It leaves out what its key shares with the key
// before it; every 16th row (the restart interval) leaves out nothing, and is a
// restart point, so that a search can begin there:
//
//	uvarint  bytes shared with the key before
//	uvarint  n, bytes of the key behind those
//	n bytes  end of the key
//	uvarint  n, bytes of the value
//	n bytes  value
//
// What a value holds is drawn at Entry and at Link. Varints are those of package
// encoding/binary, and as short as they can be.
//
// # Keys
//
// The key of a/b/c is "a NUL b NUL NUL c": every directory with a NUL behind it, one
// NUL more, the name. So the entries of one directory lie side by side, a whole subtree
// does too, and finding one name is one search. The key of the root is empty.
//
// # Where pages end
//
// A page that has reached the least size ends at a key whose XXH64 says so, and at the
// greatest size anyhow (Sizes). Only keys are asked, so two trees that differ a little
// have most of their pages in common, and the same entries make the same pages, however
// the tree came about.
package page

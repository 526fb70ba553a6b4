// Package dedup has an index of the chunks and files of a store, so that a packing session
// stores nothing twice.
//
// In order of use: Open reads the shards of the store, Index.Lookup finds a chunk and
// Index.File a file, Index.Learn adds a new shard.
//
// # Sorted runs
//
// A store has a mirror of its shards (package mirror). The entries of mirrored shards are in
// sorted runs that later sessions load, so a session opens new shards alone. A run is used only
// if a new listing has all its shards and the same of its xorbs. Lookups compare whole hashes with
// the shards, so a wrong run cannot lead to a wrong chunk.
//
// A folder of a local store has a state, which changes with its names. A session saves the states of
// the folders and the names of the runs that have all their shards. The next session lists only the
// folders that have changed. It looks for a xorb in another folder when a lookup finds a chunk of it.
// All folders are listed if the runs do not fit the listing.
//
// Numbers are little-endian.
//
//	offset  size  field
//	     0     8  "XETFSRN" and the version, 0x01
//	     8     4  S, number of shards
//	    12     4  X, number of xorbs
//	    16   40S  shards, oldest first: hash 32, size 8
//	         56X  xorbs: hash 32, offset of the first chunk record 8, number of the shard 4,
//	              chunks 4, packed size 4, 1 if the xorb exists 4
//	         16E  entries by word: last word of the hash 8, xorb 4, chunk 4; or of a file:
//	              2^31 + shard 4, block offset / 48 4
//	           4  CRC-32C of all bytes before
package dedup

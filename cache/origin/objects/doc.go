// Package objects reads files from the shards and xorbs of a Store.
//
// New returns a Source over a Store. The Source returns only proven File Info blocks: the
// shard was compared with a name from a proven page, or the chunk hashes of all terms lead to
// the hash of the file. Results of a remote store are cached in memory and in a metacache.
package objects

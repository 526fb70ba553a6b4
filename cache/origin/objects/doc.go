// Package objects reads files from the shards and xorbs of a Store.
//
// New returns a Source over a Store. The Source returns only File Info blocks that are proven,
// by the shard or by the chunks. Either a proven page names the shard and all its bytes have
// the name, or the chunk hashes make the hash of the file. Results of a remote store are cached
// in memory and in a metacache.
package objects

// Package dedup has an index of the chunks and files of a store, so that a packing session
// stores nothing twice.
//
// In order of use: Open reads the shards of the store, Index.Lookup finds a chunk and
// Index.File a file, Index.Learn adds a new shard.
package dedup

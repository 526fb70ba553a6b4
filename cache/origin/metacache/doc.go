// Package metacache stores proven metadata of a remote store on a local disk: xorb infos, File
// Infos, indexes of large files and the block hashes of shards.
//
// New returns a Cache over a Backend. Info, File, Index, Terms and Shard return stored values;
// the Put methods store new ones, and the Drop methods remove values that turn out wrong. A
// Cache over a nil Backend is empty.
package metacache

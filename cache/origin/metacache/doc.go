// Package metacache stores proven metadata of a remote store on a local disk. The values are
// xorb infos, File Infos, indexes of large files and the block hashes of shards.
//
// New returns a Cache over a Backend. Info, File, Index, Terms and Shard return stored values.
// The Put methods store values, and the Drop methods remove wrong ones. NewChunkTable returns a
// ChunkTable of proven chunk hashes, for sources whose files prove them.
package metacache

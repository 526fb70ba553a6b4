// Package merkle computes hashes of content: of chunks, terms, xorbs and files.
//
// In order of use: Chunk, NewChunkHash; Leaf, Xorb, File, FileTree; Term; Keyed.
//
// Every hash is BLAKE3 in keyed mode with 32 bytes of result, over unpacked bytes:
//
//	chunk  data key, bytes of the chunk
//	term   verification key, raw chunk hashes one after another
//	node   internal-node key, one line of text per child (see tree.go)
//	xorb   the root of the tree over its chunks
//	file   zero key, the root of the tree over its chunks once more
//
// All functions are safe for concurrent use.
package merkle

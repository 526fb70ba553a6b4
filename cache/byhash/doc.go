// Package byhash finds chunks of xorbs by their hashes.
//
// New returns a Table. Add records the hashes of chunks, and Find returns the place of a chunk.
package byhash

// Package pack turns files into chunks, xorbs and shards.
//
// In order of use: Sink, ChunkIndex and Ledger are given to NewWriter; AddFile, Flush, Close.
// Each new chunk goes into a xorb, in file order. A stored chunk becomes a term. The Sink
// gets each shard after all xorbs that it names.
//
// # Layout
//
// The rules are those of the reference, so equal files in equal order make equal xorbs:
//
//   - New chunks of a file are collected until they fill a xorb. The rest at the end of a file
//     joins the rest of the files before it. If both do not fit into one xorb, the larger one
//     becomes a xorb and the smaller one waits for the next file.
//   - A run of consecutive chunks of one xorb is one term.
//   - A file must not become fragmented. If the average length of its last 128 terms falls
//     below 4 chunks, shorter runs are stored again, until the average is 8.
//   - The first of every 32 new chunks of a file chooses the scheme for all of them.
//
// There are four differences. A file also finds chunks in xorbs that are not full yet. A run
// continues in the xorb of the last term if possible. A xorb is cut before its packed form
// exceeds codec.MaxXorbSize. A file with an equal description is not described again.
//
// # Pipeline
//
//	AddFile ──▶ workers ──▶ deduper ──▶ workers ──▶ assembler ──▶ Sink
//	read, cut   hash, sum   new or not  pack        to xorbs   store
//	               └─▶ SHA-256 of files that are in several batches
//
// Files are read into batches of about 1 MiB. The deduper and the assembler are one goroutine
// each and work in the order of AddFile. The workers, one per core, take parts of batches. The
// result does not depend on the number of cores.
//
// # Memory
//
// Memory is bounded by 40 MiB of batches, four xorbs of 64 MiB, the open shard, and the files
// that wait for it. Without a Ledger a session also remembers the last 2 million new chunks,
// with about 64 bytes each; older chunks may be stored again. The open file needs 40 bytes per
// chunk and 56 per term.
package pack

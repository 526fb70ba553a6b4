// Package pack turns files into xorbs and shards.
//
// A file is cut into chunks. Chunks that are stored already, in this session or before
// it, become terms that point there; the others go into xorbs, in the order in which
// they come. Files in shards point to both. Everything is handed to a Sink, in an order
// that leaves nothing dangling: a shard after all xorbs it names.
//
// # Layout
//
// The rules are those of the reference, so that the same files in the same order make
// the same xorbs:
//
//   - New chunks of a file are collected until they fill a xorb, of MaxXorbSize
//     unpacked bytes or MaxXorbChunks chunks. What is left at the end of the file joins
//     what is left of the files before it. If both do not fit into one xorb, the larger
//     of the two becomes a xorb, and the other waits for the next file.
//   - A run of chunks that lie one after another in one xorb is one term.
//   - A file must not be put together from crumbs. Of its last 128 terms the average
//     length is kept. When it falls below 4 chunks, chunks that are stored already, in
//     runs shorter than the average, are stored again, until the average is 8.
//   - The scheme of every 32 new chunks of a file is chosen by the first of them.
//
// Unlike the reference, a file also finds the chunks of the files before it whose xorb
// is not full yet, so equal files are stored once; and a xorb is cut before its packed
// form could exceed MaxXorbSize too.
//
// # Pipeline
//
// Chunks travel in batches of about 1 MiB. AddFile reads and cuts; workers hash and
// pack, on all cores; one goroutine decides, in order, what is new; another puts the
// packed chunks in their places, in order. Memory is bounded by the batches on their way
// and by the xorbs that are open or being stored: about 300 MiB.
package pack

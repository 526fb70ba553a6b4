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
// the same xorbs, byte by byte:
//
//   - New chunks of a file are collected until they fill a xorb, of codec.MaxXorbSize
//     unpacked bytes or codec.MaxXorbChunks chunks. What is left at the end of the file
//     joins what is left of the files before it. If both do not fit into one xorb, the
//     larger of the two becomes a xorb, and the other waits for the next file.
//   - A run of chunks that lie one after another in one xorb is one term.
//   - A file must not be put together from crumbs. Of its last 128 terms the average
//     length is kept. When it falls below 4 chunks, chunks that are stored already, in
//     runs shorter than the average, are stored again, until the average is 8.
//   - The scheme of every 32 new chunks of a file is chosen by the first of them.
//
// It differs where the reference leaves something to be desired. A file also finds the
// chunks of the files before it whose xorb is not full yet, so equal files are stored
// once. A run that goes on in the xorb of the term before is taken before one elsewhere.
// A xorb is cut before its packed form could exceed codec.MaxXorbSize, too, headers
// included. A file that is described already, with all that the session would say of it,
// is not described again; equal files of one session have one File Info block.
//
// # Pipeline
//
//	AddFile ──▶ workers ──▶ decider ──▶ workers ──▶ placer ──▶ Sink
//	read, cut   hash, sum   new or not  pack        to xorbs   store
//	               └─▶ SHA-256 of files that are in several batches
//
// Files are read into batches of about 1 MiB, in which their chunks stay until they are
// packed. One goroutine decides, in the order of AddFile, another puts packed chunks in
// their places, in the same order; the workers, one for each core, take parts of batches
// as they come. So the result does not depend on the number of cores.
//
// # Memory
//
// It is bounded by the batches on their way, 40 MiB, by the xorbs that are open or being
// stored, four of 64 MiB, by the shard that is being made and by the files that wait for
// it. What a shard says is handed over to the Ledger once that is stored. Without one a
// session keeps some 64 bytes for each new chunk, of the last 2 million, 128 GiB or so: an
// older one is stored again should it come again. Beside that there are 40 bytes for each
// chunk of the open file, and 56 for each of its terms.
package pack

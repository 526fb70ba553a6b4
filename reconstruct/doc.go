// Package reconstruct reads byte ranges of files from the chunks of a cache. It has no names of
// files, only hashes.
//
// In order of use: New, Reader.Open; File.ReadAt, File.Verified, File.VerifyReader; File.Handle
// for reads with readahead, FileReadahead for files before their open. Reader.Materialize and
// Reader.OpenBacking are for whole files on disk, Reader.Check verifies a File Info block.
//
// A file is a sequence of terms, each a range of chunks of a xorb. A byte range is divided into
// pieces, one per term (layout). Cache.Narrow finds the chunks of a piece, and Cache.Read
// unpacks them directly into the caller's buffer. A read fetches no other chunks; readahead
// runs beside it (Handle).
//
// Files of a source without proofs are proven by their readers (prove.go): small files before their
// first byte, others with their last one. File.Prove proves a file at once.
//
// With a disk cache, files can be materialized: stored as plain files after all of their bytes
// were verified. The materializer does this in the background (Policy), Reader.Materialize at
// once. Later reads of such a file send no request to the origin.
package reconstruct

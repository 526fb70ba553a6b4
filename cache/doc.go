// Package cache is one cache between the engine and an origin.Source. Concurrent readers share
// fetches and unpacking.
//
// In order of use: New; Read and Run; NewReadahead, Prefetch; Plan, PrefetchAll; Download,
// ShouldRetry. OpenFile and PutFile are for whole files, Pages is for index pages.
//
// Packed chunks stay packed as long as possible. A chunk inside the range of a reader is
// unpacked directly into its buffer. The chunks at the two ends of a read go through memory,
// because the next read starts in them. All readers share one unpacking. Memory also gets the
// other chunks of a remote origin, and the ends of short reads.
//
// Chunks from a remote origin also go to the disk cache, packed, once their readers are done.
// Each chunk is compared with its hash before. Corrupt chunks on disk are dropped and fetched
// again. No reader gets an error for them.
//
// Chunks of a source without proofs are hashed when they are unpacked (proofs.go). Leaves returns
// these hashes, and Prove stores them once a file has proven them. DropUnproven drops chunks of a
// wrong file, and Refetch reads them again.
//
// A cache may be slow or empty. It is never wrong, and it is never the reason for an error.
package cache

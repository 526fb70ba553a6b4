package origin

import (
	"context"
	"hash"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A Source answers the questions of the read path: the terms of a file, the chunks of a term,
// the bytes of chunks. It is safe for concurrent use. Results are shared and read-only. One
// suite, origintest.TestSource, tests every sentence below.
type Source interface {
	// Proves reports whether File Infos are proven and runs carry the hash of every chunk. It
	// never changes. False: File Infos are plans, which prove nothing. Chunks are only proven once
	// the hash of a whole file matches, see Prove.
	Proves() bool

	// FileInfo returns the File Info block of a file. Its terms are proven, by the shard or by
	// the chunks. Either a proven page names the shard and all its bytes have the name, or the
	// chunk hashes make the hash of the file. The File Info of a source without proofs is a plan.
	// ErrNotFound: no shard describes the file.
	FileInfo(ctx context.Context, id codec.FileID) (*shard.FileInfo, error)

	// OpenFile returns the result of FileInfo. For a file of more than MaxTerms terms, it may
	// return a LargeFile instead, which reads the terms in groups. One of both is nil.
	OpenFile(ctx context.Context, id codec.FileID) (*shard.FileInfo, *LargeFile, error)

	// FileInfos calls yield with the result of FileInfo for each of ids, once, from several
	// goroutines. It returns after the last call. A remote source combines requests.
	FileInfos(ctx context.Context, ids []codec.FileID, yield func(i int, fi *shard.FileInfo, err error))

	// Narrow returns the chunks of term t that hold piece p of file id, and the bytes to
	// skip in them. It may return more chunks than needed, and it may send a request. A term
	// that does not fit its xorb is codec.ErrCorrupt.
	Narrow(ctx context.Context, id codec.FileID, t codec.Term, p codec.Piece) (r codec.ChunkRange, skip int64, err error)

	// Chunks returns chunks r of xorb x, packed as stored, with the hashes that are proven. It
	// costs one request, after the first one for x. A source without proofs may need a second
	// one, for the URL of the chunks. It has ErrNotFound for chunks of files without a FileInfo.
	Chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange, o ReadOptions) (*xorb.Run, error)

	// PackedSize returns the packed bytes of chunks r of xorb x if they are known in memory, as they
	// are after Narrow returned r. It sends no request and never waits. 0: unknown.
	PackedSize(x codec.Hash, r codec.ChunkRange) int64

	// TryChunks does the same without waiting, not even for a disk. It calls buffer at most
	// once for memory, and keeps no reference to the memory without a run. False means
	// unknown: Chunks may return the chunks, or the reason why not.
	TryChunks(x codec.Hash, r codec.ChunkRange, buffer func(n int) []byte) (*xorb.Run, bool)

	// Annotate returns a run that was read elsewhere as Chunks would return it. The given run
	// is not changed. A run that cannot belong to x is codec.ErrCorrupt.
	Annotate(ctx context.Context, x codec.Hash, run *xorb.Run) (*xorb.Run, error)

	// Hashed reports whether the hash of every chunk in r is known, so that a reader compares
	// each byte of them.
	Hashed(ctx context.Context, x codec.Hash, r codec.ChunkRange) (bool, error)

	// Prove stores hashes and sizes of chunks that the hash of a whole file has proven. Later
	// runs of Chunks and Annotate carry these hashes, also in later processes if the source has
	// a disk. A leaf with a zero hash drops what is stored. A source may lose hashes, which makes
	// their chunks unproven. A source that proves ignores the call.
	Prove(chunks []ChunkHashes)

	// Proven returns the hashes and sizes of chunks r of xorb x that are proven. It sends no request,
	// so they must be in memory or on a local disk. The store may have lost the xorb. Leaves with a
	// zero hash are unknown. nil: all are unknown.
	Proven(x codec.Hash, r codec.ChunkRange) []merkle.Leaf

	// ContentHash returns a new hash over the content of file id, and the sum that proves the
	// file. It is for files whose names are not made of chunk hashes. Blobs of git have a SHA-1
	// with the header "blob N\0" written already, files of LFS a SHA-256. nil: the chunk hashes
	// make id.File. An error is ErrUnavailable: the look-up failed, so nothing is known of the file.
	ContentHash(id codec.FileID) (h hash.Hash, want []byte, err error)

	// Hold retains the plan of an open file in memory until release is called, once.
	Hold(id codec.FileID) (release func())

	// Reject marks the current replica of xorb x as corrupt. The next Chunks reads another
	// one, if there is any. Reject returns the number of others.
	Reject(x codec.Hash) int

	// Forget drops the stored result of FileInfo because it does not lead to the file. Its
	// xorbs are missing, or the bytes have another hash. The next FileInfo reads the shards
	// that the store has then.
	Forget(id codec.FileID)

	// Local reports whether a request costs no more than reading a local file, so that
	// nothing need be fetched ahead or stored.
	Local() bool
}

// ChunkHashes are the hashes and sizes of consecutive chunks of a xorb, from Start on.
type ChunkHashes struct {
	Xorb   codec.Hash
	Start  uint32
	Leaves []merkle.Leaf
}

// Chunks returns the range of the chunks.
func (c ChunkHashes) Chunks() codec.ChunkRange {
	return codec.ChunkRange{Start: c.Start, End: c.Start + uint32(len(c.Leaves))}
}

// ReadOptions tune one call of Source.Chunks. After an error the source may still write to
// memory from Buffer, so the caller must not reuse the memory.
type ReadOptions struct {
	// Buffer returns memory for the packed chunks. The source calls it at most once, and again if the
	// transfer begins again after a call of OnPartial. The run is in the last memory, and the caller
	// then owns it, which saves a large allocation. nil: the run is shared.
	Buffer func(n int) []byte

	// OnPartial is called with the first chunks while others arrive, each time with more of
	// them, and never with all. It must not block. A source need not call it. nil: no calls.
	OnPartial func(run *xorb.Run)
}

// A KeyRejecter is a Store with several replicas of an object. RejectKey marks the current
// one of object k as corrupt and returns the number of others.
type KeyRejecter interface {
	RejectKey(k names.Key) int
}

// A TryReader is a Store that reads without waiting for a disk. TryReadAt is ReadAt of bytes
// in memory. If it returns false, the content of p is undefined.
type TryReader interface {
	TryReadAt(k names.Key, p []byte, off int64) bool
}

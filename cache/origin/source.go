package origin

import (
	"context"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A Source answers what reading a file asks: which terms, which of their chunks,
// which bytes. It is the seam of the read path: decorators are Sources over
// Sources; a Cache stands above the last one.
//
// A Source is safe for concurrent use. What it returns is shared and must not be
// modified.
type Source interface {
	// FileInfo returns the File Info block of a file. The terms are proven: a page names
	// the shard and all bytes of the shard were compared with the name, or the chunk
	// hashes of all terms lead to the file's hash.
	FileInfo(ctx context.Context, id codec.FileID) (*shard.FileInfo, error)

	// Narrow returns the chunks of term t that hold piece p of file id, and how
	// many bytes to skip in them. It may return more chunks than needed.
	Narrow(ctx context.Context, id codec.FileID, t codec.Term, p codec.Piece) (r codec.ChunkRange, skip int64, err error)

	// Chunks returns the chunks r of a xorb, packed as they are stored, with their
	// hashes if it knows them. It costs one request to wherever the bytes are.
	Chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange) (*xorb.Run, error)

	// Near says that asking costs no more than reading a local file, so that
	// nothing need be fetched ahead or kept.
	Near() bool
}

// A Rejecter is a Source that may have several copies of an object. Reject tells it
// that the copy of xorb x which it gave out is damaged; the next call of Chunks gives
// another one, if there is any. It returns how many others there are.
type Rejecter interface {
	Reject(x codec.Hash) int
}

// A KeyRejecter is a Store with the same offer.
type KeyRejecter interface {
	RejectKey(k names.Key) int
}

// Hashing is a Source that can tell whether it knows the hashes of a xorb's chunks,
// so that every byte of it is checked as it is read.
type Hashing interface {
	Hashed(ctx context.Context, x codec.Hash) (bool, error)
}

// Describing is a far Source that can tell of many files in fewer requests than FileInfo
// takes for each.
type Describing interface {
	// FileInfos calls tell with what FileInfo returns for each of ids, once, by several
	// goroutines at a time. It returns when all are told.
	FileInfos(ctx context.Context, ids []codec.FileID, tell func(i int, fi *shard.FileInfo, err error))
}

// Borrowing is a Source that reads packed chunks as the caller wants them.
type Borrowing interface {
	ChunksIn(ctx context.Context, x codec.Hash, r codec.ChunkRange, into Into) (*xorb.Run, error)
}

// Into says how packed chunks are wanted. The zero value is how Chunks gives them.
type Into struct {
	// Buffer returns memory for the packed chunks. The caller of ChunksIn owns the run
	// then: that saves one large allocation for each read. nil: the run is shared.
	Buffer func(size int) []byte

	// Came is told of the chunks that are there while others are still on their way:
	// each time with a run of more of them, from the first on, and never of all. It is
	// called by one goroutine and does not wait. A source need not tell. nil: nobody
	// wants to know.
	Came func(run *xorb.Run)
}

// Prompt is a near Source that can tell what it can give without waiting, not even for a
// disk. buffer lends memory for the packed chunks and is called at most once; if there is
// no run, nobody uses it any more. False says nothing: the chunks may be there all the
// same, or be damaged, and Chunks tells. A decorator that does not pass this on costs
// nothing but time.
type Prompt interface {
	ChunksNow(x codec.Hash, r codec.ChunkRange, buffer func(size int) []byte) (*xorb.Run, bool)
}

// A PromptStore is a Store with the same offer: ReadNow is ReadAt of what is in memory. If
// it is false p may hold anything.
type PromptStore interface {
	ReadNow(k names.Key, p []byte, off int64) bool
}

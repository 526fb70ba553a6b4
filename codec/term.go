package codec

import "fmt"

// Limits of the format. Larger data is corrupt.
const (
	MaxChunkSize  = 128 << 10 // unpacked bytes in one chunk
	MaxXorbSize   = 64 << 20  // unpacked bytes in one xorb, and what a writer serializes
	MaxXorbChunks = 8192      // chunks in one xorb
)

// A ChunkRange is the chunks Start ≤ i < End of one xorb.
type ChunkRange struct{ Start, End uint32 }

// Len returns the number of chunks in r.
func (r ChunkRange) Len() int { return int(r.End) - int(r.Start) }

// Contains reports whether all chunks of sub are in r.
func (r ChunkRange) Contains(sub ChunkRange) bool {
	return r.Start <= sub.Start && sub.End <= r.End
}

// String returns "[start, end)".
func (r ChunkRange) String() string { return fmt.Sprintf("[%d, %d)", r.Start, r.End) }

// A Term says that these chunks of this xorb come next in the file.
type Term struct {
	Xorb   Hash
	Chunks ChunkRange
	Size   uint32 // unpacked bytes the chunks decode to
}

// A Piece is the part of one term that a read needs.
type Piece struct {
	Term int   // index into the file's terms
	Off  int64 // of the piece in the file
	Skip int64 // unpacked bytes of the term before the piece
	Size int64
}

// A FileID names a file and the place of its description.
type FileID struct {
	File  Hash
	Shard Hash  // zero: the source must find the file by its hash alone
	Block int64 // offset of the File Info block in the shard, if Shard is set
	Hint  bool  // Shard and Block are an address that nothing proves, so that the chunks must prove the description
}

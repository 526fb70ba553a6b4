package pack

import (
	"hash"
	"io"
	"sync"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/chunker"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A batch is some chunks on their way, of one file or of many small ones.
type batch struct {
	buf       []byte // the chunks, and behind them what was read of the next
	end       int    // of the chunks in buf
	out       []byte // room for them, packed
	chunks    []chunk
	pieces    []piece
	ops       []op          // for the assembler
	newChunks []*chunk      // the new chunks
	flush     chan struct{} // closed when all before is stored; nil for most

	hashed sync.WaitGroup
	summed sync.WaitGroup
	packed sync.WaitGroup
}

// A chunk is one chunk of a batch.
type chunk struct {
	data   []byte
	hash   codec.Hash
	choice *choice // of a scheme to pack it by, if it is new
	packed []byte  // header and packed bytes, if it is new
}

// A piece is the chunks of one file in a batch.
type piece struct {
	f           *file
	start, end  int  // of batch.chunks
	first, last bool // the file begins, or ends, here
}

func (p piece) whole() bool { return p.first && p.last }

// A file is one file in the pipeline. Each stage fills in its own part, one after another.
type file struct {
	// Set by AddFile:
	begun bool
	lane  int   // of Writer.toSum
	bad   error // it could not be read to its end

	// Set by the workers that compute SHA-256:
	sum    hash.Hash
	sha256 [32]byte

	// Set by the deduper:
	id       codec.FileID // the shard is known already if it was stored before
	same     *file        // that is described in this shard already, and is the same
	terms    []term
	verify   []codec.Hash
	size     int64
	chunks   int
	newBytes int64
}

const (
	batchBytes  = 1 << 20
	batchPieces = 2048
)

func newBatch() *batch {
	return &batch{buf: make([]byte, 0, batchBytes+codec.MaxChunkSize)}
}

func (b *batch) reset() {
	clear(b.pieces) // a file is not kept longer than need be
	b.buf, b.end, b.chunks, b.pieces, b.ops = b.buf[:0], 0, b.chunks[:0], b.pieces[:0], b.ops[:0]
	b.flush = nil
}

func (b *batch) full() bool {
	return b.end >= batchBytes || len(b.pieces) >= batchPieces
}

// rest is what was read, and is in no chunk yet.
func (b *batch) rest() []byte { return b.buf[b.end:] }

// fill reads as much as there is room for, so that the rest is a whole chunk or more. If
// the batch is not full, there is room for that.
func (b *batch) fill(r io.Reader) (err error) {
	b.buf, err = chunker.Fill(r, b.buf)
	return err
}

// add makes the first bytes of the rest a chunk of f.
func (b *batch) add(f *file, size int) {
	data := b.buf[b.end : b.end+size : b.end+size]
	b.end += size
	b.piece(f).end++
	b.chunks = append(b.chunks, chunk{data: data})
}

// finish says that f has no more chunks. If it could not be read, there may be a rest.
func (b *batch) finish(f *file) {
	b.buf = b.buf[:b.end]
	b.piece(f).last = true
}

// piece returns the piece of f that is open.
func (b *batch) piece(f *file) *piece {
	if n := len(b.pieces); n > 0 && b.pieces[n-1].f == f {
		return &b.pieces[n-1]
	}
	b.pieces = append(b.pieces, piece{f: f, start: len(b.chunks), end: len(b.chunks), first: !f.begun})
	f.begun = true
	return &b.pieces[len(b.pieces)-1]
}

// A choice is the scheme for up to retest consecutive new chunks of a file. The worker that
// packs one of them first makes the choice.
type choice struct {
	once   sync.Once
	first  []byte // the first of the chunks decides
	scheme xorb.Scheme
}

func (c *choice) make() xorb.Scheme {
	c.once.Do(func() { c.scheme, c.first = xorb.Predict(c.first), nil })
	return c.scheme
}

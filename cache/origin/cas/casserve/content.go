package casserve

import (
	"context"
	"iter"

	"github.com/xetfs/xetfs/codec"
)

// A Content is the data that a Handler serves. It is safe for concurrent use. Every file and
// xorb belongs to one or several scopes. A scope is what a token is for, for example a symbol;
// the empty scope has everything. Errors: origin.ErrNotFound, io/fs.ErrPermission for another
// scope, origin.ErrUnavailable.
type Content interface {
	// Open returns the file with a hash.
	Open(ctx context.Context, scope string, file codec.Hash) (File, error)

	// XorbSize returns the length of a stored xorb in bytes, its footer included.
	XorbSize(ctx context.Context, scope string, x codec.Hash) (int64, error)

	// Packed yields the bytes [from, to) of the serialized xorb in t, in order. All of them
	// are in t.Span. The bytes are proven and valid until the next step. ErrChanged: the xorb
	// has other bytes than when the span was made.
	Packed(ctx context.Context, t Transfer, from, to int64) iter.Seq2[[]byte, error]
}

// A File is one file of a Content.
type File interface {
	Size() int64

	// Terms returns the terms with the bytes [from, to) of the file, at least one byte, in
	// order. skip is the number of bytes before from in the first term. The first and the last
	// term are cut to the chunks with these bytes, if the sizes of the chunks are known.
	Terms(ctx context.Context, from, to int64) (skip int64, terms iter.Seq2[codec.Term, error], err error)

	// Spans returns the spans of xorb x that hold all chunks of ranges. Ranges and spans
	// ascend, and none touches the next one.
	Spans(ctx context.Context, x codec.Hash, ranges []codec.ChunkRange) ([]Span, error)
}

// A Span is chunks of a xorb and their bytes, Start ≤ i < End.
type Span struct {
	Chunks     codec.ChunkRange
	Start, End int64
}

// contains reports whether the bytes [from, to) are in s.
func (s Span) contains(from, to int64) bool { return s.Start <= from && from < to && to <= s.End }

// A Transfer names the bytes that a presigned URL permits a client to read.
type Transfer struct {
	Scope string     // of the token that the URL was made for
	File  codec.Hash // for which the URL was made
	Xorb  codec.Hash
	Span  Span
}

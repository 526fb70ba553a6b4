package xorb

import (
	"errors"
	"sort"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
)

var (
	// ErrNoFooter means that a xorb does not end with a footer. Many do not; what
	// the footer would say can be learnt by WalkInfo.
	ErrNoFooter = errors.New("xorb has no footer")

	// ErrFull means that a chunk does not fit in the xorb: close this one, start
	// another.
	ErrFull = errors.New("xorb is full")
)

// maxBody is the most bytes that headers and packed chunks of one xorb may have. The
// reference cuts xorbs by their unpacked size, so the headers come on top.
const maxBody = codec.MaxXorbSize + ChunkHeaderSize*codec.MaxXorbChunks

// A FooterKind says which footer a xorb has.
type FooterKind uint8

const (
	NoFooter FooterKind = iota // chunks only
	FooterV0                   // without unpacked sizes; read, never written
	FooterV1
)

// String returns "none", "v0" or "v1".
func (k FooterKind) String() string {
	switch k {
	case NoFooter:
		return "none"
	case FooterV0:
		return "v0"
	case FooterV1:
		return "v1"
	}
	return "unknown"
}

// Info has the offsets of the chunks of a xorb, so that any chunk can be read alone. Its source is
// the footer, or a walk over the chunk headers. After a walk Chunks is nil and Xorb
// is zero.
//
// The methods take ranges of chunks of the xorb, 0 ≤ Start < End ≤ Len, and panic for others. A
// caller compares an untrusted range with Len first.
type Info struct {
	Xorb        codec.Hash
	Chunks      []codec.Hash // hash of each chunk
	PackedEnd   []uint32     // end of each packed chunk, header included
	UnpackedEnd []uint32     // end of each chunk in the unpacked stream
	Footer      FooterKind   // what the xorb ends with; NoFooter after a walk
}

// Len returns the number of chunks.
func (in *Info) Len() int { return len(in.PackedEnd) }

// Root returns the hash of the xorb as its chunks give it. It needs Chunks.
func (in *Info) Root() codec.Hash {
	leaves := make([]merkle.Leaf, len(in.Chunks))
	var start uint32
	for i, h := range in.Chunks {
		leaves[i] = merkle.Leaf{Hash: h, Size: uint64(in.UnpackedEnd[i] - start)}
		start = in.UnpackedEnd[i]
	}
	return merkle.Xorb(leaves)
}

// PackedRange returns which bytes of the xorb hold the chunks of r, headers included.
func (in *Info) PackedRange(r codec.ChunkRange) (start, end int64) {
	return startOf(in.PackedEnd, r.Start), int64(in.PackedEnd[r.End-1])
}

// UnpackedRange returns which bytes of the unpacked stream the chunks of r are.
func (in *Info) UnpackedRange(r codec.ChunkRange) (start, end int64) {
	return startOf(in.UnpackedEnd, r.Start), int64(in.UnpackedEnd[r.End-1])
}

// Narrow returns the chunks of r that hold size bytes after the first skip, and the bytes to
// skip in them. If r has fewer bytes, the range ends with r.
func (in *Info) Narrow(r codec.ChunkRange, skip, size int64) (codec.ChunkRange, int64) {
	ends := in.UnpackedEnd[r.Start:r.End]
	from := startOf(in.UnpackedEnd, r.Start) + skip
	first := sort.Search(len(ends), func(i int) bool { return int64(ends[i]) > from })
	last := sort.Search(len(ends), func(i int) bool { return int64(ends[i]) >= from+size })
	narrow := codec.ChunkRange{
		Start: r.Start + uint32(first),
		End:   r.Start + uint32(min(last+1, len(ends))),
	}
	return narrow, from - startOf(in.UnpackedEnd, narrow.Start)
}

// HashesAt returns the offset of the first chunk hash in a xorb with a footer. The other hashes
// follow it, 32 bytes each.
func (in *Info) HashesAt() int64 {
	end := int64(in.PackedEnd[in.Len()-1])
	if in.Footer == FooterV0 {
		return end + 44 + 4*int64(in.Len())
	}
	return end + 52
}

// startOf returns where chunk i begins, given where all chunks end.
func startOf(ends []uint32, i uint32) int64 {
	if i == 0 {
		return 0
	}
	return int64(ends[i-1])
}

package cas

import "github.com/xetfs/xetfs/codec"

// A Plan is the answer to a reconstruction request. It has the terms of a file, or of a range of
// the file, and the addresses of their chunks.
type Plan struct {
	Skip  int64 // bytes to drop from the first term; offset_into_first_range
	Terms []codec.Term
	Fetch map[codec.Hash][]Fetch // by xorb
}

// A Fetch is an address and the ranges that it serves. Version 1 has one range per address.
type Fetch struct {
	URL    string // signed, secret
	Ranges []FetchRange
}

// A FetchRange is chunks of a xorb and their bytes, Start ≤ i < End. The wire has the last byte
// instead of End.
type FetchRange struct {
	Chunks     codec.ChunkRange
	Start, End int64
}

// Size returns the bytes of the file that the terms have, from the offset of the request on. The
// last term may exceed the requested range.
func (p *Plan) Size() int64 {
	size := -p.Skip
	for i := range p.Terms {
		size += int64(p.Terms[i].Size)
	}
	return max(0, size)
}

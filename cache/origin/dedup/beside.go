package dedup

import (
	"encoding/binary"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
)

// Beside returns the chunk list of xorb x, which Lookup has named. It adds those of up to most-1
// other xorbs of the same shard. The lists make the hashes of their xorbs. A list that cannot be
// read is left out.
func (k *Index) Beside(x codec.Hash, most int) []*shard.XorbInfo {
	var all []*shard.XorbInfo
	add := func(at uint32, ok bool) {
		if !ok {
			return
		}
		if in := k.xorbInfo(&k.xorbs[at]); in != nil {
			all = append(all, in)
		}
	}
	if p, ok := k.findInRuns(x); ok {
		r := p.run
		first, end := beside(p.number, r.xorbCount(), most, func(i uint32) uint32 { return r.xorb(i).shard })
		for i := first; i < end; i++ {
			add(k.runXorb(r, i))
		}
		return all
	}
	if at, ok := k.xorbAt(x); ok {
		first, end := beside(at, uint32(len(k.xorbs)), most, func(i uint32) uint32 { return k.xorbs[i].shard })
		for i := first; i < end; i++ {
			add(i, true)
		}
	}
	return all
}

// beside returns a range of up to most of n xorbs that are in one shard with xorb i. The xorbs of
// one shard follow each other. Those behind i are more likely to be next.
func beside(i, n uint32, most int, shardOf func(uint32) uint32) (first, end uint32) {
	first, end = i, i+1
	for ; end < n && int(end-first) < most && shardOf(end) == shardOf(i); end++ {
	}
	for ; first > 0 && int(end-first) < most && shardOf(first-1) == shardOf(i); first-- {
	}
	return first, end
}

// xorbInfo returns the chunk list of a xorb, or nil.
func (k *Index) xorbInfo(x *xorbRef) *shard.XorbInfo {
	if !k.check(x) || x.shard == ownFooter {
		return nil
	}
	in := &shard.XorbInfo{Xorb: x.hash, Chunks: make([]shard.Chunk, 0, x.chunks)}
	for index := uint32(0); index < x.chunks; index += hashesAtOnce {
		b := k.window.buf[:min(hashesAtOnce, x.chunks-index)*x.stride]
		if !k.readRecords(x, index, b) {
			return nil
		}
		for ; len(b) > 0; b = b[x.stride:] {
			size := binary.LittleEndian.Uint32(b[chunkSizeAt:])
			in.Chunks = append(in.Chunks, shard.Chunk{Hash: codec.Hash(b), Start: in.Unpacked, Size: size})
			in.Unpacked += size
		}
	}
	return in
}

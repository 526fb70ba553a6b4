package stack

import (
	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/codec"
)

// A Budget is a number of bytes of memory in parts. No part is zero, which would mean a
// default.
type Budget struct {
	unpacked int64 // chunks in memory
	ahead    int64 // packed chunks fetched ahead
	Infos    int64 // offsets of the chunks in xorbs
	Terms    int64 // of files
}

// streamAhead is the readahead of one stream over a fast link: its window and what is not read yet. With
// less, some requests of the window wait.
const streamAhead = 48 << 20

// DivideMemory divides a number of bytes. Most of it is for chunks that may be read again.
func DivideMemory(bytes int64) Budget {
	b := Budget{ahead: max(1, bytes/4, min(streamAhead, bytes*3/8)), Infos: max(1, bytes/8), Terms: max(1, bytes/16)}
	b.unpacked = max(1, bytes-b.ahead-b.Infos-b.Terms)
	return b
}

// maxRead returns the largest read that the kernel should send, in bytes. Large reads are fewer. Each
// one of a remote SOURCE holds its buffer longer, so a small memory gets small ones. The Hub gets
// small ones, too: text over 100 MB/s had 310 MB/s with 512 KiB, and 263 with 1 MiB.
func maxRead(local, proves bool, b Budget) int {
	switch {
	case local || proves && b.ahead >= streamAhead:
		return 1 << 20
	case b.ahead < streamAhead/4:
		return 256 << 10
	}
	return 512 << 10
}

// leastWhole is enough to read one file from 25 ms away without pauses. It is part of overhead if the
// memory is small.
const leastWhole = 12 << 20

// whole returns the bytes for packed chunks of files that are read whole.
func (b Budget) whole() int64 { return max(leastWhole, b.ahead/4) }

// loadBytes returns the bytes of the ranges of xorbs that a mirror fetches at once. One has up to 64 MiB,
// for which the overhead of a small memory has room.
func (b Budget) loadBytes() int64 { return min(3, max(1, b.ahead/(24<<20))) * codec.MaxXorbSize }

// cacheOptions returns the Options of the cache for a budget.
func (b Budget) cacheOptions(noVerify bool) cache.Options {
	return cache.Options{MemoryBytes: b.unpacked, AheadBytes: b.ahead, NoVerify: noVerify}
}

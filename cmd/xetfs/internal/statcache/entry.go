package statcache

import (
	"encoding/binary"

	"github.com/xetfs/xetfs/codec"
)

// An Entry is one file as it was read.
type Entry struct {
	Key    []byte // page.Key of the path in the tree
	Stat   StatInfo
	Inline []byte // the content; nil: see ID
	ID     codec.FileID
	SHA256 *[32]byte // nil: unknown
}

// A StatInfo identifies one state of a file. Equal values mean the same content, unless the
// file was racy.
type StatInfo struct {
	Size         int64
	MTime, CTime int64 // nanoseconds since 1970
	Inode, Dev   uint64
}

// Racy reports whether a file could have changed after a read without another StatInfo. The
// time of the read is in nanoseconds since 1970. Times of files are coarse, seconds on some
// file systems, and may be those of another clock. An Update has no racy files.
func (s StatInfo) Racy(read int64) bool {
	const coarse = 2_000_000_000
	return max(s.MTime, s.CTime) >= read-coarse
}

// Fields that follow the device.
const (
	hasInline = 1 << iota
	hasSHA256
)

// blockUnit divides the offsets of File Info blocks.
const blockUnit = 48

const (
	format    = 2        // format 1 could have files with dirty pages
	partSize  = 64 << 10 // bytes; the last entry of a record may exceed it
	maxEntry  = 16 << 10 // bytes of one entry
	maxRecord = partSize + maxEntry
)

// appendEntry appends an entry behind the one with key before. Shards maps the hash of a shard
// to its number.
func appendEntry(b []byte, e *Entry, before []byte, shards map[codec.Hash]uint64) []byte {
	shared := 0
	for shared < min(len(before), len(e.Key)) && before[shared] == e.Key[shared] {
		shared++
	}
	b = binary.AppendUvarint(b, uint64(shared))
	b = binary.AppendUvarint(b, uint64(len(e.Key)-shared))
	b = append(b, e.Key[shared:]...)
	b = binary.AppendUvarint(b, uint64(e.Stat.Size))
	b = binary.AppendVarint(b, e.Stat.MTime)
	b = binary.AppendVarint(b, e.Stat.CTime-e.Stat.MTime)
	b = binary.AppendUvarint(b, e.Stat.Inode)
	b = binary.AppendUvarint(b, e.Stat.Dev)
	var flags uint64
	if e.Inline != nil {
		flags |= hasInline
	}
	if e.SHA256 != nil {
		flags |= hasSHA256
	}
	b = binary.AppendUvarint(b, flags)
	if e.Inline != nil {
		b = append(b, e.Inline...)
	} else {
		b = appendID(b, e.ID, shards)
	}
	if e.SHA256 != nil {
		b = append(b, e.SHA256[:]...)
	}
	return b
}

func appendID(b []byte, id codec.FileID, shards map[codec.Hash]uint64) []byte {
	b = append(b, id.File[:]...)
	n, known := shards[id.Shard]
	if !known {
		n = uint64(len(shards))
		shards[id.Shard] = n
	}
	b = binary.AppendUvarint(b, n)
	if !known {
		b = append(b, id.Shard[:]...)
	}
	return binary.AppendUvarint(b, uint64(id.Block/blockUnit))
}

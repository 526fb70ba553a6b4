package main

import (
	"encoding/binary"

	"github.com/xetfs/xetfs/codec"
)

// A record says what a publish has read in a folder, so that the next one reads only what
// has changed. It is a journal (codec/journal) that is written anew by each publish and
// put in the place of the old one when the new version exists. Damaged or gone it means
// that files are read again, and nothing else.
//
// Its first part is a line of JSON (recordHead). Every other part is some files in the
// order of their keys in the tree, about 64 KiB of them. With s for the key of the file
// before, which is empty at the start of a part, a file is
//
//	 uvarint  bytes that its key shares with s
//	 uvarint  length of the rest, then the rest
//	 uvarint  size, at least 1
//	 svarint  modification time, nanoseconds since 1970
//	 svarint  change time, less the modification time
//	 uvarint  inode
//	 uvarint  device
//	 uvarint  what follows: 1 content, 2 SHA-256
//	          content, of a file of 256 bytes or fewer      1
//	32 bytes  Xet hash of the file                          not 1
//	 uvarint  i, number of the shard in this record         not 1
//	32 bytes  hash of the shard                             not 1, i for the first time
//	 uvarint  offset of the File Info block in it / 48      not 1
//	32 bytes  SHA-256                                       2
//
// Shards are numbered from 0 as they come.
//
// A file that was changed shortly before it was read is not in the record: another change
// might leave it with the same times.

// A stamp tells whether a file is still the one that was read.
type stamp struct {
	size         int64
	mtime, ctime int64 // nanoseconds since 1970
	inode, dev   uint64
}

// stampOf returns the stamp of a file.
func stampOf(st *fileStat) stamp {
	return stamp{size: st.size, mtime: st.mtime.UnixNano(), ctime: st.ctime.UnixNano(), inode: st.inode, dev: st.dev}
}

// settled says whether a file that was read at some time, in nanoseconds since 1970,
// cannot have been changed since without its stamp saying so. The times of files are
// coarse, seconds on some file systems, and taken from another clock on others.
func (s stamp) settled(read int64) bool {
	const coarse = 2_000_000_000
	return max(s.mtime, s.ctime) < read-coarse
}

// A recorded is one file of a record.
type recorded struct {
	key    []byte // of its path in the tree
	stamp  stamp
	inline []byte // the content, or nil and
	id     codec.FileID
	sha256 *[32]byte // nil: not known
}

// What follows in a file of a record.
const (
	recordInline = 1 << iota
	recordSHA256
)

// recordBlock is what offsets of File Info blocks are multiples of.
const recordBlock = 48

const (
	recordFormat = 2        // 1 could have files whose dirty pages were not written out
	recordPart   = 64 << 10 // bytes; a part may be longer by one file
	maxRecordRow = 16 << 10 // bytes that one file has at most
)

// A recordHead says whose record it is. The names are those of its fields.
type recordHead struct {
	Format  int    `json:"format"`
	Catalog string `json:"catalog"` // id
	Symbol  string `json:"symbol"`
	Folder  string `json:"folder"` // absolute
}

// appendRecorded adds a file behind the one with key before. Shards are numbered in
// shards.
func appendRecorded(b []byte, r *recorded, before []byte, shards map[codec.Hash]uint64) []byte {
	shared := 0
	for shared < min(len(before), len(r.key)) && before[shared] == r.key[shared] {
		shared++
	}
	b = binary.AppendUvarint(b, uint64(shared))
	b = binary.AppendUvarint(b, uint64(len(r.key)-shared))
	b = append(b, r.key[shared:]...)
	b = binary.AppendUvarint(b, uint64(r.stamp.size))
	b = binary.AppendVarint(b, r.stamp.mtime)
	b = binary.AppendVarint(b, r.stamp.ctime-r.stamp.mtime)
	b = binary.AppendUvarint(b, r.stamp.inode)
	b = binary.AppendUvarint(b, r.stamp.dev)
	var flags uint64
	if r.inline != nil {
		flags |= recordInline
	}
	if r.sha256 != nil {
		flags |= recordSHA256
	}
	b = binary.AppendUvarint(b, flags)
	if r.inline != nil {
		b = append(b, r.inline...)
	} else {
		b = appendRecordedID(b, r.id, shards)
	}
	if r.sha256 != nil {
		b = append(b, r.sha256[:]...)
	}
	return b
}

func appendRecordedID(b []byte, id codec.FileID, shards map[codec.Hash]uint64) []byte {
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
	return binary.AppendUvarint(b, uint64(id.Block/recordBlock))
}

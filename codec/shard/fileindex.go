package shard

import (
	"fmt"
	"io"
	"math"

	"github.com/xetfs/xetfs/codec"
)

// TermGroup is how many terms of a large File Info block are read at a time: 48 KiB.
const TermGroup = 1024

// A FileIndex finds the terms of a File Info block without holding them. All terms have
// records of one size, so a group of terms is at a known offset. Memory is 8 bytes for each
// group.
type FileIndex struct {
	File   codec.Hash
	Block  int64    // offset of the block in the shard
	Terms  int      // number of terms
	SHA256 [32]byte // zero if it is not known
	Ends   []int64  // offset in the file behind each group of TermGroup terms; the last may have fewer

	verify bool // the block has verification hashes
}

// TermCount returns the number of terms of the block at a known place (codec.FileID). It
// reads one record.
func TermCount(r io.ReaderAt, block int64) (int, error) {
	_, h, err := blockAt(r, block, recordSize)
	return int(h.terms), err
}

// IndexFile reads the File Info block at a known place sequentially. The terms come from r. The
// verification hashes are behind all terms; they come from hashesFrom, which reads the same
// shard. For each group IndexFile calls visit with the terms and their verification hashes, or
// nil if the block has none. Both are valid until visit returns. An error of visit ends the
// reading. visit may be nil.
func IndexFile(r, hashesFrom io.ReaderAt, block int64, visit func(terms []codec.Term, verify []codec.Hash) error) (*FileIndex, error) {
	s, h, err := blockAt(r, block, lookupBuffer)
	if err != nil {
		return nil, err
	}
	x := &FileIndex{File: h.file, Block: block, Terms: int(h.terms), verify: h.verify()}
	var group FileInfo
	var hashes *records
	if x.verify && visit != nil {
		hashes = recordsAt(hashesFrom, x.verifyAt(0), math.MaxInt64, scanBuffer)
		hashes.size = false
	}
	end := int64(0)
	for i := 0; i < x.Groups(); i++ {
		part := fileHeader{terms: uint32(x.groupLen(i))}
		group = FileInfo{Terms: group.Terms[:0], Verify: group.Verify[:0]}
		size, err := readTerms(s, part, &group)
		if err != nil {
			return nil, groupErr(i, err)
		}
		end += size
		x.Ends = append(x.Ends, end)
		if visit == nil {
			continue
		}
		var verify []codec.Hash
		if hashes != nil {
			if err := readVerify(hashes, part, &group); err != nil {
				return nil, err
			}
			verify = group.Verify
		}
		if err := visit(group.Terms, verify); err != nil {
			return nil, err
		}
	}
	if h.flags&flagMetadata == 0 {
		return x, nil
	}
	last := recordsAt(hashesFrom, block+int64(h.records())*recordSize, math.MaxInt64, recordSize)
	last.size = false
	b, err := last.need(inFile, recordSize)
	if err != nil {
		return nil, err
	}
	x.SHA256 = swapped(b)
	return x, nil
}

// Groups returns the number of groups.
func (x *FileIndex) Groups() int { return (x.Terms + TermGroup - 1) / TermGroup }

// Size returns the size of the file in bytes.
func (x *FileIndex) Size() int64 {
	if len(x.Ends) == 0 {
		return 0
	}
	return x.Ends[len(x.Ends)-1]
}

// Group reads the terms of group i. Their sizes must be those that IndexFile has seen.
func (x *FileIndex) Group(r io.ReaderAt, i int) ([]codec.Term, error) {
	s := recordsAt(r, x.Block+recordSize*int64(1+i*TermGroup), math.MaxInt64, recordSize*x.groupLen(i))
	s.size = false
	var group FileInfo
	group.Terms = make([]codec.Term, 0, x.groupLen(i))
	size, err := readTerms(s, fileHeader{terms: uint32(x.groupLen(i))}, &group)
	if err != nil {
		return nil, groupErr(i, err)
	}
	want := x.Ends[i]
	if i > 0 {
		want -= x.Ends[i-1]
	}
	if size != want {
		return nil, codec.Corrupt(inFile, x.Block, "%d terms from term %d on have %d bytes, they had %d", len(group.Terms), i*TermGroup, size, want)
	}
	return group.Terms, nil
}

func (x *FileIndex) groupLen(i int) int { return min(TermGroup, x.Terms-i*TermGroup) }

// groupErr is the error of a group, which counts its terms from its first.
func groupErr(i int, err error) error {
	return fmt.Errorf("terms from term %d on: %w", i*TermGroup, err)
}

// verifyAt returns the offset of the verification hash of a term.
func (x *FileIndex) verifyAt(term int) int64 {
	return x.Block + recordSize*int64(1+x.Terms+term)
}

// blockAt returns the header of the File Info block at a known place and a reader behind it.
func blockAt(r io.ReaderAt, block int64, buffer int) (*records, fileHeader, error) {
	if block < recordSize || block%recordSize != 0 {
		return nil, fileHeader{}, codec.Corrupt(inFile, block, "no block can begin here")
	}
	s := recordsAt(r, block, math.MaxInt64, buffer)
	s.size = false // memory grows with what arrives, whatever the block says
	h, err := s.need(inFile, recordSize)
	if err != nil {
		return nil, fileHeader{}, err
	}
	if isBookend(h) {
		return nil, fileHeader{}, codec.Corrupt(inFile, block, "is the bookend of the section")
	}
	return s, decodeFileHeader(h), nil
}

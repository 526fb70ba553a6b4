package shard

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/xetfs/xetfs/codec"
)

const (
	flagVerify   = 1 << 31 // in a fileHeader
	flagMetadata = 1 << 30

	inFile = "file info block"
)

// FileInfo is a File Info block: how to put one file back together.
type FileInfo struct {
	File codec.Hash

	// Terms follow each other in the file. The empty file, whose hash is zero, has none.
	Terms []codec.Term

	// Verify is the verification hash of each term, or nil if the block has none.
	// Empty and not nil, it is the mark of an empty file in a shard whose files have
	// verification hashes.
	Verify []codec.Hash

	// SHA256 is the usual SHA-256 of the file's bytes, zero if it is not known. (A
	// shard keeps it with groups of eight bytes reversed.)
	SHA256 [32]byte

	// Metadata says that the block has a record for the SHA-256, even if that is
	// zero, as the empty file has it.
	Metadata bool

	// Block is where the block begins in the shard (codec.FileID), 0 if it was not
	// read from one.
	Block int64
}

// Size returns the size of the file in bytes.
func (f *FileInfo) Size() int64 {
	var size int64
	for i := range f.Terms {
		size += int64(f.Terms[i].Size)
	}
	return size
}

// A FileHead is what a directory needs to know of a file.
type FileHead struct {
	File   codec.Hash
	Block  int64 // offset of the block in the shard (codec.FileID)
	Size   int64 // bytes of the file
	Terms  int
	SHA256 [32]byte // zero if the shard does not know it
}

// ReadFileInfo reads the File Info block at a known place (codec.FileID), without
// the rest of the shard. An error that is not an ErrCorrupt comes from r.
func ReadFileInfo(r io.ReaderAt, block int64) (*FileInfo, error) {
	s, h, err := blockAt(r, block, lookupBuffer)
	if err != nil {
		return nil, err
	}
	return newFileInfo(s, h)
}

// A fileHeader precedes the terms of a file.
//
//	offset  size  field
//	     0    32  file hash
//	    32     4  flags: bit 31 verification hashes follow, bit 30 SHA-256 follows
//	    36     4  number of terms
//	    40     8  unused
type fileHeader struct {
	file  codec.Hash
	flags uint32
	terms uint32
}

func (h fileHeader) append(b []byte) []byte {
	b = append(b, h.file[:]...)
	b = le.AppendUint32(b, h.flags)
	b = le.AppendUint32(b, h.terms)
	return append(b, make([]byte, 8)...)
}

func decodeFileHeader(b []byte) fileHeader {
	return fileHeader{file: codec.Hash(b), flags: le.Uint32(b[32:]), terms: le.Uint32(b[36:])}
}

func (h fileHeader) verify() bool { return h.flags&flagVerify != 0 }

// records is the number of records behind the header. It cannot overflow.
func (h fileHeader) records() uint64 {
	n := uint64(h.terms)
	if h.verify() {
		n *= 2
	}
	if h.flags&flagMetadata != 0 {
		n++
	}
	return n
}

func fileRecords(b []byte) uint64 { return decodeFileHeader(b).records() }

// appendTerm adds the record of one term to b.
//
//	offset  size  field
//	     0    32  xorb hash
//	    32     4  flags, unused
//	    36     4  unpacked bytes of the term
//	    40     4  first chunk
//	    44     4  end of the chunks
func appendTerm(b []byte, t codec.Term) []byte {
	b = append(b, t.Xorb[:]...)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint32(b, t.Size)
	b = le.AppendUint32(b, t.Chunks.Start)
	return le.AppendUint32(b, t.Chunks.End)
}

func decodeTerm(b []byte) codec.Term {
	return codec.Term{
		Xorb:   codec.Hash(b),
		Size:   le.Uint32(b[36:]),
		Chunks: codec.ChunkRange{Start: le.Uint32(b[40:]), End: le.Uint32(b[44:])},
	}
}

// badTerm says why t cannot be a term, or nothing. The bounds keep every sum of
// terms far from 2^63: at most 2^32 terms of at most 2^30 bytes.
func badTerm(t codec.Term) string {
	c, size := t.Chunks, uint64(t.Size)
	chunks := uint64(c.End) - uint64(c.Start)
	switch {
	case c.Start >= c.End:
		return fmt.Sprintf("%v are no chunks", c)
	case c.End > codec.MaxXorbChunks:
		return fmt.Sprintf("chunks %v are more than a xorb has", c)
	case size < chunks || size > chunks*codec.MaxChunkSize:
		return fmt.Sprintf("chunks %v cannot have %d bytes", c, size)
	}
	return ""
}

// newFileInfo reads the block whose header s has just handed out.
func newFileInfo(s *records, h fileHeader) (*FileInfo, error) {
	block := s.off - recordSize
	if err := s.room(inFile, block, h.records()); err != nil {
		return nil, err
	}
	f := new(FileInfo)
	if _, err := readFile(s, h, f); err != nil {
		return nil, err
	}
	return f, nil
}

// readFile reads what follows a header; room must have found it to fit. It fills
// f, unless f is nil.
func readFile(s *records, h fileHeader, f *FileInfo) (FileHead, error) {
	head := FileHead{File: h.file, Block: s.off - recordSize, Terms: int(h.terms)}
	if f != nil {
		*f = FileInfo{File: h.file, Block: head.Block, Metadata: h.flags&flagMetadata != 0}
	}
	size, err := readTerms(s, h, f)
	if err != nil {
		return FileHead{}, err
	}
	head.Size = size
	if h.verify() {
		if err := readVerify(s, h, f); err != nil {
			return FileHead{}, err
		}
	}
	if h.flags&flagMetadata == 0 {
		return head, nil
	}
	b, err := s.batch(inFile, 1)
	if err != nil {
		return FileHead{}, err
	}
	head.SHA256 = swapped(b)
	if f != nil {
		f.SHA256 = head.SHA256
	}
	return head, nil
}

// swapped returns the SHA-256 of a record (codec.Hash.Swapped, by words).
func swapped(b []byte) (h [32]byte) {
	for i := 0; i < len(h); i += 8 {
		binary.BigEndian.PutUint64(h[i:], le.Uint64(b[i:]))
	}
	return h
}

// readTerms returns the sum of the terms' sizes.
func readTerms(s *records, h fileHeader, f *FileInfo) (int64, error) {
	block := s.off - recordSize
	if f != nil && h.terms > 0 && f.Terms == nil {
		f.Terms = make([]codec.Term, 0, s.claim(h.terms))
	}
	var size int64
	for i := uint32(0); i < h.terms; {
		b, err := s.batch(inFile, h.terms-i)
		if err != nil {
			return 0, err
		}
		for ; len(b) > 0; b = b[recordSize:] {
			t := decodeTerm(b)
			if reason := badTerm(t); reason != "" {
				return 0, codec.Corrupt(inFile, block, "term %d: %s", i, reason)
			}
			size += int64(t.Size)
			i++
			if f != nil {
				f.Terms = append(f.Terms, t)
			}
		}
	}
	return size, nil
}

func readVerify(s *records, h fileHeader, f *FileInfo) error {
	if f == nil {
		s.skipTo(s.off + int64(h.terms)*recordSize)
		return nil
	}
	if f.Verify == nil {
		f.Verify = make([]codec.Hash, 0, s.claim(h.terms))
	}
	for left := h.terms; left > 0; {
		b, err := s.batch(inFile, left)
		if err != nil {
			return err
		}
		for ; len(b) > 0; b = b[recordSize:] {
			f.Verify = append(f.Verify, codec.Hash(b))
			left--
		}
	}
	return nil
}

package metacache

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// All values have the same head and the same end. Numbers are little-endian.
//
//	offset  size  field
//	     0     8  "XETKEPT", version 1
//	     8    32  key of the value
//	    40     …  the info of a xorb, a File Info block, or the hashes of a shard
//	     …    32  BLAKE3 of all before
const (
	valueIdent = "XETKEPT\x01"
	headSize   = len(valueIdent) + len(page.Hash{})
	minSize    = headSize + len(page.Hash{})
)

func appendHead(b []byte, key [32]byte) []byte {
	return append(append(b, valueIdent...), key[:]...)
}

func seal(b []byte) []byte {
	sum := page.Sum(b)
	return append(b, sum[:]...)
}

// unseal returns the bytes between the head and the sum.
func unseal(key [32]byte, b []byte) ([]byte, error) {
	end := len(b) - len(page.Hash{})
	switch {
	case len(b) < minSize:
		return nil, badValue(len(b), "ends after %d bytes, %d is the least", len(b), minSize)
	case string(b[:len(valueIdent)]) != valueIdent:
		return nil, badValue(0, "ident %q, want %q", b[:len(valueIdent)], valueIdent)
	case [32]byte(b[len(valueIdent):]) != key:
		return nil, badValue(len(valueIdent), "it is something else")
	case page.Sum(b[:end]) != page.Hash(b[end:]):
		return nil, badValue(end, "the checksum does not match")
	}
	return b[headSize:end], nil
}

func badValue(off int, format string, args ...any) error {
	return codec.Corrupt("cached value", int64(off), format, args...)
}

// encodeInfo encodes the info of a xorb, which must have chunk hashes.
//
//	offset  size  field
//	     0     1  kind of footer that the xorb has
//	     1     4  bytes of all packed chunks
//	     5     …  footer of version 1, its length included (package xorb)
func encodeInfo(key [32]byte, in *xorb.Info) []byte {
	_, end := in.PackedRange(codec.ChunkRange{End: uint32(in.Len())})
	b := appendHead(make([]byte, 0, minSize+5+xorb.FooterSize(in.Len())), key)
	b = append(b, byte(in.Footer))
	b = binary.LittleEndian.AppendUint32(b, uint32(end))
	return seal(in.AppendFooter(b))
}

// decodeInfo decodes the info of xorb x. Its chunks make the hash of the xorb.
func decodeInfo(key [32]byte, x codec.Hash, b []byte) (*xorb.Info, error) {
	b, err := unseal(key, b)
	if err != nil {
		return nil, err
	}
	return decodeInfoBody(x, b)
}

func decodeInfoBody(x codec.Hash, b []byte) (*xorb.Info, error) {
	if len(b) < 5 {
		return nil, badValue(headSize+len(b), "ends before a footer")
	}
	kind, end, footer := xorb.FooterKind(b[0]), int64(binary.LittleEndian.Uint32(b[1:])), b[5:]
	if kind > xorb.FooterV1 {
		return nil, badValue(headSize, "footer of kind %d is not known", kind)
	}
	in, err := xorb.ReadInfo(tailReader{footer, end}, end+int64(len(footer)))
	switch {
	case errors.Is(err, xorb.ErrNoFooter):
		return nil, badValue(headSize+5, "no footer")
	case err != nil:
		return nil, err
	case in.Footer != xorb.FooterV1:
		return nil, badValue(headSize+5, "footer %s, want %s", in.Footer, xorb.FooterV1)
	case in.Xorb != x:
		return nil, badValue(headSize+5, "it is the footer of xorb %s", in.Xorb)
	}
	in.Footer = kind
	return in, nil
}

// A tailReader reads an object that consists of zeros up to off, and of the bytes of its end
// from off on.
type tailReader struct {
	b   []byte
	off int64
}

// ReadAt implements io.ReaderAt.
func (r tailReader) ReadAt(p []byte, off int64) (int, error) {
	skip := max(0, min(r.off-off, int64(len(p))))
	clear(p[:skip])
	n, err := bytes.NewReader(r.b).ReadAt(p[skip:], max(0, off+skip-r.off))
	return int(skip) + n, err
}

// encodeFile encodes a File Info block. It returns nil if no shard could hold the block.
//
//	offset  size  field
//	     0    32  hash of the shard where it was read
//	    32     1  1: the chunk hashes of that shard are keyed, else 0
//	    33     8  offset of the block in that shard
//	    41     …  a shard with only this file, without tables and footer (package shard)
func encodeFile(key [32]byte, fi FileEntry) []byte {
	var w shard.Writer
	w.AddFile(fi.FileInfo)
	alone, err := w.EncodeUpload()
	if err != nil {
		return nil
	}
	b := appendHead(make([]byte, 0, minSize+fileHeadSize+len(alone)), key)
	b = append(b, fi.Shard[:]...)
	b = append(b, 0)
	if fi.Keyed {
		b[len(b)-1] = 1
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(fi.Block))
	return seal(append(b, alone...))
}

const fileHeadSize = 41

// decodeFile decodes the File Info block of a file.
func decodeFile(key [32]byte, file codec.Hash, b []byte) (FileEntry, error) {
	b, err := unseal(key, b)
	if err != nil {
		return FileEntry{}, err
	}
	return decodeFileBody(file, b)
}

func decodeFileBody(file codec.Hash, b []byte) (FileEntry, error) {
	if len(b) < fileHeadSize {
		return FileEntry{}, badValue(headSize+len(b), "ends before a shard")
	}
	alone := b[fileHeadSize:]
	k := FileEntry{Shard: codec.Hash(b), Keyed: b[32] == 1}
	r, err := shard.NewReader(bytes.NewReader(alone), int64(len(alone)))
	if err != nil {
		return FileEntry{}, err
	}
	if k.FileInfo, err = r.FileInfo(file); err != nil {
		return FileEntry{}, err
	}
	block := binary.LittleEndian.Uint64(b[33:])
	if b[32] > 1 || block > 1<<62 {
		return FileEntry{}, badValue(headSize+32, "no block can begin at %d", block)
	}
	k.Block = int64(block)
	return k, nil
}

// A Shard is the metadata of a shard that was read whole.
type Shard struct {
	Size int64
	Sums []codec.Hash // of the blocks of ShardBlock bytes
	Ends *ShardEnds
}

// ShardBlock is the length of the part of a shard that one hash proves.
const ShardBlock = 16 << 10

// ShardEnds are the header and the footer of a shard.
type ShardEnds struct {
	Head [48]byte
	Foot [200]byte
}

// Read copies bytes of a shard of some size that are in its header or footer.
func (e *ShardEnds) Read(p []byte, off, size int64) bool {
	if e == nil {
		return false
	}
	foot := size - int64(len(e.Foot))
	switch end := off + int64(len(p)); {
	case off >= 0 && end <= int64(len(e.Head)):
		copy(p, e.Head[off:])
	case off >= foot && end <= size:
		copy(p, e.Foot[off-foot:])
	default:
		return false
	}
	return true
}

// encodeShard encodes the metadata of a shard that was read whole.
//
//	offset  size  field
//	     0     8  size of the shard
//	     8    48  header of the shard
//	    56   200  footer of the shard
//	   256     …  hash of each 16 KiB, 32 bytes each
func encodeShard(key [32]byte, f Shard) []byte {
	b := appendHead(make([]byte, 0, minSize+shardHeadSize+len(f.Sums)*len(codec.Hash{})), key)
	b = binary.LittleEndian.AppendUint64(b, uint64(f.Size))
	b = append(append(b, f.Ends.Head[:]...), f.Ends.Foot[:]...)
	for i := range f.Sums {
		b = append(b, f.Sums[i][:]...)
	}
	return seal(b)
}

const shardHeadSize = 8 + 48 + 200

// decodeShard decodes the metadata of a shard.
func decodeShard(key [32]byte, b []byte) (f Shard, err error) {
	b, err = unseal(key, b)
	if err != nil {
		return f, err
	}
	if len(b) < shardHeadSize {
		return f, badValue(headSize+len(b), "ends before the hashes")
	}
	size, sums := binary.LittleEndian.Uint64(b), b[shardHeadSize:]
	if size > shard.MaxSize || uint64(len(sums)) != (size+ShardBlock-1)/ShardBlock*uint64(len(codec.Hash{})) {
		return f, badValue(headSize, "%d bytes of hashes for a shard of %d bytes", len(sums), size)
	}
	f = Shard{Size: int64(size), Ends: &ShardEnds{[48]byte(b[8:]), [200]byte(b[56:])}}
	for ; len(sums) > 0; sums = sums[len(codec.Hash{}):] {
		f.Sums = append(f.Sums, codec.Hash(sums))
	}
	return f, nil
}

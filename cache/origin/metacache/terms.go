package metacache

import (
	"context"
	"encoding/binary"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/shard"
)

// A Backend stores the index of a file of many terms, and each group of terms under its hash
// in the index.
const (
	kindIndex      = "index of terms proven by its chunks"
	kindNamedIndex = "index of terms proven by its shard"
	kindTerms      = "terms"
)

// A FileIndex is a proven File Info block that is read in groups.
type FileIndex struct {
	*shard.FileIndex
	Sums  []codec.Hash // of the groups, over AppendTerms
	Shard codec.Hash   // with the block
	Size  int64        // of the shard
	Keyed bool         // the chunk hashes of the shard are keyed
}

func (k *Cache) indexKey(id codec.FileID) [32]byte {
	kind := kindIndex
	if k.named && !id.Hint {
		kind = kindNamedIndex
	}
	return k.key(kind, idBytes(id))
}

func (k *Cache) termsKey(sum codec.Hash) [32]byte { return k.key(kindTerms, sum[:]) }

// PutIndex stores the index of a file.
//
//	offset  size  field
//	     0    32  hash of the shard where it was read
//	    32     8  bytes of the shard
//	    40     1  1: the chunk hashes of the shard are keyed, else 0
//	    41     4  number of terms
//	    45    32  SHA-256 of the file, or zero
//	    77     …  for each group: 8 bytes, the offset in the file behind it; 32, its hash
func (k *Cache) PutIndex(id codec.FileID, x *FileIndex) {
	if k.backend == nil {
		return
	}
	key := k.indexKey(id)
	b := appendHead(make([]byte, 0, minSize+indexHeadSize+groupSize*len(x.Sums)), key)
	b = append(b, x.Shard[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(x.Size))
	b = append(b, 0)
	if x.Keyed {
		b[len(b)-1] = 1
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(x.Terms))
	b = append(b, x.SHA256[:]...)
	for i, sum := range x.Sums {
		b = binary.LittleEndian.AppendUint64(b, uint64(x.Ends[i]))
		b = append(b, sum[:]...)
	}
	k.put(key, seal(b))
}

const (
	indexHeadSize = 77
	groupSize     = 40 // bytes of a group in an index
	termSize      = 44 // bytes of a term in a group
)

// Index returns the index of the file that was read for id.
func (k *Cache) Index(ctx context.Context, id codec.FileID) (*FileIndex, bool) {
	if k.backend == nil {
		return nil, false
	}
	key := k.indexKey(id)
	return get(ctx, k, key, func(b []byte) (*FileIndex, error) { return decodeIndex(key, id, b) })
}

func decodeIndex(key [32]byte, id codec.FileID, b []byte) (*FileIndex, error) {
	b, err := unseal(key, b)
	if err != nil {
		return nil, err
	}
	if len(b) < indexHeadSize || b[40] > 1 {
		return nil, badValue(headSize, "no index of terms")
	}
	x := &FileIndex{
		FileIndex: &shard.FileIndex{File: id.File, Block: id.Block, Terms: int(binary.LittleEndian.Uint32(b[41:])), SHA256: [32]byte(b[45:])},
		Shard:     codec.Hash(b), Size: int64(binary.LittleEndian.Uint64(b[32:])), Keyed: b[40] == 1,
	}
	groups := b[indexHeadSize:]
	if len(groups) != groupSize*x.Groups() {
		return nil, badValue(headSize+indexHeadSize, "%d bytes for %d terms", len(groups), x.Terms)
	}
	for end := int64(0); len(groups) > 0; groups = groups[groupSize:] {
		next := int64(binary.LittleEndian.Uint64(groups))
		if next <= end {
			return nil, badValue(headSize+indexHeadSize, "a group ends at byte %d, and the one before at byte %d", next, end)
		}
		end = next
		x.Ends, x.Sums = append(x.Ends, end), append(x.Sums, codec.Hash(groups[8:]))
	}
	return x, nil
}

func (k *Cache) DropIndex(id codec.FileID) {
	if k.backend != nil {
		k.drop(k.indexKey(id))
	}
}

// PutTerms stores the terms of a group. b is their encoding by AppendTerms.
func (k *Cache) PutTerms(sum codec.Hash, b []byte) {
	if k.backend != nil {
		k.put(k.termsKey(sum), b)
	}
}

// Terms returns the terms of a group by its hash.
func (k *Cache) Terms(ctx context.Context, sum codec.Hash) ([]codec.Term, bool) {
	if k.backend == nil {
		return nil, false
	}
	return get(ctx, k, k.termsKey(sum), func(b []byte) ([]codec.Term, error) { return decodeTerms(sum, b) })
}

func decodeTerms(sum codec.Hash, b []byte) ([]codec.Term, error) {
	if terms, ok := DecodeTerms(b); ok && merkle.Chunk(b) == sum {
		return terms, nil
	}
	return nil, badValue(0, "these are not the terms")
}

// DecodeTerms is the inverse of AppendTerms. It checks the length only.
func DecodeTerms(b []byte) (terms []codec.Term, ok bool) {
	if len(b)%termSize != 0 {
		return nil, false
	}
	terms = make([]codec.Term, 0, len(b)/termSize)
	for ; len(b) > 0; b = b[termSize:] {
		terms = append(terms, codec.Term{
			Xorb: codec.Hash(b),
			Size: binary.LittleEndian.Uint32(b[32:]),
			Chunks: codec.ChunkRange{
				Start: binary.LittleEndian.Uint32(b[36:]),
				End:   binary.LittleEndian.Uint32(b[40:]),
			},
		})
	}
	return terms, true
}

// AppendTerms appends the encoding of terms, which is hashed and stored.
//
//	offset  size  field
//	     0    32  xorb hash
//	    32     4  unpacked bytes of the term
//	    36     4  first chunk
//	    40     4  end of the chunks
func AppendTerms(b []byte, terms []codec.Term) []byte {
	for i := range terms {
		t := &terms[i]
		b = append(b, t.Xorb[:]...)
		b = binary.LittleEndian.AppendUint32(b, t.Size)
		b = binary.LittleEndian.AppendUint32(b, t.Chunks.Start)
		b = binary.LittleEndian.AppendUint32(b, t.Chunks.End)
	}
	return b
}

package merkle

import (
	"sync"

	"github.com/zeebo/blake3"

	"github.com/xetfs/xetfs/codec"
)

// The keys of the format. Each kind of hash has its own, so that a hash of one
// kind can never pass for one of another.
var (
	dataKey = codec.Hash{
		0x66, 0x97, 0xf5, 0x77, 0x5b, 0x95, 0x50, 0xde, 0x31, 0x35, 0xcb, 0xac, 0xa5, 0x97, 0x18, 0x1c,
		0x9d, 0xe4, 0x21, 0x10, 0x9b, 0xeb, 0x2b, 0x58, 0xb4, 0xd0, 0xb0, 0x4b, 0x93, 0xad, 0xf2, 0x29,
	}
	nodeKey = codec.Hash{
		0x01, 0x7e, 0xc5, 0xc7, 0xa5, 0x47, 0x29, 0x96, 0xfd, 0x94, 0x66, 0x66, 0xb4, 0x8a, 0x02, 0xe6,
		0x5d, 0xdd, 0x53, 0x6f, 0x37, 0xc7, 0x6d, 0xd2, 0xf8, 0x63, 0x52, 0xe6, 0x4a, 0x53, 0x71, 0x3f,
	}
	termKey = codec.Hash{
		0x7f, 0x18, 0x57, 0xd6, 0xce, 0x56, 0xed, 0x66, 0x12, 0x7f, 0xf9, 0x13, 0xe7, 0xa5, 0xc3, 0xf3,
		0xa4, 0xcd, 0x26, 0xd5, 0xb5, 0xdb, 0x49, 0xe6, 0x41, 0x24, 0x98, 0x7f, 0x28, 0xfb, 0x94, 0xc3,
	}
	fileKey = codec.Hash{} // a salt is possible here, but every client uses this one

	wideDataKey = wideKey(dataKey)
)

// One pool of hashers per key, because a hasher cannot change its key and is 10 KiB
// large.
var (
	dataHashers = newPool(dataKey)
	nodeHashers = newPool(nodeKey)
	termHashers = newPool(termKey)
	fileHashers = newPool(fileKey)
	anyHashers  sync.Pool // of keys from shards: mostly the same one many times
)

// A hasher is a BLAKE3 hasher in keyed mode with room for a text and for the result. As local
// variables both would be allocated for every hash.
type hasher struct {
	blake3 *blake3.Hasher
	key    codec.Hash
	text   []byte
	out    codec.Hash
}

func newPool(key codec.Hash) *sync.Pool {
	return &sync.Pool{New: func() any { return newHasher(key) }}
}

func newHasher(key codec.Hash) *hasher {
	b3, err := blake3.NewKeyed(key[:])
	if err != nil {
		panic(err) // only for a key of another length, which the type rules out
	}
	return &hasher{blake3: b3, key: key}
}

// sum returns the hash of data and leaves h ready for the next.
func (h *hasher) sum(data []byte) codec.Hash {
	h.blake3.Write(data)
	return h.finish()
}

// finish returns the hash of everything written to h.blake3 and leaves h ready for
// the next.
func (h *hasher) finish() codec.Hash {
	h.blake3.Sum(h.out[:0])
	h.blake3.Reset()
	return h.out
}

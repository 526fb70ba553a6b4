package casserve

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// chunkSums are sums over packed chunks that were unpacked and compared with their hashes. Equal
// packed bytes unpack to equal bytes, so a chunk with its sum need not be unpacked again. All
// bytes of every read are still compared. The seed is random and secret, so no writer of a store
// can prepare other bytes with the same sum.
type chunkSums struct {
	seed    maphash.Seed
	scratch sync.Pool // of *[codec.MaxChunkSize]byte

	mu     sync.Mutex
	groups *lru.Cache[sumKey, *sumGroup] // guarded by mu
}

// A sumKey names 64 consecutive chunks of a xorb.
type sumKey struct {
	xorb  codec.Hash
	group uint32
}

// A sumGroup has the sums of 64 chunks, zero if a chunk was not verified.
type sumGroup [64]atomic.Uint64

// maxSums bounds the groups, about 700 bytes each. They are for up to 100 GiB of chunks.
const maxSums = 24 << 10

func (s *chunkSums) init() {
	s.seed = maphash.MakeSeed()
	s.scratch.New = func() any { return new([codec.MaxChunkSize]byte) }
	s.groups = lru.New[sumKey, *sumGroup](maxSums, nil)
}

// verify returns an error unless all chunks of a run of xorb x have their hashes.
func (s *chunkSums) verify(x codec.Hash, run *xorb.Run) error {
	scratch := s.scratch.Get().(*[codec.MaxChunkSize]byte)
	defer s.scratch.Put(scratch)
	var group *sumGroup
	for i := run.Chunks.Start; i < run.Chunks.End; i++ {
		if group == nil || i%64 == 0 {
			group = s.group(sumKey{x, i / 64})
		}
		one := run.Slice(codec.ChunkRange{Start: i, End: i + 1})
		sum := max(maphash.Bytes(s.seed, one.Packed), 1)
		if group[i%64].Load() == sum {
			continue
		}
		if _, err := one.Unpack(i, scratch[:one.Size(i)]); err != nil {
			return err
		}
		group[i%64].Store(sum)
	}
	return nil
}

// group returns a group, which may be new.
func (s *chunkSums) group(k sumKey) *sumGroup {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g, ok := s.groups.Get(k); ok {
		return g
	}
	return s.groups.Add(k, new(sumGroup), 1)
}

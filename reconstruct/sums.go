package reconstruct

import (
	"sync"

	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/codec"
)

// maxSums bounds the number of files with a known SHA-256: about 15 MiB of memory.
const maxSums = 1 << 16

// sums holds the SHA-256 of files that were read completely with the right file hash. A shard
// that claims another SHA-256 is wrong.
type sums struct {
	mu    sync.Mutex
	known *lru.Cache[codec.Hash, [32]byte] // guarded by mu
}

func (s *sums) init() { s.known = lru.New[codec.Hash, [32]byte](maxSums, nil) }

// Add notes the SHA-256 of a file.
func (s *sums) Add(file codec.Hash, sum [32]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known.Add(file, sum, 1)
}

// Get returns the SHA-256 of a file, if it is known.
func (s *sums) Get(file codec.Hash) (sum [32]byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known.Get(file)
}

// SHA256 returns the SHA-256 of a file, if a whole read has proven it.
func (r *Reader) SHA256(file codec.Hash) (sum [32]byte, ok bool) { return r.sums.Get(file) }

// ProveSHA256 notes the SHA-256 of a file that a caller has read whole.
func (r *Reader) ProveSHA256(file codec.Hash, sum [32]byte) { r.sums.Add(file, sum) }

// WrongSHA256 is the error for a file with another SHA-256 than its shard, index page or
// name says.
func WrongSHA256(id codec.FileID, got, want [32]byte) error {
	return codec.Corrupt("file info block", id.Block, "SHA-256 of the file is %x, its shard or entry says %x", got, want)
}

// claim returns the SHA-256 that the File Info block claims, or nil.
func (f *File) claim() *[32]byte {
	if f.sha256 == ([32]byte{}) {
		return nil
	}
	return &f.sha256
}

// claimedWrong reports whether a whole read has shown that the block of f claims a wrong
// SHA-256.
func (f *File) claimedWrong() bool {
	claim := f.claim()
	got, ok := f.r.sums.Get(f.id.File)
	return ok && claim != nil && got != *claim
}

package reconstruct

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newReader returns a Reader over src, and what ends it.
func newReader(t testing.TB, src origin.Source, co cache.Options, o Options) (r *Reader, done func()) {
	t.Helper()
	c, err := cache.New(src, co)
	if err != nil {
		t.Fatal(err)
	}
	return New(c, o), func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// open opens a file of a store, until the end of the test.
func open(t testing.TB, s origin.Store, id codec.FileID) *File {
	t.Helper()
	return openFrom(t, objects.New(s, objects.Options{}), Options{}, id)
}

// openFrom opens a file of a source, until the end of the test.
func openFrom(t testing.TB, src origin.Source, o Options, id codec.FileID) *File {
	t.Helper()
	r, done := newReader(t, src, cache.Options{}, o)
	t.Cleanup(done)
	f, err := r.Open(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A readerAt is what File and Handle have in common.
type readerAt interface {
	ReadAt(ctx context.Context, p []byte, off int64) (int, error)
}

// tryRead reads n bytes at off and compares them with the file's.
func tryRead(ctx context.Context, f readerAt, want []byte, off int64, n int) error {
	p := make([]byte, n)
	got, err := f.ReadAt(ctx, p, off)
	have := max(0, min(int64(n), int64(len(want))-off))
	switch {
	case err != nil && err != io.EOF:
		return err
	case int64(got) != have || (err == io.EOF) != (have < int64(n)):
		return errCount
	case !bytes.Equal(p[:got], want[min(off, int64(len(want))):][:have]):
		return errOtherBytes
	}
	return nil
}

var (
	errOtherBytes = errors.New("other bytes")
	errCount      = errors.New("another number of bytes, or io.EOF where there is more")
)

// A spy is a Source that notes which chunks are requested.
type spy struct {
	origin.Source
	before  func(ctx context.Context, x codec.Hash, r codec.ChunkRange) error // nil: nothing
	arrived atomic.Int64                                                      // answers

	mu        sync.Mutex
	requested map[codec.Hash]map[uint32]int // how often for each chunk; guarded by mu
	n         int                           // requests; guarded by mu
}

func spyOn(s origin.Store) *spy {
	return &spy{Source: objects.New(s, objects.Options{}), requested: map[codec.Hash]map[uint32]int{}}
}

// TryChunks returns no run, so that the reader calls Chunks.
func (s *spy) TryChunks(codec.Hash, codec.ChunkRange, func(n int) []byte) (*xorb.Run, bool) {
	return nil, false
}

func (s *spy) Chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
	s.mu.Lock()
	s.n++
	if s.requested[x] == nil {
		s.requested[x] = map[uint32]int{}
	}
	for i := r.Start; i < r.End; i++ {
		s.requested[x][i]++
	}
	s.mu.Unlock()
	if s.before != nil {
		if err := s.before(ctx, x, r); err != nil {
			return nil, err
		}
	}
	defer s.arrived.Add(1)
	return s.Source.Chunks(ctx, x, r, o)
}

// counts returns how many requests there were, how many different chunks were
// requested, and how many in all.
func (s *spy) counts() (requests, different, all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, chunks := range s.requested {
		different += len(chunks)
		for _, n := range chunks {
			all += n
		}
	}
	return s.n, different, all
}

// pattern is n chunks of a size, all different and quickly made.
func pattern(n, size int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = bytes.Repeat([]byte{byte(i), byte(i >> 8), byte(i >> 16), 7}, size/4+1)[:size]
	}
	return all
}

// large is a remote file of n chunks of 64 KiB in xorbs of 128.
func large(t testing.TB, n int) (origin.WriteStore, *origintest.File) {
	t.Helper()
	b := origintest.NewBuilder(t, origintest.Form{NoSHA256: true, Schemes: []xorb.Scheme{xorb.None}})
	var terms []origintest.Term
	all := pattern(n, 64<<10)
	for len(all) > 0 {
		some := all[:min(128, len(all))]
		all = all[len(some):]
		terms = append(terms, b.Xorb(some...).All())
	}
	f := b.File(terms...)
	return b.Store(), f
}

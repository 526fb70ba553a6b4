package verify

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
)

// A countedCache is a XorbCache over xorbs of 1,000 bytes, and the requests for them.
type countedCache struct {
	*XorbCache
	keys []names.Key

	mu    sync.Mutex
	loads map[names.Key]int // guarded by mu
	bad   map[names.Key]bool
}

// readers gives what XorbCache wants of a store to one of tests.
type readers struct{ origin.Store }

func (readers) Close() error { return nil }

func (s readers) ReadPart(ctx context.Context, k names.Key, off int64, n int) (origin.Part, error) {
	return origin.Part{}, errors.New("the store was asked for its end")
}

func (s readers) ReadAtProgress(ctx context.Context, k names.Key, p []byte, off int64, _ func(int)) error {
	return s.ReadAt(ctx, k, p, off)
}

const shelved = 1000

// newCountedCache returns a countedCache with n xorbs and memory for some of them.
func newCountedCache(t *testing.T, n, memory int) *countedCache {
	t.Helper()
	store := origintest.Memory()
	s := &countedCache{loads: map[names.Key]int{}, bad: map[names.Key]bool{}}
	sizes := map[names.Key]int64{}
	for i := range n {
		k := names.XorbKey(codec.Hash{byte(i)})
		if err := origintest.Replace(store, k, bytesOf(i)); err != nil {
			t.Fatal(err)
		}
		s.keys, sizes[k] = append(s.keys, k), shelved
	}
	s.XorbCache = NewXorbCache(readers{store}, int64(memory*shelved*8+6)/7)
	s.begin(t.Context(), sizes, func(ctx context.Context, k names.Key) []byte {
		s.mu.Lock()
		s.loads[k]++
		s.mu.Unlock()
		b, err := s.fetch(ctx, k, shelved)
		if err != nil || s.bad[k] {
			return nil
		}
		return b
	})
	t.Cleanup(s.wg.Wait)
	return s
}

func bytesOf(i int) []byte {
	b := make([]byte, shelved)
	for j := range b {
		b[j] = byte(i + j)
	}
	return b
}

// read reads some bytes of a xorb, and returns how often it was loaded so far.
func (s *countedCache) read(t *testing.T, ctx context.Context, i int) (loads int) {
	t.Helper()
	p := make([]byte, 10)
	if err := s.ReadAt(ctx, s.keys[i], p, 500); err != nil || string(p) != string(bytesOf(i)[500:510]) {
		t.Errorf("xorb %d: %v, %v", i, p, err)
	}
	return s.loaded(i)
}

func (s *countedCache) loaded(i int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loads[s.keys[i]]
}

// Each xorb comes once, however many ask, also for its end; when it has made room for
// others, parts are requested from the store.
func TestHeldStore(t *testing.T) {
	s := newCountedCache(t, 5, 3)
	var readers sync.WaitGroup
	for i := range 60 {
		readers.Go(func() { s.read(t, t.Context(), i%3) })
	}
	readers.Wait()
	part, err := s.ReadPart(t.Context(), s.keys[1], origin.Tail, 100)
	if err != nil || part.Off != shelved-100 || part.Size != shelved || string(part.Bytes) != string(bytesOf(1)[shelved-100:]) {
		t.Errorf("ReadPart = %+v, %v", part, err)
	}
	s.read(t, t.Context(), 3) // in the place of 0 or 2, which were used before 1
	for i := range 4 {
		if n := s.read(t, t.Context(), i); n != 1 {
			t.Errorf("xorb %d was loaded %d times", i, n)
		}
	}
	if s.bytes != 3*shelved || s.order.Len() != 3 {
		t.Errorf("%d bytes in %d xorbs are held", s.bytes, s.order.Len())
	}
	if n := s.read(t, origin.NoCache(t.Context()), 4); n != 0 {
		t.Error("what was wanted fresh was held")
	}
	if err := s.ReadAt(t.Context(), s.keys[1], make([]byte, 10), shelved-5); err == nil {
		t.Error("bytes behind the end were read")
	}
}

// The next one is on its way with the first read of one; a damaged one is not held.
func TestHeldStoreFollows(t *testing.T) {
	s := newCountedCache(t, 4, 3)
	s.bad[s.keys[1]] = true
	s.prefetchOrder(s.keys)
	s.read(t, t.Context(), 0)
	s.wg.Wait()
	for i, want := range []int{1, 1, 0, 0} {
		if n := s.loaded(i); n != want {
			t.Errorf("xorb %d was loaded %d times, want %d", i, n, want)
		}
	}
	if n := s.read(t, t.Context(), 1); n != 1 || s.bytes != shelved {
		t.Errorf("the damaged one was loaded %d times, %d bytes are held", n, s.bytes)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := s.ReadAt(ctx, s.keys[3], make([]byte, 1), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
}

// Files are checked in the order in which their chunks lie, those that go on in the next
// xorb before those that begin there.
func TestInPlace(t *testing.T) {
	file := func(terms ...codec.Term) fileJob { return fileJob{info: &shard.FileInfo{Terms: terms}} }
	term := func(x byte, start uint32) codec.Term {
		return codec.Term{Xorb: codec.Hash{x}, Chunks: codec.ChunkRange{Start: start, End: start + 1}}
	}
	jobs := []fileJob{
		file(term(2, 9), term(1, 0)), // 2 leads to 1, and 3 to 2
		file(term(1, 5)),
		file(term(3, 7), term(2, 0)),
		file(term(1, 2)),
		file(),
		file(term(2, 3)),
		file(term(4, 1), term(5, 0)), // a circle
		file(term(5, 1), term(4, 0)),
	}
	ordered, xorbs := byLayout(jobs)
	var got string
	for _, job := range ordered {
		for _, t := range job.info.Terms {
			got += fmt.Sprintf("%d.%d ", t.Xorb[0], t.Chunks.Start)
		}
		got += "| "
	}
	if want := "| 3.7 2.0 | 2.3 | 2.9 1.0 | 1.2 | 1.5 | 4.1 5.0 | 5.1 4.0 | "; got != want {
		t.Errorf("files %s, want %s", got, want)
	}
	var order []byte
	for _, x := range xorbs {
		order = append(order, x[0])
	}
	if string(order) != "\x03\x02\x01\x04\x05" {
		t.Errorf("xorbs %v", order)
	}
}

package cas

import (
	"math/rand/v2"
	"reflect"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/cache/origin/metacache"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// newPlaces returns places without a disk cache.
func newPlaces(t testing.TB) *places {
	ps := &places{}
	ps.init(metacache.New(nil, "", false), 1<<20)
	t.Cleanup(ps.close)
	return ps
}

// headers returns n headers with lengths that depend on their chunk.
func headers(first, n int) (all []xorb.ChunkHeader) {
	for i := first; i < first+n; i++ {
		all = append(all, xorb.ChunkHeader{Packed: 100 + i, Unpacked: 200 + 2*i, Scheme: xorb.LZ4})
	}
	return all
}

// Lengths of chunks that were learned in any order lead to the chunks of each byte of a term.
func TestNarrowsByLearnedLengths(t *testing.T) {
	const chunks = 300
	ps, x := newPlaces(t), codec.Hash{1}
	starts, offs := []int64{0}, []int64{0}
	for _, h := range headers(0, chunks) {
		starts = append(starts, starts[len(starts)-1]+int64(xorb.ChunkHeaderSize+h.Packed))
		offs = append(offs, offs[len(offs)-1]+int64(h.Unpacked))
	}
	term := codec.Term{Xorb: x, Chunks: codec.ChunkRange{Start: 20, End: 280}, Size: uint32(offs[280] - offs[20])}
	none := func(uint32) int64 { return 0 }
	if _, _, ok, err := ps.narrow(term, 0, 1, none); ok || err != nil {
		t.Errorf("without lengths: %v, %v", ok, err)
	}
	for _, first := range rand.Perm(chunks / 10) {
		ps.learnChunks(x, uint32(10*first), starts[10*first], headers(10*first, 10))
	}
	for i := 20; i < 280; i++ {
		off := offs[i] - offs[20]
		for _, n := range []int64{1, offs[i+1] - offs[i], 5000} {
			n = min(n, int64(term.Size)-off)
			end := i + 1
			for offs[end]-offs[20] < off+n {
				end++
			}
			r, skip, ok, err := ps.narrow(term, off, n, none)
			if want := (codec.ChunkRange{Start: uint32(i), End: uint32(end)}); !ok || err != nil || r != want || skip != 0 {
				t.Errorf("%d bytes at %d: %v, %d, %v, %v, want %v", n, off, r, skip, ok, err, want)
			}
		}
	}
	start, end, ok := ps.span(x, codec.ChunkRange{Start: 33, End: 77})
	if !ok || start != starts[33] || end != starts[77] {
		t.Errorf("span = %d, %d, %v, want %d, %d", start, end, ok, starts[33], starts[77])
	}
	term.Size += 5
	if _, _, _, err := ps.narrow(term, int64(term.Size)-3, 3, none); err == nil {
		t.Error("a term with more bytes than its chunks is accepted")
	}
}

// Places that contradict earlier ones replace them.
func TestContradictionReplacesPlaces(t *testing.T) {
	ps, x := newPlaces(t), codec.Hash{1}
	ps.learnChunks(x, 0, 0, headers(0, 10))
	ps.learnChunks(x, 5, 7000, headers(5, 2))
	if _, _, ok := ps.span(x, codec.ChunkRange{End: 2}); ok {
		t.Error("earlier places remain")
	}
	if start, end, ok := ps.span(x, codec.ChunkRange{Start: 5, End: 6}); !ok || start != 7000 || end != 7113 {
		t.Errorf("span = %d, %d, %v", start, end, ok)
	}
}

// Proven sizes replace what a wrong plan has said, and no later answer changes them.
func TestProvenSizesReplacePlaces(t *testing.T) {
	ps, x := newPlaces(t), codec.Hash{1}
	term := codec.Term{Xorb: x, Chunks: codec.ChunkRange{Start: 2, End: 6}, Size: 4000}
	ps.learnTerm(term, codec.ChunkRange{Start: 3, End: 4}, 700, 500) // chunk 3 begins at 1000
	ps.learnChunks(x, 2, 0, []xorb.ChunkHeader{{Packed: 10, Unpacked: 700}})
	leaves := make([]merkle.Leaf, 4)
	for i := range leaves {
		leaves[i] = merkle.Leaf{Hash: codec.Hash{byte(i + 1)}, Size: 1000}
	}
	ps.confirm(x, 2, leaves)
	ps.learnChunks(x, 3, 18, []xorb.ChunkHeader{{Packed: 10, Unpacked: 600}})
	ps.learnTerm(codec.Term{Xorb: x, Chunks: codec.ChunkRange{End: 6}, Size: 9000}, codec.ChunkRange{Start: 4, End: 5}, 100, 300)
	for off := int64(0); off < 4000; off += 500 {
		r, skip, ok, err := ps.narrow(term, off, 500, func(uint32) int64 { return 0 })
		want := codec.ChunkRange{Start: 2 + uint32(off/1000), End: 3 + uint32(off/1000)}
		if !ok || err != nil || r != want || skip != off%1000 {
			t.Errorf("at %d: %v, %d, %v, %v, want %v", off, r, skip, ok, err, want)
		}
	}
}

// The memory of proven sizes counts although a walk leaves no mark.
func TestProvenSizesAreCounted(t *testing.T) {
	ps := newPlaces(t)
	term := codec.Term{Xorb: codec.Hash{1}, Chunks: codec.ChunkRange{Start: 8000, End: 8010}, Size: 10_000}
	if _, _, ok, err := ps.narrow(term, 500, 1000, func(uint32) int64 { return 1000 }); !ok || err != nil {
		t.Fatalf("narrow: %v, %v", ok, err)
	}
	xp := ps.ofLocked(term.Xorb)
	if n := ps.xorbs.Cost(); len(xp.marks) > 0 || n != xp.bytes() || n < 4*8000 {
		t.Errorf("%d bytes count, want %d; %d marks", n, xp.bytes(), len(xp.marks))
	}
}

// FuzzDecodePlaces checks that a value from the disk cache never leads to a panic, and that one
// that was encoded stays the same.
func FuzzDecodePlaces(f *testing.F) {
	ps := newPlaces(f)
	ps.learnChunks(codec.Hash{1}, 3, 500, headers(3, 5))
	ps.learnTerm(codec.Term{Xorb: codec.Hash{1}, Chunks: codec.ChunkRange{Start: 3, End: 8}}, codec.ChunkRange{Start: 4, End: 5}, 300, 7)
	f.Add(ps.ofLocked(codec.Hash{1}).encode(), uint32(4), int64(300))
	f.Fuzz(func(t *testing.T, b []byte, chunk uint32, off int64) {
		ps, x := newPlaces(t), codec.Hash{1}
		xp := ps.ofLocked(x)
		xp.decode(b)
		again := &xorbPlaces{marks: map[uint32][]mark{}}
		again.decode(xp.encode())
		if len(xp.starts) > 0 && !reflect.DeepEqual(again, xp) {
			t.Errorf("decoded again: %+v, was %+v", again, xp)
		}
		chunk %= codec.MaxXorbChunks
		term := codec.Term{Xorb: x, Chunks: codec.ChunkRange{Start: chunk, End: min(chunk+100, codec.MaxXorbChunks)}, Size: 1 << 20}
		off = max(0, min(off, 1<<20-1))
		in := FetchRange{Chunks: term.Chunks, End: 1 << 22}
		_, _, _, _ = ps.narrow(term, off, 1, func(uint32) int64 { return 0 })
		_ = ps.estimate(term, off, in)
		if got := ps.around(x, term.Chunks, in); got.Start < in.Start || got.End > in.End || got.Start >= got.End {
			t.Errorf("around = %+v, not in %+v", got, in)
		}
	})
}

// A lockedBackend fails a test that changes it without the lock of places.
type lockedBackend struct {
	origintest.Backend
	t  *testing.T
	ps *places
}

func (b *lockedBackend) check(doing string) {
	if b.ps.storing.TryLock() {
		b.ps.storing.Unlock()
		b.t.Errorf("%s without the lock", doing)
	}
}

func (b *lockedBackend) PutPage(h [32]byte, p []byte) error {
	b.check("store")
	return b.Backend.PutPage(h, p)
}

func (b *lockedBackend) ForgetPage(h [32]byte) {
	b.check("drop")
	b.Backend.ForgetPage(h)
}

// Dropped places do not come back by a store that began before: both hold a lock.
func TestDropWaitsForStore(t *testing.T) {
	ps, x := &places{}, codec.Hash{1}
	disk := &lockedBackend{t: t, ps: ps}
	ps.init(metacache.New(disk, "", false), 1<<20)
	defer ps.close()
	ps.learnChunks(x, 0, 0, headers(0, 10))
	ps.store()
	if n := len(disk.Pages()); n != 1 {
		t.Errorf("%d places are in the disk cache", n)
	}
	ps.drop(x)
	if n := len(disk.Pages()); n != 0 {
		t.Errorf("%d places are in the disk cache after a drop", n)
	}
}

// The range of chunks in a term is exact if all lengths before them are known, or places of both ends.
// Else it is within the term.
func TestPlacesAbout(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(1, 1<<17), 1, 100).Draw(rt, "sizes")
		first := rapid.Uint32Range(0, 50).Draw(rt, "first")
		offs := []int64{0}
		for _, n := range sizes {
			offs = append(offs, offs[len(offs)-1]+int64(n))
		}
		n := uint32(len(sizes))
		term := codec.Term{Xorb: codec.Hash{1}, Chunks: codec.ChunkRange{Start: first, End: first + n}, Size: uint32(offs[n])}
		ps := newPlaces(t)
		xp := ps.ofLocked(term.Xorb)
		for i, size := range sizes {
			if rapid.Bool().Draw(rt, "known") {
				xp.set(&xp.sizes, first+uint32(i), uint32(size))
			}
			if i > 0 && rapid.IntRange(0, 9).Draw(rt, "mark") == 0 {
				xp.setMark(first, mark{first + uint32(i), uint32(offs[i])})
			}
		}
		from := rapid.Uint32Range(0, n-1).Draw(rt, "from")
		to := rapid.Uint32Range(from+1, n).Draw(rt, "to")
		off, length, isExact := ps.about(term, codec.ChunkRange{Start: first + from, End: first + to})
		switch {
		case isExact && (off != offs[from] || length != offs[to]-offs[from]):
			rt.Errorf("bytes [%d, %d), want [%d, %d)", off, off+length, offs[from], offs[to])
		case off < 0 || length <= 0 || off+length > int64(term.Size):
			rt.Errorf("bytes [%d, %d) of %d", off, off+length, term.Size)
		}
	})
}

// An unlockedBackend fails a test that drops a value under the lock of a Client.
type unlockedBackend struct {
	origintest.Backend
	t     *testing.T
	c     *Client
	drops atomic.Int64
}

func (b *unlockedBackend) ForgetPage(h [32]byte) {
	if b.drops.Add(1); !b.c.mu.TryLock() {
		b.t.Error("a value is dropped under the lock of the Client")
	} else {
		b.c.mu.Unlock()
	}
	b.Backend.ForgetPage(h)
}

// Forget and Reject drop the values of each xorb once, and do not hold up other calls.
func TestForgetHoldsNoLock(t *testing.T) {
	backend := &unlockedBackend{t: t}
	c := NewClient(Options{Backend: backend})
	defer c.Close()
	backend.c = c
	fi := &shard.FileInfo{File: codec.Hash{1}}
	for i := range uint32(100) {
		fi.Terms = append(fi.Terms, codec.Term{Xorb: codec.Hash{2 + byte(i%2)}, Size: 1, Chunks: codec.ChunkRange{Start: i, End: i + 1}})
	}
	c.keepInfo(fi)
	c.Forget(codec.FileID{File: fi.File})
	if n := backend.drops.Swap(0); n != 3 {
		t.Errorf("Forget drops %d values, want those of the file and of 2 xorbs", n)
	}
	c.Reject(codec.Hash{2})
	if n := backend.drops.Load(); n != 1 {
		t.Errorf("Reject drops %d values, want 1", n)
	}
}

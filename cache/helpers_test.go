package cache

import (
	"bytes"
	"context"
	"os"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

func TestMain(m *testing.M) {
	poison = true
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		os.Stderr.WriteString(err.Error() + "\n")
		code = 1
	}
	os.Exit(code)
}

// all schemes, so that every way of unpacking is taken.
var allSchemes = []xorb.Scheme{xorb.None, xorb.LZ4, xorb.ByteGrouping4LZ4}

// open returns a Cache over src that ends with the test.
func open(t testing.TB, src origin.Source, o Options) *Cache {
	t.Helper()
	c, err := New(src, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { wantReleased(t, c) })
	origintest.Close(t, c)
	return c
}

// wantReleased fails the test if a chunk was not released, or twice.
func wantReleased(t testing.TB, c *Cache) {
	t.Helper()
	if n := c.memory.arena.InUse(); n != 0 {
		t.Errorf("%d bytes of chunks are still in use", n)
	}
}

// openHere is open for a bubble, which must be left empty: call close at its end.
func openHere(t testing.TB, src origin.Source, o Options) (c *Cache, close func()) {
	t.Helper()
	c, err := New(src, o)
	if err != nil {
		t.Fatal(err)
	}
	return c, func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		wantReleased(t, c)
	}
}

// A xorbSource is a xorb and a Source that has it.
type xorbSource struct {
	*origintest.Xorb
	src origin.Source
}

// store keeps chunks of the given sizes in one xorb.
func store(t testing.TB, local bool, sizes ...int) xorbSource {
	t.Helper()
	b := origintest.NewBuilder(t, origintest.Form{Schemes: allSchemes})
	var chunks [][]byte
	for i, n := range sizes {
		chunks = append(chunks, origintest.Text(uint64(i), n))
	}
	x := b.Xorb(chunks...)
	s := b.Store()
	if local {
		s = b.LocalStore()
	}
	return xorbSource{x, objects.New(s, objects.Options{})}
}

// same returns n times the same size.
func same(n, size int) []int {
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = size
	}
	return sizes
}

// chunks is the range of chunks start ≤ i < end.
func chunks(start, end int) codec.ChunkRange {
	return codec.ChunkRange{Start: uint32(start), End: uint32(end)}
}

// read reads and compares.
func (s xorbSource) read(t testing.TB, c *Cache, r codec.ChunkRange, skip, n int) {
	t.Helper()
	if err := s.try(t.Context(), c, r, skip, n); err != nil {
		t.Errorf("Read(%v, %d, %d bytes): %v", r, skip, n, err)
	}
}

// try is read for reads that may fail. Other bytes are an error, too.
func (s xorbSource) try(ctx context.Context, c *Cache, r codec.ChunkRange, skip, n int) error {
	p := make([]byte, n)
	if err := c.Read(ctx, s.Hash(), r, int64(skip), p); err != nil {
		return err
	}
	if !bytes.Equal(p, s.Unpacked(r)[skip:][:n]) {
		return errOtherBytes
	}
	return nil
}

var errOtherBytes = &wrongBytes{}

type wrongBytes struct{}

func (*wrongBytes) Error() string { return "other bytes" }

// A hookedSource calls before each request for chunks.
type hookedSource struct {
	origin.Source
	before   func(ctx context.Context, r codec.ChunkRange) error
	requests atomic.Int64
	chunks   atomic.Int64
}

func hook(src origin.Source, before func(ctx context.Context, r codec.ChunkRange) error) *hookedSource {
	return &hookedSource{Source: src, before: before}
}

// TryChunks returns no run, so that the reader calls Chunks.
func (h *hookedSource) TryChunks(codec.Hash, codec.ChunkRange, func(n int) []byte) (*xorb.Run, bool) {
	return nil, false
}

func (h *hookedSource) Chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
	h.requests.Add(1)
	h.chunks.Add(int64(r.Len()))
	if h.before != nil {
		if err := h.before(ctx, r); err != nil {
			return nil, err
		}
	}
	return h.Source.Chunks(ctx, x, r, o)
}

package origintest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// narrow checks pieces of all lengths at the ends of chunks, and random pieces.
func (c *contract) narrow(t testing.TB) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, f := range c.b.Files {
		for i, term := range f.Info.Terms {
			size := int64(term.Size)
			pieces := []codec.Piece{
				{Size: size}, {Size: 1}, {Skip: size - 1, Size: 1},
				{Skip: min(999, size-1), Size: 1}, {Skip: min(1000, size-1), Size: 1}, {Size: min(1000, size)}, {Size: min(1001, size)},
			}
			for range 20 {
				skip := random.Int64N(size)
				pieces = append(pieces, codec.Piece{Skip: skip, Size: 1 + random.Int64N(size-skip)})
			}
			for _, piece := range pieces {
				piece.Term = i
				c.checkNarrow(t, f, piece)
			}
		}
	}
}

// checkNarrow checks that the chunks of Narrow hold the piece, behind the bytes to skip.
func (c *contract) checkNarrow(t testing.TB, f *File, piece codec.Piece) {
	t.Helper()
	term := f.Info.Terms[piece.Term]
	r, skip, err := c.src.Narrow(t.Context(), f.ID(), term, piece)
	if err != nil {
		t.Errorf("Narrow(%v, %+v): %v", term, piece, err)
		return
	}
	if !term.Chunks.Contains(r) || r.Len() < 1 || skip < 0 {
		t.Errorf("Narrow(%v, %+v) = %v, %d: not in the term", term, piece, r, skip)
		return
	}
	start, end := f.Terms[piece.Term].X.Info.PackedRange(r)
	if n := c.src.PackedSize(term.Xorb, r); n != 0 && n != end-start {
		t.Errorf("PackedSize(%v) = %d, they have %d bytes", r, n, end-start)
	}
	unpacked := f.Terms[piece.Term].X.Unpacked(r)
	want := f.Terms[piece.Term].X.Unpacked(term.Chunks)[piece.Skip:][:piece.Size]
	if skip+piece.Size > int64(len(unpacked)) || !bytes.Equal(unpacked[skip:][:piece.Size], want) {
		t.Errorf("Narrow(%v, %+v) = %v, %d: other bytes", term, piece, r, skip)
	}
}

func (c *contract) narrowRefuses(t testing.TB) {
	f := c.b.Files[0]
	good := f.Info.Terms[0]
	n := uint32(len(f.Terms[0].X.Chunks))
	for name, tt := range map[string]struct {
		term codec.Term
		err  error
	}{
		"no such xorb":   {codec.Term{Xorb: codec.Hash{9}, Chunks: codec.ChunkRange{End: 1}, Size: 1}, origin.ErrNotFound},
		"one too many":   {codec.Term{Xorb: good.Xorb, Chunks: codec.ChunkRange{End: n + 1}, Size: good.Size}, codec.ErrCorrupt},
		"behind the end": {codec.Term{Xorb: good.Xorb, Chunks: codec.ChunkRange{Start: 1 << 31, End: 1<<31 + 1}, Size: 1}, codec.ErrCorrupt},
		"no chunks":      {codec.Term{Xorb: good.Xorb, Chunks: codec.ChunkRange{Start: 1, End: 1}}, codec.ErrCorrupt},
		"backwards":      {codec.Term{Xorb: good.Xorb, Chunks: codec.ChunkRange{Start: 2, End: 1}, Size: 1}, codec.ErrCorrupt},
		"another size":   {codec.Term{Xorb: good.Xorb, Chunks: good.Chunks, Size: good.Size - 1}, codec.ErrCorrupt},
	} {
		if r, skip, err := c.src.Narrow(t.Context(), f.ID(), tt.term, codec.Piece{Size: 1}); !errors.Is(err, tt.err) {
			t.Errorf("%s: Narrow = %v, %d, %v, want %v", name, r, skip, err, tt.err)
		}
	}
}

func (c *contract) chunks(t testing.TB) {
	for _, x := range c.b.Xorbs {
		for start := range uint32(len(x.Chunks)) {
			for end := start + 1; end <= uint32(len(x.Chunks)); end++ {
				r := codec.ChunkRange{Start: start, End: end}
				run, err := c.src.Chunks(t.Context(), x.Hash(), r, origin.ReadOptions{})
				if err != nil {
					t.Errorf("Chunks(%v): %v", r, err)
					continue
				}
				checkRun(t, x, r, run)
			}
		}
	}
}

// checkRun compares a run with the stored bytes, and its unpacked chunks.
func checkRun(t testing.TB, x *Xorb, r codec.ChunkRange, run *xorb.Run) {
	t.Helper()
	if run.Chunks != r {
		t.Errorf("Chunks(%v) returns chunks %v", r, run.Chunks)
		return
	}
	if start, end := x.Info.PackedRange(r); !bytes.Equal(run.Packed, x.Bytes[start:end]) {
		t.Errorf("Chunks(%v): not the stored bytes", r)
	}
	for i := r.Start; i < r.End; i++ {
		if h := run.Hash(i); h != x.Info.Chunks[i] && h != (codec.Hash{}) {
			t.Errorf("Chunks(%v): chunk %d has the hash of another chunk", r, i)
		}
		got := make([]byte, run.Size(i))
		if _, err := run.Unpack(i, got); err != nil || !bytes.Equal(got, x.Chunks[i]) {
			t.Errorf("Chunks(%v): chunk %d has other bytes, %v", r, i, err)
		}
	}
}

// badRanges returns ranges that do not fit a xorb.
func badRanges(x *Xorb) map[string]codec.ChunkRange {
	n := uint32(len(x.Chunks))
	return map[string]codec.ChunkRange{
		"none": {Start: 1, End: 1}, "backwards": {Start: 2, End: 1}, "one too many": {End: n + 1},
		"behind the end": {Start: n, End: n + 1}, "huge": {Start: 1<<32 - 2, End: 1<<32 - 1},
	}
}

func (c *contract) chunksRefuses(t testing.TB) {
	x := c.b.Xorbs[0]
	for name, r := range badRanges(x) {
		if run, err := c.src.Chunks(t.Context(), x.Hash(), r, origin.ReadOptions{}); err == nil {
			t.Errorf("%s: Chunks(%v) = %v, want an error", name, r, run)
		}
	}
	if _, err := c.src.Chunks(t.Context(), codec.Hash{9}, codec.ChunkRange{End: 1}, origin.ReadOptions{}); !errors.Is(err, origin.ErrNotFound) {
		t.Errorf("Chunks of no xorb = %v, want %v", err, origin.ErrNotFound)
	}
}

// someChunks returns a xorb and all its chunks but the first.
func (c *contract) someChunks() (*Xorb, codec.ChunkRange) {
	x := c.b.Xorbs[0]
	return x, codec.ChunkRange{Start: 1, End: uint32(len(x.Chunks))}
}

// read returns some chunks, and stops the check after an error.
func (c *contract) read(t testing.TB, o origin.ReadOptions) *xorb.Run {
	t.Helper()
	x, r := c.someChunks()
	run, err := c.src.Chunks(t.Context(), x.Hash(), r, o)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func (c *contract) chunksRequests(t testing.TB) {
	if !c.direct {
		return
	}
	x := c.b.Xorbs[0]
	c.read(t, origin.ReadOptions{})
	for i := range uint32(len(x.Chunks)) {
		r := codec.ChunkRange{Start: i, End: i + 1}
		least, most := 0, 2
		if c.src.Proves() {
			least, most = 1, 1
		}
		n := most + 1
		for range 10 { // a late answer is hedged by a second request
			if n > most {
				n = c.requests(func() { c.src.Chunks(t.Context(), x.Hash(), r, origin.ReadOptions{}) })
			}
		}
		if n < least || n > most {
			t.Errorf("Chunks(%v) costs %d requests, want 1", r, n)
		}
	}
}

func (c *contract) buffer(t testing.TB) {
	x, r := c.someChunks()
	var memory []byte
	calls := 0
	run := c.read(t, origin.ReadOptions{Buffer: func(n int) []byte { memory = make([]byte, n); calls++; return memory }})
	checkRun(t, x, r, run)
	if calls > 1 || memory != nil && &run.Packed[0] != &memory[0] {
		t.Errorf("%d calls of Buffer, or a run in other memory", calls)
	}
}

// bufferOwned overwrites the memory of a run. Later runs are not affected.
func (c *contract) bufferOwned(t testing.TB) {
	x, r := c.someChunks()
	run := c.read(t, origin.ReadOptions{Buffer: func(n int) []byte { return make([]byte, n) }})
	clear(run.Packed)
	checkRun(t, x, r, c.read(t, origin.ReadOptions{}))
}

func (c *contract) onPartial(t testing.TB) {
	x, r := c.someChunks()
	end := r.Start
	c.read(t, origin.ReadOptions{OnPartial: func(run *xorb.Run) {
		if run.Chunks.Start != r.Start || run.Chunks.End <= end || run.Chunks.End >= r.End {
			t.Errorf("OnPartial(%v) after chunk %d of %v", run.Chunks, end, r)
		}
		end = run.Chunks.End
		checkRun(t, x, run.Chunks, run)
	}})
}

func (c *contract) tryChunks(t testing.TB) {
	x, good := c.someChunks()
	ranges := badRanges(x)
	ranges["good"] = good
	for name, r := range ranges {
		var memory []byte
		calls := 0
		run, ok := c.src.TryChunks(x.Hash(), r, func(n int) []byte { memory = make([]byte, n); calls++; return memory })
		if calls > 1 || ok && r != good {
			t.Errorf("%s: TryChunks = %v after %d calls of buffer", name, ok, calls)
		}
		if !ok || r != good {
			continue
		}
		checkRun(t, x, r, run)
		if memory != nil && &run.Packed[0] != &memory[0] {
			t.Errorf("%s: TryChunks returns a run in other memory", name)
		}
	}
	if _, ok := c.src.TryChunks(codec.Hash{9}, good, func(n int) []byte { return make([]byte, n) }); ok {
		t.Error("TryChunks of no xorb returns a run")
	}
}

func (c *contract) tryChunksRequests(t testing.TB) {
	x, r := c.someChunks()
	n := c.requests(func() { c.src.TryChunks(x.Hash(), r, func(n int) []byte { return make([]byte, n) }) })
	if n > 0 {
		t.Errorf("TryChunks sends %d requests", n)
	}
}

// tryChunksMemory overwrites the memory of calls without a run. Later runs are not affected.
func (c *contract) tryChunksMemory(t testing.TB) {
	x, r := c.someChunks()
	var memory []byte
	buffer := func(n int) []byte { memory = make([]byte, n); return memory }
	if _, ok := c.src.TryChunks(x.Hash(), r, buffer); !ok {
		for i := range memory {
			memory[i] = 0xff
		}
	}
	checkRun(t, x, r, c.read(t, origin.ReadOptions{}))
}

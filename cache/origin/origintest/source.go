package origintest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// forms are the ways in which the same files are stored for TestSource.
var forms = []struct {
	name string
	form Form
}{
	{"as servers keep it", Form{XorbChunks: 5}},
	{"as it is uploaded", Form{XorbChunks: 5, NoFooter: true, Upload: true}},
	{"old footers", Form{XorbChunks: 5, Footer: xorb.FooterV0}},
	{"nothing but terms", Form{XorbChunks: 5, NoFooter: true, NoCASInfo: true, NoVerify: true, NoSHA256: true}},
	{"keyed", Form{XorbChunks: 5, NoFooter: true, Key: [32]byte{1}}},
	{"all schemes", Form{XorbChunks: 7, Schemes: []xorb.Scheme{xorb.None, xorb.LZ4, xorb.ByteGrouping4LZ4}}},
}

// TestSource runs every promise of origin.Source against the Sources that open makes
// of stores, which origintest has filled.
func TestSource(t *testing.T, open func(t *testing.T, s origin.Store) origin.Source) {
	for _, tt := range forms {
		t.Run(tt.name, func(t *testing.T) {
			b := NewBuilder(t, tt.form)
			b.Add(Text(1, 20_000), 1000)
			b.Add(slices.Concat(Text(1, 4000), Floats(2, 9000)), 1000)
			b.Add([]byte{7}, 1)
			b.Add(bytes.Repeat([]byte{5}, 3000), 1000) // one chunk three times
			s := b.Store()
			p := promises{b: b, src: open(t, s)}
			for _, promise := range []struct {
				name string
				keep func(*testing.T)
			}{
				{"FileInfo", p.fileInfo},
				{"Narrow", p.narrow},
				{"Narrow refuses", p.narrowRefuses},
				{"Chunks", p.chunks},
				{"Chunks refuses", p.chunksRefuses},
				{"what is offered beside", p.beside},
				{"concurrent", p.concurrent},
				{"cancelled", func(t *testing.T) { p.cancelled(t, open(t, s)) }},
			} {
				t.Run(promise.name, promise.keep)
			}
		})
	}
}

// promises are those of a Source over what b has made.
type promises struct {
	b   *Builder
	src origin.Source
}

func (p promises) fileInfo(t *testing.T) {
	for _, f := range p.b.Files {
		for name, id := range map[string]codec.FileID{
			"by its hash":     f.ID(),
			"with its shard":  {File: f.Info.File, Shard: merkle.Chunk(p.b.Shard())},
			"the same, again": f.ID(),
		} {
			fi, err := p.src.FileInfo(t.Context(), id)
			if err != nil {
				t.Errorf("FileInfo %s: %v", name, err)
				continue
			}
			if fi.File != f.Info.File || !slices.Equal(fi.Terms, f.Info.Terms) {
				t.Errorf("FileInfo %s = %s, %v, want %s, %v", name, fi.File, fi.Terms, f.Info.File, f.Info.Terms)
			}
		}
	}
	if fi, err := p.src.FileInfo(t.Context(), codec.FileID{}); err != nil || fi.Size() != 0 || len(fi.Terms) != 0 {
		t.Errorf("FileInfo of the empty file = %v, %v", fi, err)
	}
	if _, err := p.src.FileInfo(t.Context(), codec.FileID{File: codec.Hash{1}}); !errors.Is(err, origin.ErrNotFound) {
		t.Errorf("FileInfo of no file = %v, want %v", err, origin.ErrNotFound)
	}
}

// narrow asks for pieces of all lengths at the ends of chunks, and for random ones.
func (p promises) narrow(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for _, f := range p.b.Files {
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
				p.checkNarrow(t, f, piece)
			}
		}
	}
}

// checkNarrow checks that the chunks of Narrow hold the piece, after what is to be
// skipped in them.
func (p promises) checkNarrow(t *testing.T, f *File, piece codec.Piece) {
	t.Helper()
	term := f.Info.Terms[piece.Term]
	r, skip, err := p.src.Narrow(t.Context(), f.ID(), term, piece)
	if err != nil {
		t.Errorf("Narrow(%v, %+v): %v", term, piece, err)
		return
	}
	if !term.Chunks.Contains(r) || r.Len() < 1 || skip < 0 {
		t.Errorf("Narrow(%v, %+v) = %v, %d: not in the term", term, piece, r, skip)
		return
	}
	plain := f.Terms[piece.Term].X.Plain(r)
	want := f.Terms[piece.Term].X.Plain(term.Chunks)[piece.Skip:][:piece.Size]
	if skip+piece.Size > int64(len(plain)) || !bytes.Equal(plain[skip:][:piece.Size], want) {
		t.Errorf("Narrow(%v, %+v) = %v, %d: other bytes", term, piece, r, skip)
	}
}

func (p promises) narrowRefuses(t *testing.T) {
	f := p.b.Files[0]
	good := f.Info.Terms[0]
	tests := []struct {
		name string
		term codec.Term
		err  error // nil: any
	}{
		{"no such xorb", codec.Term{Xorb: codec.Hash{9}, Chunks: codec.ChunkRange{End: 1}, Size: 1}, origin.ErrNotFound},
		{"more chunks than there are", codec.Term{Xorb: good.Xorb, Chunks: codec.ChunkRange{End: 6}, Size: good.Size}, codec.ErrCorrupt},
		{"chunks far behind the end", codec.Term{Xorb: good.Xorb, Chunks: codec.ChunkRange{Start: 1 << 31, End: 1<<31 + 1}, Size: 1}, codec.ErrCorrupt},
		{"no chunks", codec.Term{Xorb: good.Xorb, Chunks: codec.ChunkRange{Start: 1, End: 1}}, codec.ErrCorrupt},
		{"backwards", codec.Term{Xorb: good.Xorb, Chunks: codec.ChunkRange{Start: 2, End: 1}, Size: 1}, codec.ErrCorrupt},
		{"another size", codec.Term{Xorb: good.Xorb, Chunks: good.Chunks, Size: good.Size - 1}, codec.ErrCorrupt},
	}
	if len(f.Terms[0].X.Chunks) > 5 {
		tests[1].term.Chunks.End = uint32(len(f.Terms[0].X.Chunks) + 1)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, skip, err := p.src.Narrow(t.Context(), f.ID(), tt.term, codec.Piece{Size: 1})
			if err == nil || (tt.err != nil && !errors.Is(err, tt.err)) {
				t.Errorf("Narrow = %v, %d, %v, want %v", r, skip, err, tt.err)
			}
		})
	}
}

func (p promises) chunks(t *testing.T) {
	for _, x := range p.b.Xorbs {
		for start := range uint32(len(x.Chunks)) {
			for end := start + 1; end <= uint32(len(x.Chunks)); end++ {
				r := codec.ChunkRange{Start: start, End: end}
				run, err := p.src.Chunks(t.Context(), x.Hash(), r)
				if err != nil {
					t.Errorf("Chunks(%v): %v", r, err)
					continue
				}
				checkRun(t, x, r, run)
			}
		}
	}
}

// checkRun unpacks a run and compares it with what was stored.
func checkRun(t *testing.T, x *Xorb, r codec.ChunkRange, run *xorb.Run) {
	t.Helper()
	if run.Chunks != r {
		t.Errorf("Chunks(%v) gives %v", r, run.Chunks)
		return
	}
	if run.Hashes != nil && !slices.Equal(run.Hashes, x.Info.Chunks[r.Start:r.End]) {
		t.Errorf("Chunks(%v): hashes of other chunks", r)
	}
	for i := r.Start; i < r.End; i++ {
		got := make([]byte, run.Size(i))
		if err := run.Unpack(i, got); err != nil || !bytes.Equal(got, x.Chunks[i]) {
			t.Errorf("Chunks(%v): chunk %d has other bytes, %v", r, i, err)
		}
	}
}

func (p promises) chunksRefuses(t *testing.T) {
	x := p.b.Xorbs[0]
	n := uint32(len(x.Chunks))
	for name, r := range map[string]codec.ChunkRange{
		"none": {Start: 1, End: 1}, "backwards": {Start: 2, End: 1}, "one too many": {End: n + 1},
		"behind the end": {Start: n, End: n + 1}, "huge": {Start: 1<<32 - 2, End: 1<<32 - 1},
	} {
		if run, err := p.src.Chunks(t.Context(), x.Hash(), r); err == nil {
			t.Errorf("%s: Chunks(%v) = %v, want an error", name, r, run)
		}
	}
	_, err := p.src.Chunks(t.Context(), codec.Hash{9}, codec.ChunkRange{End: 1})
	if !errors.Is(err, origin.ErrNotFound) {
		t.Errorf("Chunks of no xorb = %v, want %v", err, origin.ErrNotFound)
	}
}

// prompts holds a Source to what it says of what is in memory.
func (p promises) prompts(t *testing.T, now origin.Prompt, x *Xorb, r codec.ChunkRange) {
	buffer := func(size int) []byte { return make([]byte, size) }
	if run, ok := now.ChunksNow(x.Hash(), r, buffer); ok {
		checkRun(t, x, r, run)
	}
	for _, r := range []codec.ChunkRange{{Start: 1, End: 1}, {Start: 2, End: 1}, {End: r.End + 1}, {Start: 1<<32 - 2, End: 1<<32 - 1}} {
		if run, ok := now.ChunksNow(x.Hash(), r, buffer); ok {
			t.Errorf("ChunksNow(%v) = %v", r, run)
		}
	}
	if run, ok := now.ChunksNow(codec.Hash{9}, codec.ChunkRange{End: 1}, buffer); ok {
		t.Errorf("ChunksNow of no xorb = %v", run)
	}
}

// describes checks that FileInfos says what FileInfo says, once for each.
func (p promises) describes(t *testing.T, d origin.Describing) {
	ids := []codec.FileID{{}, {File: codec.Hash{1}}, {File: codec.Hash{1}, Shard: merkle.Chunk(p.b.Shard())}}
	for _, f := range p.b.Files {
		ids = append(ids, f.ID(), codec.FileID{File: f.Info.File, Shard: merkle.Chunk(p.b.Shard())})
	}
	var mu sync.Mutex
	told := map[int]int{}
	d.FileInfos(t.Context(), ids, func(i int, fi *shard.FileInfo, err error) {
		want, wantErr := p.src.FileInfo(t.Context(), ids[i])
		if (err == nil) != (wantErr == nil) || errors.Is(err, origin.ErrNotFound) != errors.Is(wantErr, origin.ErrNotFound) {
			t.Errorf("FileInfos of %v: %v, FileInfo: %v", ids[i], err, wantErr)
		}
		if err == nil && wantErr == nil && !reflect.DeepEqual(fi, want) {
			t.Errorf("FileInfos of %v = %v, FileInfo = %v", ids[i], fi, want)
		}
		mu.Lock()
		defer mu.Unlock()
		told[i]++
	})
	for i := range ids {
		if told[i] != 1 {
			t.Errorf("FileInfos told %d times of file %d of %d", told[i], i, len(ids))
		}
	}
}

// beside holds a Source to what it offers beyond Source.
func (p promises) beside(t *testing.T) {
	x := p.b.Xorbs[0]
	r := codec.ChunkRange{Start: 1, End: uint32(len(x.Chunks))}
	if b, ok := p.src.(origin.Borrowing); ok {
		var lent []byte
		came := r.Start
		run, err := b.ChunksIn(t.Context(), x.Hash(), r, origin.Into{
			Buffer: func(size int) []byte { lent = make([]byte, size); return lent },
			Came: func(run *xorb.Run) {
				if run.Chunks.Start != r.Start || run.Chunks.End <= came || run.Chunks.End >= r.End {
					t.Errorf("after chunk %d came %v of %v", came, run.Chunks, r)
				}
				came = run.Chunks.End
				checkRun(t, x, run.Chunks, run)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		checkRun(t, x, r, run)
		if lent != nil && &run.Packed[0] != &lent[0] {
			t.Error("ChunksIn took a buffer and gave a run in another one")
		}
	}
	if now, ok := p.src.(origin.Prompt); ok {
		p.prompts(t, now, x, r)
	}
	if d, ok := p.src.(origin.Describing); ok {
		p.describes(t, d)
	}
	if h, ok := p.src.(origin.Hashing); ok {
		known, err := h.Hashed(t.Context(), x.Hash())
		run, _ := p.src.Chunks(t.Context(), x.Hash(), r)
		if err != nil || known && run.Hashes == nil {
			t.Errorf("Hashed = %v, %v, but the run has no hashes", known, err)
		}
	}
	if a, ok := p.src.(origin.Adopting); ok {
		p.adopts(t, a, x, r)
	}
	if o, ok := p.src.(origin.Forgetting); ok {
		o.Forget(p.b.Files[0].ID())
		p.fileInfo(t)
	}
	if j, ok := p.src.(origin.Rejecter); ok {
		if others := j.Reject(codec.Hash{9}); others != 0 {
			t.Errorf("Reject of no xorb = %d", others)
		}
		j.Reject(x.Hash())
		if run, err := p.src.Chunks(t.Context(), x.Hash(), r); err != nil {
			t.Errorf("Chunks after Reject of the only copy: %v", err)
		} else {
			checkRun(t, x, r, run)
		}
	}
}

// adopts gives a Source packed chunks that know nothing of themselves, and some that are
// of another xorb.
func (p promises) adopts(t *testing.T, a origin.Adopting, x *Xorb, r codec.ChunkRange) {
	run, err := p.src.Chunks(t.Context(), x.Hash(), r)
	if err != nil {
		t.Fatal(err)
	}
	bare, err := xorb.ParseRun(run.Packed, r, nil)
	if err != nil {
		t.Fatal(err)
	}
	adopted, err := a.Adopt(t.Context(), x.Hash(), bare)
	if err != nil {
		t.Fatal(err)
	}
	checkRun(t, x, r, adopted)
	if bare.Hashes != nil {
		t.Error("Adopt changes what it is given")
	}
	if run.Hashes == nil || adopted.Hashes == nil {
		return
	}
	for i, other := range p.b.Xorbs {
		if slices.Equal(other.Info.UnpackedEnd, x.Info.UnpackedEnd) {
			continue
		}
		if got, err := a.Adopt(t.Context(), other.Hash(), bare); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("Adopt of chunks %v of xorb 0 as of xorb %d = %v, %v, want %v", r, i, got, err, codec.ErrCorrupt)
		}
	}
}

func (p promises) concurrent(t *testing.T) {
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			p.fileInfo(t)
			p.chunks(t)
		})
	}
	readers.Wait()
}

// cancelled asks a Source that knows nothing yet, so that it cannot know the answer.
func (p promises) cancelled(t *testing.T, src origin.Source) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f, x := p.b.Files[0], p.b.Xorbs[0]
	for op, err := range map[string]error{
		"FileInfo": second(src.FileInfo(ctx, f.ID())),
		"Narrow":   third(src.Narrow(ctx, f.ID(), f.Info.Terms[0], codec.Piece{Size: 1})),
		"Chunks":   second(src.Chunks(ctx, x.Hash(), codec.ChunkRange{End: 1})),
	} {
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s = %v, want %v or nothing", op, err, context.Canceled)
		}
	}
	// It was only that one caller who gave up.
	if _, err := src.FileInfo(t.Context(), f.ID()); err != nil {
		t.Errorf("FileInfo afterwards: %v", err)
	}
	if _, err := src.Chunks(t.Context(), x.Hash(), codec.ChunkRange{End: 1}); err != nil {
		t.Errorf("Chunks afterwards: %v", err)
	}
}

func third[T, U any](_ T, _ U, err error) error { return err }

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
	name  string
	form  Form
	local bool
}{
	{"as servers keep it", Form{XorbChunks: 5}, false},
	{"a local store", Form{XorbChunks: 5}, true},
	{"as it is uploaded", Form{XorbChunks: 5, NoFooter: true, Upload: true}, false},
	{"old footers", Form{XorbChunks: 5, Footer: xorb.FooterV0}, false},
	{"nothing but terms", Form{XorbChunks: 5, NoFooter: true, NoCASInfo: true, NoVerify: true, NoSHA256: true}, false},
	{"keyed", Form{XorbChunks: 5, NoFooter: true, Key: [32]byte{1}}, false},
	{"all schemes", Form{XorbChunks: 7, Schemes: []xorb.Scheme{xorb.None, xorb.LZ4, xorb.ByteGrouping4LZ4}}, false},
}

// TestSource checks the contract of origin.Source with the Sources that open returns for
// stores of the suite.
func TestSource(t *testing.T, open func(t *testing.T, s origin.Store) origin.Source) {
	for _, tt := range forms {
		t.Run(tt.name, func(t *testing.T) {
			b := NewBuilder(t, tt.form)
			b.Add(Text(1, 20_000), 1000)
			b.Add(slices.Concat(Text(1, 4000), Floats(2, 9000)), 1000)
			b.Add([]byte{7}, 1)
			b.Add(bytes.Repeat([]byte{5}, 3000), 1000) // one chunk three times
			var s origin.Store = b.Store()
			if tt.local {
				s = InMemory(b.LocalStore())
			}
			p := promises{b: b, src: open(t, s)}
			for _, promise := range []struct {
				name string
				keep func(*testing.T)
			}{
				{"FileInfo", p.fileInfo},
				{"FileInfos", p.fileInfos},
				{"OpenFile", p.openFile},
				{"Narrow", p.narrow},
				{"Narrow refuses", p.narrowRefuses},
				{"Chunks", p.chunks},
				{"Chunks refuses", p.chunksRefuses},
				{"Chunks with options", p.readOptions},
				{"TryChunks", p.tryChunks},
				{"Annotate", p.annotate},
				{"Hashed", p.hashed},
				{"Forget", p.forget},
				{"Reject", p.reject},
				{"concurrent", p.concurrent},
				{"cancelled", func(t *testing.T) { p.cancelled(t, open(t, s)) }},
			} {
				t.Run(promise.name, promise.keep)
			}
		})
	}
	t.Run("FileInfo refuses", func(t *testing.T) { refusesUnproven(t, open) })
}

// refusesUnproven checks that a File Info block without proof is not returned.
func refusesUnproven(t *testing.T, open func(t *testing.T, s origin.Store) origin.Source) {
	b := NewBuilder(t, Form{XorbChunks: 5})
	f := b.Add(Text(1, 20_000), 1000)
	f.Info.File = codec.Hash{7}
	if fi, err := open(t, b.Store()).FileInfo(t.Context(), codec.FileID{File: codec.Hash{7}}); !errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("FileInfo with the terms of another file = %v, %v, want %v", fi, err, codec.ErrCorrupt)
	}
}

// promises are those of a Source over the store of b.
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
	plain := f.Terms[piece.Term].X.Unpacked(r)
	want := f.Terms[piece.Term].X.Unpacked(term.Chunks)[piece.Skip:][:piece.Size]
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
				run, err := p.src.Chunks(t.Context(), x.Hash(), r, origin.ReadOptions{})
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
		if run, err := p.src.Chunks(t.Context(), x.Hash(), r, origin.ReadOptions{}); err == nil {
			t.Errorf("%s: Chunks(%v) = %v, want an error", name, r, run)
		}
	}
	_, err := p.src.Chunks(t.Context(), codec.Hash{9}, codec.ChunkRange{End: 1}, origin.ReadOptions{})
	if !errors.Is(err, origin.ErrNotFound) {
		t.Errorf("Chunks of no xorb = %v, want %v", err, origin.ErrNotFound)
	}
}

// readOptions checks the memory of the caller, and the runs that arrive before the last one.
func (p promises) readOptions(t *testing.T) {
	x, r := p.someChunks()
	var lent []byte
	calls, end := 0, r.Start
	run, err := p.src.Chunks(t.Context(), x.Hash(), r, origin.ReadOptions{
		Buffer: func(n int) []byte { lent = make([]byte, n); calls++; return lent },
		OnPartial: func(run *xorb.Run) {
			if run.Chunks.Start != r.Start || run.Chunks.End <= end || run.Chunks.End >= r.End {
				t.Errorf("OnPartial(%v) after chunk %d of %v", run.Chunks, end, r)
			}
			end = run.Chunks.End
			checkRun(t, x, run.Chunks, run)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	checkRun(t, x, r, run)
	if calls > 1 || lent != nil && &run.Packed[0] != &lent[0] {
		t.Errorf("%d calls of Buffer, or a run in other memory", calls)
	}
}

// someChunks returns a xorb and all its chunks but the first.
func (p promises) someChunks() (*Xorb, codec.ChunkRange) {
	x := p.b.Xorbs[0]
	return x, codec.ChunkRange{Start: 1, End: uint32(len(x.Chunks))}
}

func (p promises) tryChunks(t *testing.T) {
	x, good := p.someChunks()
	for _, tt := range []struct {
		name string
		x    codec.Hash
		r    codec.ChunkRange
		fail bool
	}{
		{"some", x.Hash(), good, false},
		{"none", x.Hash(), codec.ChunkRange{Start: 1, End: 1}, true},
		{"backwards", x.Hash(), codec.ChunkRange{Start: 2, End: 1}, true},
		{"one too many", x.Hash(), codec.ChunkRange{End: good.End + 1}, true},
		{"huge", x.Hash(), codec.ChunkRange{Start: 1<<32 - 2, End: 1<<32 - 1}, true},
		{"no such xorb", codec.Hash{9}, codec.ChunkRange{End: 1}, true},
	} {
		var lent []byte
		calls := 0
		run, ok := p.src.TryChunks(tt.x, tt.r, func(n int) []byte { lent = make([]byte, n); calls++; return lent })
		if calls > 1 || ok && tt.fail {
			t.Errorf("%s: TryChunks = %v after %d calls of buffer", tt.name, ok, calls)
		}
		if !ok || tt.fail {
			continue
		}
		checkRun(t, x, tt.r, run)
		if lent != nil && &run.Packed[0] != &lent[0] {
			t.Errorf("%s: TryChunks returns a run in other memory", tt.name)
		}
	}
}

// fileInfos checks that FileInfos yields the result of FileInfo, once for each id.
func (p promises) fileInfos(t *testing.T) {
	ids := []codec.FileID{{}, {File: codec.Hash{1}}, {File: codec.Hash{1}, Shard: merkle.Chunk(p.b.Shard())}}
	for _, f := range p.b.Files {
		ids = append(ids, f.ID(), codec.FileID{File: f.Info.File, Shard: merkle.Chunk(p.b.Shard())})
	}
	var mu sync.Mutex
	yields := map[int]int{}
	p.src.FileInfos(t.Context(), ids, func(i int, fi *shard.FileInfo, err error) {
		want, wantErr := p.src.FileInfo(t.Context(), ids[i])
		if (err == nil) != (wantErr == nil) || errors.Is(err, origin.ErrNotFound) != errors.Is(wantErr, origin.ErrNotFound) {
			t.Errorf("FileInfos of %v: %v, FileInfo: %v", ids[i], err, wantErr)
		}
		if err == nil && wantErr == nil && !reflect.DeepEqual(fi, want) {
			t.Errorf("FileInfos of %v = %v, FileInfo = %v", ids[i], fi, want)
		}
		mu.Lock()
		defer mu.Unlock()
		yields[i]++
	})
	mu.Lock()
	defer mu.Unlock()
	for i := range ids {
		if yields[i] != 1 {
			t.Errorf("FileInfos yields file %d of %d %d times", i, len(ids), yields[i])
		}
	}
}

// openFile checks that OpenFile returns the terms of FileInfo, at once or in groups.
func (p promises) openFile(t *testing.T) {
	for _, f := range p.b.Files {
		fi, large, err := p.src.OpenFile(t.Context(), f.ID())
		if err != nil || (fi == nil) == (large == nil) {
			t.Errorf("OpenFile = %v, %v, %v, want one of both", fi, large, err)
			continue
		}
		var terms []codec.Term
		if fi != nil {
			terms = fi.Terms
		}
		for i := 0; large != nil && i < large.Index.Groups(); i++ {
			group, err := large.Group(t.Context(), i)
			if err != nil {
				t.Fatal(err)
			}
			terms = append(terms, group...)
		}
		if !slices.Equal(terms, f.Info.Terms) {
			t.Errorf("OpenFile: terms %v, want %v", terms, f.Info.Terms)
		}
	}
}

// hashed checks that the chunks of a xorb with known hashes have them.
func (p promises) hashed(t *testing.T) {
	x, r := p.someChunks()
	known, err := p.src.Hashed(t.Context(), x.Hash(), r)
	run, runErr := p.src.Chunks(t.Context(), x.Hash(), r, origin.ReadOptions{})
	if err != nil || runErr != nil || known && run.Hashes == nil {
		t.Errorf("Hashed = %v, %v; Chunks: %v, or a run without hashes", known, err, runErr)
	}
}

// forget checks that the store still answers for a file.
func (p promises) forget(t *testing.T) {
	p.src.Forget(p.b.Files[0].ID())
	p.src.Forget(codec.FileID{File: codec.Hash{1}})
	p.fileInfo(t)
}

func (p promises) reject(t *testing.T) {
	if others := p.src.Reject(codec.Hash{9}); others != 0 {
		t.Errorf("Reject of no xorb = %d", others)
	}
	x, r := p.someChunks()
	if others := p.src.Reject(x.Hash()); others != 0 {
		t.Errorf("Reject of the only replica = %d", others)
	}
	run, err := p.src.Chunks(t.Context(), x.Hash(), r, origin.ReadOptions{})
	if err != nil {
		t.Fatalf("Chunks after Reject of the only replica: %v", err)
	}
	checkRun(t, x, r, run)
}

// annotate gives a Source packed chunks without hashes, and chunks of another xorb.
func (p promises) annotate(t *testing.T) {
	x, r := p.someChunks()
	run, err := p.src.Chunks(t.Context(), x.Hash(), r, origin.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bare, err := xorb.ParseRun(run.Packed, r, nil)
	if err != nil {
		t.Fatal(err)
	}
	annotated, err := p.src.Annotate(t.Context(), x.Hash(), bare)
	if err != nil {
		t.Fatal(err)
	}
	checkRun(t, x, r, annotated)
	if bare.Hashes != nil {
		t.Error("Annotate changes the given run")
	}
	if !slices.Equal(annotated.Hashes, run.Hashes) {
		t.Error("Annotate returns other hashes than Chunks")
	}
	for i, other := range p.b.Xorbs {
		if slices.Equal(other.Info.UnpackedEnd, x.Info.UnpackedEnd) {
			continue
		}
		if got, err := p.src.Annotate(t.Context(), other.Hash(), bare); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("Annotate of chunks %v of xorb 0 as of xorb %d = %v, %v, want %v", r, i, got, err, codec.ErrCorrupt)
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
		"Chunks":   second(src.Chunks(ctx, x.Hash(), codec.ChunkRange{End: 1}, origin.ReadOptions{})),
	} {
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s = %v, want %v or nothing", op, err, context.Canceled)
		}
	}
	// Only that one caller gave up.
	if _, err := src.FileInfo(t.Context(), f.ID()); err != nil {
		t.Errorf("FileInfo afterwards: %v", err)
	}
	if _, err := src.Chunks(t.Context(), x.Hash(), codec.ChunkRange{End: 1}, origin.ReadOptions{}); err != nil {
		t.Errorf("Chunks afterwards: %v", err)
	}
}

func third[T, U any](_ T, _ U, err error) error { return err }

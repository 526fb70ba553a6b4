package reconstruct

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/wrap"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// Every file that another implementation wrote, by ReadAt and by Whole.
func TestVectors(t *testing.T) {
	folder := filepath.Join(codectest.Vectors(t), "core")
	var manifest struct {
		Files map[string]struct {
			Size   int64
			SHA256 string
		}
	}
	codectest.ReadJSON(t, &manifest, folder, "manifest.json")
	s, err := dir.OpenBare(t.Context(), folder)
	if err != nil {
		t.Fatal(err)
	}
	origintest.Close(t, s)
	r, done := newReader(t, objects.New(s, objects.Options{}), cache.Options{}, Options{})
	t.Cleanup(done)
	for text, want := range manifest.Files {
		h, err := codec.ParseHash(text)
		if err != nil {
			t.Fatal(err)
		}
		f, err := r.Open(t.Context(), codec.FileID{File: h})
		if err != nil || f.Size() != want.Size {
			t.Errorf("%s: %d bytes, %v, want %d", text, f.Size(), err, want.Size)
			continue
		}
		for way, content := range map[string]io.Reader{
			"ReadAt": io.NewSectionReader(at{t.Context(), f}, 0, f.Size()), "Whole": f.VerifyReader(t.Context(), nil),
		} {
			sum := sha256.New()
			if _, err := io.CopyBuffer(struct{ io.Writer }{sum}, struct{ io.Reader }{content}, make([]byte, 1<<20)); err != nil || hex.EncodeToString(sum.Sum(nil)) != want.SHA256 {
				t.Errorf("%s by %s: SHA-256 %x, %v, want %s", text, way, sum.Sum(nil), err, want.SHA256)
			}
		}
		if level := f.Verified(t.Context()); level != verifiedChunk {
			t.Errorf("%s is verified by %s", text, level)
		}
	}
}

// An at is a File as an io.ReaderAt.
type at struct {
	ctx context.Context
	f   readerAt
}

func (a at) ReadAt(p []byte, off int64) (int, error) { return a.f.ReadAt(a.ctx, p, off) }

// small is a file over three xorbs, with chunks that come twice.
func small(t testing.TB, form origintest.Form) (*origintest.Builder, *origintest.File) {
	b := origintest.NewBuilder(t, form)
	x := b.Xorb(origintest.Text(1, 5), origintest.Text(2, 1), origintest.Text(3, 3))
	y := b.Xorb(origintest.Text(4, 7))
	z := b.Xorb(origintest.Text(5, 2), origintest.Text(6, 6))
	return b, b.File(x.Term(0, 2), y.All(), x.Term(1, 3), z.Term(1, 2), z.All(), y.All())
}

func TestReadAtEveryRange(t *testing.T) {
	b, f := small(t, origintest.Form{})
	want := f.Bytes()
	for place, s := range map[string]origin.Store{"local": b.LocalStore(), "remote": b.Store()} {
		t.Run(place, func(t *testing.T) {
			file := open(t, s, f.ID())
			handle := file.Handle()
			defer handle.Close()
			if file.Size() != int64(len(want)) || file.ID() != f.ID() || !slices.Equal(allTerms(t, file), f.Info.Terms) {
				t.Errorf("the file is %v, %d bytes, terms %v", file.ID(), file.Size(), allTerms(t, file))
			}
			for off := range int64(len(want) + 3) {
				for n := range len(want) + 3 {
					for _, r := range []readerAt{file, handle} {
						if err := tryRead(t.Context(), r, want, off, n); err != nil {
							t.Fatalf("ReadAt(%d bytes at %d): %v", n, off, err)
						}
					}
				}
			}
		})
	}
}

func TestReadAtProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		form := origintest.Form{
			XorbChunks: rapid.IntRange(1, 20).Draw(rt, "chunks of a xorb"),
			NoFooter:   rapid.Bool().Draw(rt, "no footer"),
			Upload:     rapid.Bool().Draw(rt, "upload"),
			Schemes:    []xorb.Scheme{xorb.LZ4, xorb.None, xorb.ByteGrouping4LZ4},
		}
		b := origintest.NewBuilder(t, form)
		content := origintest.Text(rapid.Uint64().Draw(rt, "seed"), rapid.IntRange(1, 60_000).Draw(rt, "size"))
		sizes := rapid.SliceOfN(rapid.IntRange(1, 5000), 1, 30).Draw(rt, "cuts")
		sizes = append(sizes, 3000)
		content = append(content, content[:len(content)/2]...)
		f := b.Add(content, sizes...)
		s := b.Store()
		if rapid.Bool().Draw(rt, "local") {
			s = b.LocalStore()
		}
		r, done := newReader(t, objects.New(s, objects.Options{}), cache.Options{MemoryBytes: rapid.SampledFrom([]int64{-1, 10_000, 0}).Draw(rt, "memory")}, Options{})
		defer done()
		file, err := r.Open(t.Context(), f.ID())
		if err != nil {
			rt.Fatal(err)
		}
		h := file.Handle()
		defer h.Close()
		for range rapid.IntRange(1, 8).Draw(rt, "reads") {
			off := rapid.Int64Range(0, int64(len(content))).Draw(rt, "off")
			if err := tryRead(t.Context(), h, content, off, rapid.IntRange(0, len(content)).Draw(rt, "n")); err != nil {
				rt.Fatalf("read at %d: %v", off, err)
			}
		}
	})
}

func TestReadAtOddOffsets(t *testing.T) {
	b, f := small(t, origintest.Form{})
	file := open(t, b.LocalStore(), f.ID())
	p := make([]byte, 10)
	for _, off := range []int64{-1, math.MinInt64} {
		if n, err := file.ReadAt(t.Context(), p, off); n != 0 || err == nil || err == io.EOF {
			t.Errorf("ReadAt at %d = %d, %v", off, n, err)
		}
	}
	for _, off := range []int64{file.Size(), file.Size() + 1, math.MaxInt64 - 5, math.MaxInt64} {
		if n, err := file.ReadAt(t.Context(), p, off); n != 0 || err != io.EOF {
			t.Errorf("ReadAt at %d = %d, %v, want 0, io.EOF", off, n, err)
		}
		h := file.Handle()
		if n, err := h.ReadAt(t.Context(), p, off); n != 0 || err != io.EOF {
			t.Errorf("Handle.ReadAt at %d = %d, %v, want 0, io.EOF", off, n, err)
		}
		h.Close()
	}
}

func TestF45_Sizes(t *testing.T) {
	one := origintest.Random(1, 128<<10)
	tests := []struct {
		name    string
		content []byte
	}{
		{"empty", nil},
		{"1 byte", []byte{7}},
		{"8191 bytes", origintest.Text(1, 8191)},
		{"131072 bytes", origintest.Random(2, 131072)},
		{"131073 bytes", origintest.Random(3, 131073)},
		{"all zero", make([]byte, 1<<20+17)},
		{"one chunk repeated", bytes.Repeat(one, 9)},
	}
	for _, tt := range tests {
		for place, local := range map[string]bool{"local": true, "remote": false} {
			t.Run(tt.name+" "+place, func(t *testing.T) {
				b := origintest.NewBuilder(t, origintest.Form{})
				f := b.Add(tt.content, 128<<10)
				s := b.Store()
				if local {
					s = b.LocalStore()
				}
				file := open(t, s, f.ID())
				h := file.Handle()
				defer h.Close()
				for _, n := range []int{1, 4096, 131072, 131073, len(tt.content), len(tt.content) + 1} {
					for off := int64(0); off <= int64(len(tt.content)); off += int64(max(n, len(tt.content)/7, 1)) {
						if err := tryRead(t.Context(), h, tt.content, off, n); err != nil {
							t.Errorf("ReadAt(%d bytes at %d): %v", n, off, err)
						}
					}
				}
				if got, err := io.ReadAll(file.VerifyReader(t.Context(), nil)); err != nil || !bytes.Equal(got, tt.content) {
					t.Errorf("Whole: %d bytes, %v", len(got), err)
				}
			})
		}
	}
}

// A million terms of one chunk: 128 GiB made of 300 bytes.
func TestF44_ManyTerms(t *testing.T) {
	const size = codec.MaxChunkSize
	terms := 1_000_000
	if codectest.Race {
		terms /= 20
	}
	b := origintest.NewBuilder(t, origintest.Form{NoSHA256: true, NoVerify: true})
	x := b.Xorb(bytes.Repeat([]byte("xet!"), size/4))
	f := b.File(slices.Repeat([]origintest.Term{x.All()}, terms)...)
	s := b.LocalStore()
	b, f = nil, &origintest.File{Info: f.Info}
	id := f.ID()
	f = nil

	before := heap()
	file := open(t, s, id)
	if file.Size() != int64(terms)*size {
		t.Fatalf("the file has %d bytes", file.Size())
	}
	p := make([]byte, 1<<20)
	random := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		off := random.Int64N(file.Size() - int64(len(p)))
		if n, err := file.ReadAt(t.Context(), p, off); n != len(p) || err != nil {
			t.Fatalf("ReadAt(%d) = %d, %v", off, n, err)
		}
		for i := range p {
			if p[i] != "xet!"[(off+int64(i))%4] {
				t.Fatalf("byte %d is %q", off+int64(i), p[i])
			}
		}
	}
	if grown := heap() - before; grown > 80*int64(terms)+8<<20 {
		t.Errorf("the open file takes %d bytes, %d for each term", grown, grown/int64(terms))
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := file.VerifyReader(ctx, nil)
	if _, err := io.ReadFull(w, p); err != nil {
		t.Error(err)
	}
	cancel()
	if _, err := io.Copy(io.Discard, w); !errors.Is(err, context.Canceled) {
		t.Errorf("Whole after it was cancelled: %v", err)
	}
}

// Terms of one byte each: a read has as many pieces as bytes, and ends when it is canceled.
func TestF44_TinyTerms(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{NoSHA256: true, NoVerify: true})
	x := b.Xorb([]byte("a"), []byte("b"))
	f := b.File(slices.Repeat([]origintest.Term{x.Term(0, 1), x.Term(1, 2)}, 20_000)...)
	file := open(t, b.Store(), f.ID())
	h := file.Handle()
	defer h.Close()
	want := bytes.Repeat([]byte("ab"), 20_000)
	for off := int64(0); off < file.Size(); off += 20_000 {
		if err := tryRead(t.Context(), h, want, off, 20_000); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := file.ReadAt(ctx, make([]byte, 40_000), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("ReadAt = %v, want %v", err, context.Canceled)
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// An error names the term and the file, and wraps its cause.
func TestTermError(t *testing.T) {
	b, f := small(t, origintest.Form{})
	s := b.LocalStore()
	file := open(t, s, f.ID())
	lost := f.Terms[1].X
	if err := s.Delete(t.Context(), lost.Key()); err != nil {
		t.Fatal(err)
	}
	_, err := file.ReadAt(t.Context(), make([]byte, 12), 0) // terms 0 and 1
	var term *TermError
	if !errors.As(err, &term) || term.Term != 1 || term.Xorb != lost.Hash() || term.File != f.ID() || !errors.Is(err, origin.ErrNotFound) {
		t.Errorf("ReadAt = %#v", err)
	}
	if err != nil && !strings.HasPrefix(err.Error(), "term 1: xorb "+lost.Hash().String()) {
		t.Errorf("ReadAt = %v", err)
	}
}

// After a failed read the next open reads the metadata again.
func TestHeals(t *testing.T) {
	b, f := small(t, origintest.Form{})
	x := f.Terms[1].X
	s := b.LocalStore()
	spoilt := bytes.Clone(x.Bytes)
	spoilt[9] ^= 1
	if err := origintest.Replace(s, x.Key(), spoilt); err != nil {
		t.Fatal(err)
	}
	r, done := newReader(t, objects.New(s, objects.Options{}), cache.Options{}, Options{})
	defer done()
	want := f.Bytes()
	read := func() error {
		file, err := r.Open(t.Context(), f.ID())
		if err != nil {
			return err
		}
		return tryRead(t.Context(), file, want, 0, len(want))
	}
	for range 3 {
		if err := read(); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("ReadAt = %v, want %v", err, codec.ErrCorrupt)
		}
	}
	if err := origintest.Replace(s, x.Key(), x.Bytes); err != nil {
		t.Fatal(err)
	}
	if err := read(); err != nil {
		t.Errorf("ReadAt of the file that is good again: %v", err)
	}
}

// Opening again is free, for as many files as are kept.
func TestOpenKeepsFiles(t *testing.T) {
	b, f := small(t, origintest.Form{})
	var counts wrap.Counts
	r, done := newReader(t, wrap.Count(objects.New(b.Store(), objects.Options{}), &counts), cache.Options{}, Options{})
	defer done()
	var openers sync.WaitGroup
	for range 20 {
		openers.Go(func() {
			if _, err := r.Open(t.Context(), f.ID()); err != nil {
				t.Error(err)
			}
		})
	}
	openers.Wait()
	counts = wrap.Counts{}
	first, _ := r.Open(t.Context(), f.ID())
	second, err := r.Open(t.Context(), f.ID())
	if err != nil || first != second || counts.Requests != 0 {
		t.Errorf("Open again: another file: %v, %d requests, %v", first != second, counts.Requests, err)
	}
	if _, err := r.Open(t.Context(), codec.FileID{File: codec.Hash{1}}); !errors.Is(err, origin.ErrNotFound) {
		t.Errorf("Open of no file = %v, want %v", err, origin.ErrNotFound)
	}
}

func TestFilesAreBounded(t *testing.T) {
	var fs files
	fs.init()
	r, done := newReader(t, objects.New(origintest.Memory(), objects.Options{}), cache.Options{}, Options{})
	defer done()
	const maxFiles = maxSlots / fileSlots
	for i := range 2 * maxFiles {
		id := codec.FileID{File: codec.Hash{byte(i), byte(i >> 8)}}
		fs.add(id, newFile(r, id, fileInfoOf(10)))
	}
	if n := fs.byID.Len(); n != maxFiles || fs.byID.Cost() != maxSlots {
		t.Errorf("%d files of cost %d are stored", n, fs.byID.Cost())
	}
	for _, terms := range []int{maxSlots * shard.TermGroup, 1} {
		id := codec.FileID{File: codec.Hash{1, 1, 1}, Block: int64(terms)}
		fs.add(id, newLargeFile(r, id, &origin.LargeFile{Index: &shard.FileIndex{Terms: terms, Ends: []int64{1}}}))
	}
	if n := fs.byID.Len(); n != 1 || fs.byID.Cost() != fileSlots+1 {
		t.Errorf("after a large one %d files of cost %d are stored", n, fs.byID.Cost())
	}
}

// A reader that waits for a remote origin returns when it is canceled.
func TestReadIsCancelled(t *testing.T) {
	b, f := small(t, origintest.Form{})
	for _, rule := range []string{"fileinfo: hang", "narrow: hang", "chunks: hang", "chunks 2-: hang"} {
		t.Run(rule, func(t *testing.T) {
			r, done := newReader(t, origintest.Fail(objects.New(b.Store(), objects.Options{}), rule), cache.Options{}, Options{})
			defer done()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			file, err := r.Open(ctx, f.ID())
			if err == nil {
				h := file.Handle()
				defer h.Close()
				_, err = h.ReadAt(ctx, make([]byte, file.Size()), 0)
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error = %v, want %v", err, context.DeadlineExceeded)
			}
		})
	}
}

// A panic anywhere below is the error of one read.
func TestPanics(t *testing.T) {
	b, f := small(t, origintest.Form{})
	for _, rule := range []string{"narrow 1: panic", "chunks 1: panic"} {
		for _, n := range []int{3, 20} {
			r, done := newReader(t, origintest.Fail(objects.New(b.Store(), objects.Options{}), rule), cache.Options{}, Options{})
			file, err := r.Open(t.Context(), f.ID())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := file.ReadAt(t.Context(), make([]byte, n), 0); err == nil || !strings.Contains(err.Error(), "panic") {
				t.Errorf("%s: ReadAt = %v, want the panic as an error", rule, err)
			}
			if err := tryRead(t.Context(), file, f.Bytes(), 0, n); err != nil {
				t.Errorf("%s: ReadAt afterwards: %v", rule, err)
			}
			done()
		}
	}
}

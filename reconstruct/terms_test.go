package reconstruct

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
)

// allTerms returns the terms of a file.
func allTerms(t testing.TB, f *File) (all []codec.Term) {
	t.Helper()
	for terms, err := range f.TermGroups(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, terms...)
	}
	return all
}

// A groupedSource reads the terms of every file in groups, as a source does of a large file.
type groupedSource struct {
	origin.Source
	pause  time.Duration // of each read of a group
	groups atomic.Int64  // that were read
}

func (s *groupedSource) OpenFile(ctx context.Context, id codec.FileID) (*shard.FileInfo, *origin.LargeFile, error) {
	fi, err := s.FileInfo(ctx, id)
	if err != nil || len(fi.Terms) <= origin.MaxTerms {
		return fi, nil, err
	}
	x := &shard.FileIndex{File: fi.File, Terms: len(fi.Terms), SHA256: fi.SHA256}
	end := int64(0)
	for i, t := range fi.Terms {
		if end += int64(t.Size); (i+1)%shard.TermGroup == 0 || i+1 == len(fi.Terms) {
			x.Ends = append(x.Ends, end)
		}
	}
	return nil, &origin.LargeFile{Index: x, Group: func(ctx context.Context, i int) ([]codec.Term, error) {
		s.groups.Add(1)
		time.Sleep(s.pause)
		fi, err := s.FileInfo(ctx, id)
		if err != nil {
			return nil, err
		}
		return fi.Terms[i*shard.TermGroup : min((i+1)*shard.TermGroup, len(fi.Terms))], nil
	}}, nil
}

// manyTerms is a file of n terms, each one of a few small chunks.
func manyTerms(t testing.TB, b *origintest.Builder, seed uint64, n int) *origintest.File {
	t.Helper()
	var chunks [][]byte
	for i := range 64 {
		chunks = append(chunks, origintest.Text(seed<<8+uint64(i), 1+i%7))
	}
	x := b.Xorb(chunks...)
	rng := rand.New(rand.NewPCG(seed, 0))
	terms := make([]origintest.Term, n)
	for i := range terms {
		start := rng.IntN(len(chunks))
		terms[i] = x.Term(start, min(len(chunks), start+1+rng.IntN(2)))
	}
	return b.File(terms...)
}

// L17: the terms of files stay within their budget, also of open ones. Those that were
// evicted are read again.
func TestL17_TermsAreBounded(t *testing.T) {
	const budget = 200_000
	b := origintest.NewBuilder(t, origintest.Form{})
	var files []*origintest.File
	var contents [][]byte
	for i := range 10 {
		files = append(files, manyTerms(t, b, uint64(i), []int{1, 100, 700, 4000, 5000}[i%5]))
		contents = append(contents, files[i].Bytes())
	}
	for place, s := range map[string]origin.Store{"local": b.LocalStore(), "remote": b.Store()} {
		t.Run(place, func(t *testing.T) {
			src := &groupedSource{Source: objects.New(s, objects.Options{})}
			r, done := newReader(t, src, cache.Options{}, Options{Terms: budget})
			defer done()
			var open []*Handle
			for _, f := range files {
				file, err := r.Open(t.Context(), f.ID())
				if err != nil {
					t.Fatal(err)
				}
				h := file.Handle()
				defer h.Close()
				open = append(open, h)
			}
			var readers sync.WaitGroup
			for i := range 4 {
				readers.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(i), 1))
					for range 50 {
						n := rng.IntN(len(files))
						want := contents[n]
						if err := tryRead(t.Context(), open[n], want, rng.Int64N(int64(len(want))), rng.IntN(30_000)); err != nil {
							t.Errorf("file %d: %v", n, err)
							return
						}
					}
				})
			}
			readers.Wait()
			for i := range files {
				got, err := io.ReadAll(open[i].File().VerifyReader(t.Context(), nil))
				if err != nil || !bytes.Equal(got, contents[i]) {
					t.Errorf("file %d read whole: %d bytes, %v", i, len(got), err)
				}
				if level := open[i].File().Verified(t.Context()); level != verifiedChunk {
					t.Errorf("file %d is verified by %q", i, level)
				}
			}
			held, used := 0, int64(0)
			for _, h := range open {
				for i := range h.f.groups() {
					if g := h.f.slot(i).Load(); g != nil {
						held++
						used += g.bytes()
					}
				}
			}
			if used > budget || held == 0 {
				t.Errorf("%d groups of %d bytes are in memory, %d are allowed", held, used, budget)
			}
			if r.terms.bytes != used || src.groups.Load() == 0 {
				t.Errorf("%d bytes are counted, %d are in memory; %d groups were read", r.terms.bytes, used, src.groups.Load())
			}
		})
	}
}

// Readers that need an evicted group at the same time read it once.
func TestL17_OneReadOfGroup(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	f := manyTerms(t, b, 1, origin.MaxTerms+1)
	s := b.Store()
	synctest.Test(t, func(t *testing.T) {
		src := &groupedSource{Source: objects.New(s, objects.Options{}), pause: time.Second}
		r, done := newReader(t, src, cache.Options{}, Options{})
		defer done()
		defer r.Close()
		file, err := r.Open(t.Context(), f.ID())
		if err != nil {
			t.Fatal(err)
		}
		impatient, cancel := context.WithCancel(t.Context())
		var readers sync.WaitGroup
		for i := range 2 * maxLoads {
			readers.Go(func() {
				ctx := t.Context()
				if i == 0 {
					ctx = impatient
				}
				if err := tryRead(ctx, file, f.Bytes(), 0, 10); err != nil && ctx.Err() == nil {
					t.Errorf("reader %d: %v", i, err)
				}
			})
		}
		synctest.Wait()
		cancel()
		readers.Wait()
		if n := src.groups.Load(); n != 1 {
			t.Errorf("the group was read %d times", n)
		}
	})
}

// A file that is not there any more when its terms are read again is an error, and none of
// another file's bytes.
func TestL17_TermsChange(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	f, other := manyTerms(t, b, 1, 100), manyTerms(t, b, 2, 90)
	s := b.LocalStore()
	src := &exchangedSource{Source: objects.New(s, objects.Options{})}
	r, done := newReader(t, src, cache.Options{}, Options{})
	defer done()
	file, err := r.Open(t.Context(), f.ID())
	if err != nil {
		t.Fatal(err)
	}
	file.only.Store(nil)
	src.to.Store(&other.Info.File)
	if _, err := file.ReadAt(t.Context(), make([]byte, 10), 0); err == nil {
		t.Error("the terms of another file are read")
	}
	src.to.Store(nil)
	if err := tryRead(t.Context(), file, f.Bytes(), 0, 1000); err != nil {
		t.Errorf("when the cause is gone: %v", err)
	}
}

// An exchangedSource returns the File Info of another file.
type exchangedSource struct {
	origin.Source
	to atomic.Pointer[codec.Hash]
}

func (s *exchangedSource) OpenFile(ctx context.Context, id codec.FileID) (*shard.FileInfo, *origin.LargeFile, error) {
	if to := s.to.Load(); to != nil {
		id.File = *to
	}
	return s.Source.OpenFile(ctx, id)
}

// BenchmarkOpen opens files that were not opened before.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{1, 10, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			builder := origintest.NewBuilder(b, origintest.Form{})
			f := manyTerms(b, builder, 1, n)
			r, done := newReader(b, objects.New(builder.LocalStore(), objects.Options{}), cache.Options{}, Options{})
			defer done()
			b.ReportAllocs()
			for b.Loop() {
				file, err := r.Open(b.Context(), f.ID())
				if err != nil {
					b.Fatal(err)
				}
				r.open.drop(file)
			}
			runtime.KeepAlive(r)
		})
	}
}

// A largeFiles is a source without proofs that has a plan of any file: terms of 64 MiB.
type largeFiles struct {
	origin.Source
	terms int
}

func (s *largeFiles) OpenFile(_ context.Context, id codec.FileID) (*shard.FileInfo, *origin.LargeFile, error) {
	fi := &shard.FileInfo{File: id.File}
	for i := range s.terms {
		fi.Terms = append(fi.Terms, codec.Term{Xorb: codec.Hash{byte(i), byte(i >> 8)}, Chunks: codec.ChunkRange{End: 1024}, Size: 64 << 20})
	}
	return fi, nil, nil
}

// openLarge opens file i of a largeFiles.
func openLarge(t testing.TB, r *Reader, i int) *File {
	t.Helper()
	id := codec.FileID{}
	binary.LittleEndian.PutUint64(id.File[:], uint64(i)+1)
	f, err := r.Open(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// L17: files that are not in use, and not among the last ones, take no memory.
func TestL17_DroppedFilesTakeNoMemory(t *testing.T) {
	s, _ := large(t, 2)
	src := &largeFiles{origintest.NewPlan(objects.New(s, objects.Options{}), nil), 80}
	r, done := newReader(t, src, cache.Options{}, Options{})
	defer done()
	defer r.Close()
	var files []weak.Pointer[File]
	for i := range 500 {
		files = append(files, weak.Make(openLarge(t, r, i)))
	}
	r.open.drop(openLarge(t, r, 499)) // as after an error
	runtime.GC()
	n := 0
	for _, f := range files {
		if f.Value() != nil {
			n++
		}
	}
	if most := r.open.byID.Len(); n > most || most >= len(files) {
		t.Errorf("%d files are in memory, %d were opened last", n, most)
	}
	runtime.KeepAlive(r)
}

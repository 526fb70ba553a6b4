package reconstruct

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/xetfs/xetfs/cache"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
)

// F56: a File Info block in a cache is proven, but the store has other xorbs with the same
// chunks. A read requests the block from the store instead of failing.
func TestF56_AnotherFileInfo(t *testing.T) {
	content := origintest.Text(1, 400_000)
	layout := func(chunks int) (*origintest.Builder, *origintest.File) {
		b := origintest.NewBuilder(t, origintest.Form{XorbChunks: chunks})
		return b, b.Add(content, 10_000)
	}
	before, f := layout(3)
	after, _ := layout(7)
	keep := new(origintest.Backend)
	source := func(b *origintest.Builder) origin.Source {
		return objects.New(b.Store(), objects.Options{Backend: keep})
	}
	reads := map[string]func(ctx context.Context, f *File) ([]byte, error){
		"whole": func(ctx context.Context, f *File) ([]byte, error) { return io.ReadAll(f.VerifyReader(ctx, nil)) },
		"parts": func(ctx context.Context, f *File) ([]byte, error) {
			b := make([]byte, len(content))
			for off := 0; off < len(b); off += 50_000 {
				if _, err := f.ReadAt(ctx, b[off:off+50_000], int64(off)); err != nil && err != io.EOF {
					return nil, err
				}
			}
			return b, nil
		},
	}
	for name, read := range reads {
		t.Run(name, func(t *testing.T) {
			for _, b := range []*origintest.Builder{before, after, before} {
				r, done := newReader(t, source(b), cache.Options{}, Options{})
				file, err := r.Open(t.Context(), f.ID())
				if err != nil {
					t.Fatal(err)
				}
				if got, err := read(t.Context(), file); !bytes.Equal(got, content) || err != nil {
					t.Errorf("%d bytes, %v", len(got), err)
				}
				done()
			}
		})
	}
}

// A sequential read continues in the middle of a term of the other block.
func TestWholeMovesTo(t *testing.T) {
	content := origintest.Text(2, 400_000)
	for _, chunks := range []int{1, 3, 7, 40} {
		b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 5})
		f := b.Add(content, 10_000)
		other := origintest.NewBuilder(t, origintest.Form{XorbChunks: chunks})
		g := other.Add(content, 10_000)
		s := b.Store()
		other.Put(s)
		r, done := newReader(t, objects.New(s, objects.Options{}), cache.Options{}, Options{})
		w := newVerifyReader(t.Context(), newFile(r, f.ID(), f.Info), nil)
		var got []byte
		for i := 0; ; i++ {
			p, err := w.next()
			if got = append(got, p...); err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if i == 2 {
				w.moveTo(newFile(r, g.ID(), g.Info).only.Load())
			}
		}
		w.batches.close()
		if !bytes.Equal(got, content) {
			t.Errorf("xorbs of %d chunks: %d bytes, want %d", chunks, len(got), len(content))
		}
		done()
	}
}

package writer

import (
	"encoding/binary"
	"fmt"
	"iter"
	"testing"

	"github.com/xetfs/xetfs/cache/origin/dir"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
)

// bigTree yields a tree of n files, a thousand in each directory, in the order of keys.
// Files whose number is in changed have other content.
func bigTree(n int, changed map[int]bool) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		dirs := (n + 999) / 1000
		if !yield(page.Entry{Type: page.Dir, Mode: 0o755, ModTime: mtime}, nil) {
			return
		}
		for d := range dirs {
			if !yield(page.Entry{Path: fmt.Sprintf("d%06d", d), Type: page.Dir, Mode: 0o755, ModTime: mtime}, nil) {
				return
			}
		}
		for i := range n {
			e := page.Entry{Path: fmt.Sprintf("d%06d/file%03d", i/1000, i%1000), Mode: 0o644, ModTime: mtime, Size: int64(i + 1)}
			binary.LittleEndian.PutUint64(e.ID.File[:], uint64(i)*0x9e3779b97f4a7c15+1)
			if changed[i] {
				e.ID.File[31] = 1
			}
			e.ID.Shard, e.ID.Block = codec.Hash{1, byte(i / 100_000)}, 48*int64(1+i%1000)
			if !yield(e, nil) {
				return
			}
		}
	}
}

// BenchmarkReplace publishes a tree of 200,000 files to a folder. The cases are a new
// symbol, one changed file in a whole tree, and one changed file alone.
func BenchmarkReplace(b *testing.B) {
	const files = 200_000
	s, err := dir.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	p := newTestPublisher(b, s, Options{})
	publish := func(b *testing.B, symbol string, do func(*Session) error) {
		u, err := p.Begin(b.Context(), symbol, PublishOptions{})
		if err == nil {
			err = do(u)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	whole := func(changed map[int]bool) func(*Session) error {
		return func(u *Session) error {
			_, err := u.Replace(b.Context(), bigTree(files, changed))
			return err
		}
	}
	round := 0
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			s, err := dir.Open(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			p := newTestPublisher(b, s, Options{})
			b.StartTimer()
			u, err := p.Begin(b.Context(), "m", PublishOptions{})
			if err == nil {
				err = whole(nil)(u)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(files)*float64(b.N)/b.Elapsed().Seconds(), "files/s")
	})
	publish(b, "m", whole(nil))
	b.Run("same", func(b *testing.B) {
		for b.Loop() {
			round++
			publish(b, "m", whole(map[int]bool{round % files: true}))
		}
		b.ReportMetric(float64(files)*float64(b.N)/b.Elapsed().Seconds(), "files/s")
	})
	b.Run("update", func(b *testing.B) {
		for b.Loop() {
			round++
			publish(b, "m", func(u *Session) error {
				var changed page.Entry
				for e, err := range bigTree(1000, map[int]bool{round % 1000: true}) {
					if err == nil && e.ID.File[31] == 1 {
						changed = e
					}
				}
				_, err := u.Update(b.Context(), []page.Change{{New: &changed}})
				return err
			})
		}
	})
}

package fs

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/page"
	"github.com/xetfs/xetfs/fs/catalog"
)

// keptPages are pages in memory, as a cache that is large enough has them.
type keptPages struct {
	from page.Getter

	mu   sync.RWMutex
	kept map[page.Hash]*page.Page // guarded by mu
}

func (k *keptPages) Page(ctx context.Context, h page.Hash) (*page.Page, error) {
	k.mu.RLock()
	p := k.kept[h]
	k.mu.RUnlock()
	if p != nil {
		return p, nil
	}
	p, err := k.from.Page(ctx, h)
	if err == nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.kept[h] = p
	}
	return p, err
}

// manyEntries is a tree of dirs directories with files files each.
func manyEntries(dirs, files int) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		if !yield(page.Entry{Type: page.Dir, Mode: 0o755, ModTime: then}, nil) {
			return
		}
		for d := range dirs {
			if !yield(page.Entry{Path: fmt.Sprintf("dir-%04d", d), Type: page.Dir, Mode: 0o755, ModTime: then}, nil) {
				return
			}
		}
		for d := range dirs {
			for f := range files {
				e := page.Entry{Path: fmt.Sprintf("dir-%04d/file-number-%06d", d, f), Mode: 0o644, Size: int64(f + 1), ModTime: then.Add(time.Duration(d*f) * time.Second)}
				binary.LittleEndian.PutUint64(e.ID.File[:], uint64(d*files+f+1))
				e.ID.Shard, e.ID.Block = codec.Hash{1}, 48
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// BenchmarkWalk walks a tree of 200,000 files with common tools. Each run has a fresh mount, and
// all pages of the tree are in memory.
func BenchmarkWalk(b *testing.B) {
	const dirs, files = 200, 1000
	p := newPublisher(b, page.DefaultSizes())
	p.replace("m", manyEntries(dirs, files))
	pages := &keptPages{from: origin.Pages(p.store), kept: map[page.Hash]*page.Page{}}
	c, err := catalog.Open(b.Context(), p.store, pages)
	if err != nil {
		b.Fatal(err)
	}
	for _, command := range []string{
		"find . -name x", "find . -size +1M", "ls -lRU --color=never", "ls -fR", "du -s",
	} {
		b.Run(command, func(b *testing.B) {
			var cpu int64
			for b.Loop() {
				b.StopTimer()
				at := b.TempDir()
				s, err := mount(at, c, newFakeEngine(), Options{Symbol: "m"})
				if err != nil {
					b.Fatal(err)
				}
				used := cpuTime()
				b.StartTimer()
				cmd := exec.Command("sh", "-c", command+" > /dev/null")
				cmd.Dir = at
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v: %.1000s", err, out)
				}
				b.StopTimer()
				cpu += cpuTime() - used
				if err := s.Shutdown(0); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(b.N)*dirs*files/b.Elapsed().Seconds(), "names/s")
			b.ReportMetric(float64(b.N)*dirs*files*1e6/float64(cpu), "names/s-of-CPU")
		})
	}
}

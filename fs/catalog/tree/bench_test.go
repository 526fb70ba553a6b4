package tree

import (
	"context"
	"iter"
	"runtime"
	"testing"

	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/page"
)

// BenchmarkLookup finds entries of a tree of 1,000,000 files whose pages are in memory. One
// case reads all of them in order, as find does, and the other one in random order.
func BenchmarkLookup(b *testing.B) {
	s := newStore()
	entries := plain(1_000_000, 100)
	root := s.build(b, page.DefaultSizes(), entries)
	tree, err := Open(b.Context(), s.decoded(b), page.Root{Page: root.Page})
	if err != nil {
		b.Fatal(err)
	}
	for name, step := range map[string]int{"next": 1, "random": 790_927} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i = (i + step) % len(entries)
				if e, err := tree.Lookup(b.Context(), entries[i].Path); err != nil || e.Size != entries[i].Size {
					b.Fatal(e, err)
				}
			}
		})
	}
}

// BenchmarkList lists directories whose pages are in memory.
func BenchmarkList(b *testing.B) {
	for name, folder := range map[string]int{"100000": 100_000, "100": 100} {
		s := newStore()
		root := s.build(b, page.DefaultSizes(), plain(100_000, folder))
		tree, err := Open(b.Context(), s.decoded(b), page.Root{Page: root.Page})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				for _, err := range tree.List(b.Context(), "d00000", "") {
					if err != nil {
						b.Fatal(err)
					}
					n++
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/entry")
		})
	}
}

// BenchmarkListCold lists 100,000 entries from pages that have to be checked first.
func BenchmarkListCold(b *testing.B) {
	s := newStore()
	root := s.build(b, page.DefaultSizes(), plain(100_000, 100_000))
	tree := s.open(b, root.Page)
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for _, err := range tree.List(b.Context(), "d00000", "") {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 100_000 {
			b.Fatal(n)
		}
	}
}

// stream yields a tree of n files without holding it.
func stream(n, folder int) iter.Seq2[page.Entry, error] {
	return func(yield func(page.Entry, error) bool) {
		for _, e := range plain(0, 1) {
			if !yield(e, nil) {
				return
			}
		}
		for i := 0; i < n; i += folder {
			e := plainFile(i, folder)
			e.Path, _ = split(e.Path)
			if !yield(page.Entry{Path: e.Path, Type: page.Dir, ModTime: then}, nil) {
				return
			}
		}
		for i := range n {
			if !yield(plainFile(i, folder), nil) {
				return
			}
		}
	}
}

// BenchmarkBuild builds the tree of 10,000,000 files, 1,000,000 with -short, most of the
// time going into the making of their names.
func BenchmarkBuild(b *testing.B) {
	n := 10_000_000
	if testing.Short() {
		n /= 10
	}
	for b.Loop() {
		size, pages := 0, 0
		root, err := Build(b.Context(), page.DefaultSizes(), stream(n, 1000), func(_ page.Hash, p []byte) error {
			size += len(p)
			pages++
			return nil
		})
		if err != nil || root.Entries != int64(n+n/1000+1) {
			b.Fatal(root, err)
		}
		b.ReportMetric(float64(size)/float64(root.Entries), "B/entry")
		b.ReportMetric(float64(pages), "pages")
	}
}

// BenchmarkUpdate changes one file of 1,000,000.
func BenchmarkUpdate(b *testing.B) {
	s := newStore()
	root := s.build(b, page.DefaultSizes(), plain(1_000_000, 1000))
	pages := s.decoded(b)
	puts := 0
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i = (i + 790_927) % 1_000_000
		e := plainFile(i, 1000)
		e.Mode = 0o600
		_, err := Update(b.Context(), pages, page.DefaultSizes(), root.Page, good([]page.Change{{New: &e}}), func(page.Hash, []byte) error {
			puts++
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(puts)/float64(b.N), "pages/op")
}

// A lookup allocates what the entry holds and no more.
func TestLookupAllocates(t *testing.T) {
	if codectest.Race {
		t.Skip("the race detector allocates")
	}
	s := newStore()
	root := s.build(t, middle, plain(20_000, 1000))
	tree, err := Open(t.Context(), s.decoded(t), page.Root{Page: root.Page})
	if err != nil {
		t.Fatal(err)
	}
	path := plainFile(12_345, 1000).Path
	if n := testing.AllocsPerRun(100, func() { _, _ = tree.Lookup(t.Context(), path) }); n > 1 {
		t.Errorf("%v allocations of a lookup, its path is one", n)
	}
	list := func() {
		for _, err := range tree.List(t.Context(), "d00007", "") {
			if err != nil {
				t.Error(err)
			}
		}
	}
	if n := testing.AllocsPerRun(10, list); n > 1100 {
		t.Errorf("%v allocations of a listing of 1000 names", n)
	}
}

// The memory of an update does not grow with the tree or with the changes.
func TestUpdateMemory(t *testing.T) {
	if testing.Short() || codectest.Race {
		t.Skip("long")
	}
	s := newStore()
	root := s.build(t, middle, plain(100_000, 1000))
	most := uint64(0)
	base := heap()
	changes := func(yield func(page.Change, error) bool) {
		i := 0
		for e, err := range stream(100_000, 1000) {
			if e.Mode = 0o600; i%20_000 == 0 {
				most = max(most, heap())
			}
			if i++; !yield(page.Change{New: &e}, err) {
				return
			}
		}
	}
	_, err := Update(context.Background(), s, middle, root.Page, changes, func(page.Hash, []byte) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if grown := int64(most) - int64(base); grown > 3<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

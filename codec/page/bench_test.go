package page

import (
	"testing"
)

// BenchmarkBuild builds a tree of 1,000,000 files from sorted entries.
func BenchmarkBuild(b *testing.B) {
	entries := plainTree(1_000_000)
	var pages, size int
	var root Link
	b.ReportAllocs()
	for b.Loop() {
		pages, size = 0, 0
		builder := NewBuilder(DefaultSizes(), func(_ Hash, page []byte) error {
			pages++
			size += len(page)
			return nil
		})
		for i := range entries {
			if err := builder.Add(entries[i]); err != nil {
				b.Fatal(err)
			}
		}
		var err error
		if root, err = builder.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(root.Entries), "ns/entry")
	b.ReportMetric(float64(size)/float64(root.Entries), "B-stored/entry")
	b.ReportMetric(float64(size)/float64(pages), "B/page")
}

// BenchmarkLookup finds an entry through all levels of a tree of 1,000,000 files whose
// pages are decoded already.
func BenchmarkLookup(b *testing.B) {
	s := newStore()
	entries := plainTree(1_000_000)
	root := s.build(b, DefaultSizes(), entries)
	cached := map[Hash]*Page{}
	for h, page := range s.pages {
		p, err := Decode(page)
		if err != nil {
			b.Fatal(err)
		}
		cached[h] = p
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i = (i + 7919) % len(entries)
		key := Key(entries[i].Path)
		p := cached[root.Page]
		for p.Level() > 0 {
			l, _ := p.Link(p.Seek(key))
			p = cached[l.Page]
		}
		row, ok := p.Find(key)
		if e, err := p.Entry(row); !ok || err != nil || e.Size != entries[i].Size {
			b.Fatal(key, e, err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	s := newStore()
	s.build(b, DefaultSizes(), plainTree(4000))
	for _, page := range s.pages {
		if page[8] > 0 || len(page) < 64<<10 {
			continue
		}
		b.Run("check", func(b *testing.B) {
			b.SetBytes(int64(len(page)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decode(page); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("hash", func(b *testing.B) {
			b.SetBytes(int64(len(page)))
			for b.Loop() {
				Sum(page)
			}
		})
		return
	}
}

// BenchmarkList lists 100,000 entries from pages that are decoded already.
func BenchmarkList(b *testing.B) {
	s := newStore()
	s.build(b, DefaultSizes(), plainTree(100_000))
	var leaves []*Page
	for _, page := range s.pages {
		if p, err := Decode(page); err != nil {
			b.Fatal(err)
		} else if p.Level() == 0 {
			leaves = append(leaves, p)
		}
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n = 0
		for _, p := range leaves {
			for range p.EntriesFrom(0) {
				n++
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/entry")
}

// BenchmarkDiff compares trees of 1,000,000 files that differ in one.
func BenchmarkDiff(b *testing.B) {
	s := newStore()
	entries := plainTree(1_000_000)
	before := s.build(b, DefaultSizes(), entries)
	entries[500_000].Mode = 0o700
	after := s.build(b, DefaultSizes(), entries)
	s.reads = 0
	b.ReportAllocs()
	for b.Loop() {
		if got := s.diff(b, before.root(), after.root()); len(got) != 1 {
			b.Fatalf("%d changes", len(got))
		}
	}
	b.ReportMetric(float64(s.reads)/float64(b.N), "pages/op")
}

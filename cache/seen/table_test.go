package seen

import (
	"sync"
	"testing"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
)

func leaf(i int) merkle.Leaf {
	return merkle.Leaf{Hash: codec.Hash{1, byte(i), byte(i >> 8)}, Size: uint64(i)}
}

// A second hash of a chunk contradicts the first one, and both are forgotten.
func TestNote(t *testing.T) {
	tab, x := New(1<<20), codec.Hash{7}
	for step, tt := range []struct {
		do   func() bool
		ok   bool
		want merkle.Leaf
	}{
		{func() bool { return tab.Note(x, 100, leaf(1), false) }, true, leaf(1)},
		{func() bool { return tab.Note(x, 100, leaf(1), false) }, true, leaf(1)},
		{func() bool { return tab.Note(x, 100, leaf(2), false) }, false, merkle.Leaf{}},
		{func() bool { return tab.Note(x, 100, leaf(3), false) }, true, leaf(3)},
		{func() bool { tab.Set(x, 100, leaf(4)); return true }, true, leaf(4)},
		{func() bool { tab.Drop(x, codec.ChunkRange{Start: 90, End: 110}); return true }, true, merkle.Leaf{}},
		{func() bool { return tab.Note(x, 100, merkle.Leaf{Hash: leaf(5).Hash, Size: 9}, false) }, true, merkle.Leaf{Hash: leaf(5).Hash, Size: 9}},
		{func() bool { return tab.Note(x, 100, leaf(5), false) }, false, merkle.Leaf{}},
	} {
		if ok := tt.do(); ok != tt.ok || tab.Get(x, 100) != tt.want {
			t.Errorf("step %d: %v, %v, want %v, %v", step, ok, tab.Get(x, 100), tt.ok, tt.want)
		}
	}
	if got := tab.Get(x, 101); got != (merkle.Leaf{}) {
		t.Errorf("another chunk has %v", got)
	}
}

// A tentative hash gives way to any other. It contradicts one that is not, which stays if both are the same.
func TestNoteTentative(t *testing.T) {
	none := merkle.Leaf{}
	for _, tt := range []struct {
		name             string
		notes            func(tab *Table, x codec.Hash) bool
		ok               bool
		want, wantHidden merkle.Leaf // of Get and GetTentative
	}{
		{"alone", func(tab *Table, x codec.Hash) bool { return tab.Note(x, 70, leaf(1), true) }, true, none, leaf(1)},
		{"twice", func(tab *Table, x codec.Hash) bool {
			return tab.Note(x, 70, leaf(1), true) && tab.Note(x, 70, leaf(2), true)
		}, true, none, leaf(2)},
		{"first", func(tab *Table, x codec.Hash) bool {
			return tab.Note(x, 70, leaf(1), true) && tab.Note(x, 70, leaf(2), false)
		}, true, leaf(2), leaf(2)},
		{"last, the same", func(tab *Table, x codec.Hash) bool {
			return tab.Note(x, 70, leaf(1), false) && tab.Note(x, 70, leaf(1), true)
		}, true, leaf(1), leaf(1)},
		{"last, another", func(tab *Table, x codec.Hash) bool {
			return tab.Note(x, 70, leaf(1), false) && tab.Note(x, 70, leaf(2), true)
		}, false, none, none},
		{"proven", func(tab *Table, x codec.Hash) bool {
			ok := tab.Note(x, 70, leaf(1), true)
			tab.Set(x, 70, leaf(1))
			return ok
		}, true, leaf(1), leaf(1)},
		{"dropped", func(tab *Table, x codec.Hash) bool {
			ok := tab.Note(x, 70, leaf(1), true)
			tab.Drop(x, codec.ChunkRange{Start: 70, End: 71})
			return ok
		}, true, none, none},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tab, x := New(1<<20), codec.Hash{7}
			tab.Note(x, 69, leaf(3), true)
			tab.Note(x, 71, leaf(4), false)
			if ok := tt.notes(tab, x); ok != tt.ok || tab.Get(x, 70) != tt.want || tab.GetTentative(x, 70) != tt.wantHidden {
				t.Errorf("%v, %v, %v", ok, tab.Get(x, 70), tab.GetTentative(x, 70))
			}
			if tab.Get(x, 69) != none || tab.GetTentative(x, 69) != leaf(3) || tab.Get(x, 71) != leaf(4) {
				t.Error("other chunks have changed")
			}
		})
	}
}

// The memory is bounded, and the oldest chunks go first.
func TestTableMemory(t *testing.T) {
	const each, last = 10 * blockBytes, 100*tableParts - 1
	tab := New(each * tableParts)
	xorb := func(i int) codec.Hash { return codec.Hash{byte(i), byte(i >> 8)} }
	for i := range last + 1 {
		tab.Note(xorb(i), uint32(i%99), leaf(i), false)
	}
	for i := range tab.parts {
		if n := tab.parts[i].blocks.Cost(); n > each || n < each/2 {
			t.Errorf("part %d: %d bytes", i, n)
		}
	}
	if tab.Get(xorb(last), last%99) != leaf(last) || tab.Get(xorb(0), 0) != (merkle.Leaf{}) {
		t.Error("the oldest chunk is known, or the newest one is not")
	}
}

func TestTableConcurrent(t *testing.T) {
	tab := New(20 * blockBytes)
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() {
			for i := range 2000 {
				x := codec.Hash{byte(i % 40)}
				tab.Note(x, uint32(i), leaf(i), i%2 == 0)
				tab.Get(x, uint32(i))
				tab.Drop(x, codec.ChunkRange{Start: uint32(i), End: uint32(i) + 70})
			}
		})
	}
	users.Wait()
}

// A chunk that was dropped after a request is found, also after many other drops.
func TestDrops(t *testing.T) {
	d, x := new(Drops), codec.Hash{1}
	before := d.Count()
	d.Add(x, codec.ChunkRange{Start: 10, End: 20})
	after := d.Count()
	for _, tt := range []struct {
		n    int64
		x    codec.Hash
		r    codec.ChunkRange
		want bool
	}{
		{before, x, codec.ChunkRange{Start: 19, End: 30}, true}, {before, x, codec.ChunkRange{Start: 20, End: 30}, false},
		{before, x, codec.ChunkRange{Start: 5, End: 10}, false}, {before, codec.Hash{2}, codec.ChunkRange{Start: 10, End: 20}, false},
		{after, x, codec.ChunkRange{Start: 10, End: 20}, false},
	} {
		if got := d.Since(tt.n, tt.x, tt.r); got != tt.want {
			t.Errorf("Since(%d, %v) = %v", tt.n, tt.r, got)
		}
	}
	for range maxDrops {
		d.Add(codec.Hash{3}, codec.ChunkRange{End: 1})
	}
	if !d.Since(before, codec.Hash{4}, codec.ChunkRange{End: 1}) {
		t.Error("a lost drop is not counted")
	}
	if (*Drops)(nil).Count() != 0 {
		t.Error("no Drops has drops")
	}
}

// A Table of 1 MiB remembers 16,000 chunks in order, and 2,000 that are far apart.
func TestCapacity(t *testing.T) {
	for _, tt := range []struct{ step, chunks int }{{1, 16_000}, {64, 2_000}} {
		table := New(1 << 20)
		chunk := func(i int) (codec.Hash, uint32) {
			at := i * tt.step
			return codec.Hash{byte(at >> 13), byte(at >> 21)}, uint32(at % codec.MaxXorbChunks)
		}
		for i := range tt.chunks {
			x, c := chunk(i)
			table.Note(x, c, merkle.Leaf{Hash: codec.Hash{1}, Size: 1}, false)
		}
		known := 0
		for i := range tt.chunks {
			if x, c := chunk(i); table.Get(x, c).Hash == (codec.Hash{1}) {
				known++
			}
		}
		if known < tt.chunks*9/10 { // its parts are not equally full
			t.Errorf("step %d: %d of %d chunks are known", tt.step, known, tt.chunks)
		}
	}
}

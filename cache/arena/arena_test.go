package arena

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/xetfs/xetfs/codec"
)

// arenaOf returns an arena that has made ready all it may have.
func arenaOf(t *testing.T, maxBytes int64) *Arena {
	t.Helper()
	a := New(maxBytes)
	for {
		a.mu.Lock()
		a.growLocked()
		grows := a.growsLocked()
		a.mu.Unlock()
		a.Close()
		if !grows {
			return a
		}
	}
}

// Whatever comes and goes, no two chunks share a byte, and in the end all is free.
func TestArenaPlaces(t *testing.T) {
	for _, size := range []int64{0, 1, unit, 100_000, 1 << 20, 3<<20 + 5, 40 << 20} {
		a := arenaOf(t, size)
		random := rand.New(rand.NewPCG(uint64(size), 1))
		var held []Bytes
		drop := func() {
			i := random.IntN(len(held))
			c := held[i]
			if want := bytes.Repeat(c.Data[:1], len(c.Data)); !bytes.Equal(c.Data, want) {
				t.Fatalf("arena of %d: a chunk of %d bytes was written to by another", size, len(c.Data))
			}
			a.Free(c)
			held[i] = held[len(held)-1]
			held = held[:len(held)-1]
		}
		var most int
		for i := range 3_000 {
			c := a.Bytes(1 + random.IntN(codec.MaxChunkSize))
			for j := range c.Data {
				c.Data[j] = byte(i)
			}
			held = append(held, c)
			for len(held) > 100+i%200 {
				drop()
			}
			if used := a.units - a.unused; used > most {
				most = used
			}
		}
		if int64(most)*unit > size {
			t.Errorf("arena of %d: %d bytes were used", size, most*unit)
		}
		for len(held) > 0 {
			drop()
		}
		wantFree(t, a)
	}
}

// A nearly full arena of chunks of all sizes, freed in any order, still has room for nearly all
// new chunks. Chunks without room are not retained.
func TestArenaFragments(t *testing.T) {
	const size = 64 << 20
	a := arenaOf(t, size)
	random := rand.New(rand.NewPCG(7, 7))
	var held []Bytes
	var kept int64
	requested, refused := 0, 0
	for range 50_000 {
		c := a.Bytes(8<<10 + random.IntN(120<<10))
		if requested++; !a.Stays(c) {
			refused++
			a.Free(c)
			continue
		}
		held, kept = append(held, c), kept+roomOf(c)
		for kept > size-size/10 { // as memory keeps no more
			i := random.IntN(len(held))
			kept -= roomOf(held[i])
			a.Free(held[i])
			held[i] = held[len(held)-1]
			held = held[:len(held)-1]
		}
	}
	t.Logf("%d of %d found no place", refused, requested)
	if refused > 0 {
		t.Errorf("%d of %d found no place", refused, requested)
	}
}

// An arena grows as it is used, and no more.
func TestArenaGrows(t *testing.T) {
	a := New(256 << 20)
	for range 100 {
		a.Free(a.Bytes(10_000))
		a.Close()
	}
	if ready := a.blocks[0].ready; len(a.blocks) != 1 || ready > 2*step {
		t.Errorf("%d blocks, %d units are ready, for one chunk at a time", len(a.blocks), ready)
	}
}

// wantFree fails the test if something was not freed, or twice.
func wantFree(t *testing.T, a *Arena) {
	t.Helper()
	if n := a.InUse(); n != 0 {
		t.Errorf("%d bytes are still in use", n)
	}
	for _, b := range a.blocks {
		if used := b.next(0, b.ready, true); used < b.ready {
			t.Errorf("unit %d of %d is still in use", used, b.ready)
		}
	}
}

// roomOf is what a cache reckons for a chunk.
func roomOf(b Bytes) int64 {
	const page = 8 << 10
	return int64((len(b.Data)+page-1)/page*page) + 512
}

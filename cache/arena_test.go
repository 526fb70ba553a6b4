package cache

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/xetfs/xetfs/codec"
)

// arenaOf returns an arena that has made ready all it may have.
func arenaOf(t *testing.T, maxBytes int64) *arena {
	t.Helper()
	a := new(arena)
	a.init(maxBytes)
	for {
		a.mu.Lock()
		a.growLocked()
		grows := a.growsLocked()
		a.mu.Unlock()
		a.close()
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
		var held []*chunk
		drop := func() {
			i := random.IntN(len(held))
			c := held[i]
			if want := bytes.Repeat(c.data[:1], len(c.data)); !bytes.Equal(c.data, want) {
				t.Fatalf("arena of %d: a chunk of %d bytes was written to by another", size, len(c.data))
			}
			c.release()
			held[i] = held[len(held)-1]
			held = held[:len(held)-1]
		}
		var most int
		for i := range 3_000 {
			c := a.chunk(chunkKey{}, 1+random.IntN(codec.MaxChunkSize))
			for j := range c.data {
				c.data[j] = byte(i)
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
		wantNoneUsed(t, a)
	}
}

// An arena that is nearly full, of chunks of all sizes that went in any order, still has
// room for nearly all: what has none is not kept.
func TestArenaFragments(t *testing.T) {
	const size = 64 << 20
	a := arenaOf(t, size)
	random := rand.New(rand.NewPCG(7, 7))
	var held []*chunk
	var kept int64
	asked, refused := 0, 0
	for range 50_000 {
		c := a.chunk(chunkKey{}, 8<<10+random.IntN(120<<10))
		if asked++; !c.stays() {
			refused++
			c.release()
			continue
		}
		held, kept = append(held, c), kept+roomOf(len(c.data))
		for kept > size-size/10 { // as memory keeps no more
			i := random.IntN(len(held))
			kept -= roomOf(len(held[i].data))
			held[i].release()
			held[i] = held[len(held)-1]
			held = held[:len(held)-1]
		}
	}
	t.Logf("%d of %d found no place", refused, asked)
	if refused > 0 {
		t.Errorf("%d of %d found no place", refused, asked)
	}
}

// Who retains a chunk has its bytes until it releases it; who comes later gets none.
func TestChunkUsers(t *testing.T) {
	a := arenaOf(t, 1<<20)
	c := a.copyOf(chunkKey{}, []byte("some bytes"))
	var users sync.WaitGroup
	for range 50 {
		if !c.retain() {
			t.Fatal("there is a user, and retain says no")
		}
		users.Go(func() {
			defer c.release()
			if string(c.data) != "some bytes" {
				t.Errorf("data = %q", c.data)
			}
		})
	}
	users.Wait()
	c.release()
	if c.retain() {
		t.Error("nobody has it, and retain says yes")
	}
	wantNoneUsed(t, a)
}

// An arena grows as it is used, and no more.
func TestArenaGrows(t *testing.T) {
	a := new(arena)
	a.init(256 << 20)
	for range 100 {
		a.chunk(chunkKey{}, 10_000).release()
		a.close()
	}
	if ready := a.blocks[0].ready; len(a.blocks) != 1 || ready > 2*step {
		t.Errorf("%d blocks, %d units are ready, for one chunk at a time", len(a.blocks), ready)
	}
}

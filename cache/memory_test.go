package cache

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
)

// settle returns when ristretto has all that was added.
func (m *memory) settle() {
	m.flush()
	m.cache.Wait()
}

// Two keys of one sum must not be taken for each other.
func TestMemoryComparesKeys(t *testing.T) {
	m, err := newMemory(1<<20, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	a := chunkKey{codec.Hash{1}, 0}
	b := chunkKey{codec.Hash{1, 0, 0, 0, 0, 0, 0, 0, 2}, 0} // differs behind the first word
	if a.sum() != b.sum() {
		t.Fatal("the keys have different sums")
	}
	wantKept(t, m, b, "")
	m.addCopy(a, codec.Hash{}, []byte("a"))
	m.settle()
	wantKept(t, m, b, "")
	wantKept(t, m, a, "a")
	m.addCopy(b, codec.Hash{}, []byte("b"))
	m.settle()
	wantKept(t, m, b, "b")
}

// wantKept fails the test if a chunk is not what is kept; "": nothing is.
func wantKept(t *testing.T, m *memory, key chunkKey, want string) {
	t.Helper()
	got := m.get(key)
	defer got.release()
	switch {
	case got == nil && want != "", got != nil && string(got.Data) != want:
		t.Errorf("get = %v, want %q", got, want)
	}
}

// The bytes that are counted are those that are kept, whatever happens to the entries.
func TestMemoryCounts(t *testing.T) {
	m, err := newMemory(4<<20, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(w), 1))
			for range 500 {
				c := newChunk(m.arena, chunkKey{index: uint32(random.IntN(500))}, random.IntN(100_000))
				m.add(c)
				c.release()
			}
		})
	}
	writers.Wait()
	m.settle()
	var kept int64
	m.cache.IterValues(func(c *chunk) bool { kept += roomOf(len(c.Data)); return false })
	if got := m.bytes.Load(); got != kept || got > 4<<20 {
		t.Errorf("%d bytes are counted, %d are kept, %d are allowed", got, kept, 4<<20)
	}
	if n := m.waiting.Load(); n != 0 {
		t.Errorf("%d bytes are waiting, and the queue is empty", n)
	}
}

// The chunk that was added last is found at once, before or after ristretto has it, and with
// little room.
func TestMemoryFindsOffers(t *testing.T) {
	for _, size := range []int64{1 << 20, 64 << 20} {
		m, err := newMemory(size, 0)
		if err != nil {
			t.Fatal(err)
		}
		const n = 3 * maxOffers
		for i := range n {
			key := chunkKey{index: uint32(i)}
			m.addCopy(key, codec.Hash{}, bytes.Repeat([]byte{byte(i)}, 10_000))
			c := m.get(key)
			if !m.has(key) && c != nil {
				t.Errorf("%d bytes: chunk %d is found and not there", size, i)
			}
			if full := i%maxOffers == maxOffers-1; c == nil && !full && size > 1<<20 {
				t.Errorf("%d bytes: chunk %d is not found", size, i)
			}
			c.release()
			if got := len(m.offers); got >= maxOffers {
				t.Fatalf("%d are offered", got)
			}
		}
		m.settle()
		found := 0
		for i := range n {
			c := m.get(chunkKey{index: uint32(i)})
			if c != nil {
				found++
			}
			c.release()
		}
		if found == 0 || found < n && size > 1<<20 {
			t.Errorf("%d bytes: %d of %d chunks are kept", size, found, n)
		}
		m.close()
		if got := m.arena.InUse(); got != 0 {
			t.Errorf("%d bytes: %d are in use at the end", size, got)
		}
	}
}

// The chunks in the queue of ristretto are bounded: the queue alone would hold gigabytes.
func TestMemoryQueueIsBounded(t *testing.T) {
	if n := int64(maxWaiting) / roomOf(1); n >= 32<<10 {
		t.Errorf("%d chunks of a byte may wait, ristretto's queue holds %d", n, 32<<10)
	}
	m, err := newMemory(1<<30, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	data := make([]byte, codec.MaxChunkSize)
	for i := range 10_000 {
		m.addCopy(chunkKey{index: uint32(i)}, codec.Hash{}, data)
		if n := m.waiting.Load(); n > maxWaiting {
			t.Fatalf("%d bytes wait, %d may", n, maxWaiting)
		}
	}
}

// The room of a chunk that memory does not take is available again.
func TestMemoryFreesRefused(t *testing.T) {
	const size = 64 << 10
	for _, isClosed := range []bool{false, true} { // the arena has no room, or ristretto is closed
		m, err := newMemory(1<<20, 0)
		if err != nil {
			t.Fatal(err)
		}
		key := chunkKey{index: 1}
		if isClosed {
			m.addCopy(key, codec.Hash{}, make([]byte, size))
			m.cache.Close()
			m.flush()
		} else {
			var all []*chunk
			for range 100 { // more than 1 MiB
				all = append(all, newChunk(m.arena, key, size))
				m.arena.Close() // it grows in the background
			}
			m.addCopy(key, codec.Hash{}, make([]byte, size))
			for _, c := range all {
				c.release()
			}
		}
		if n, used := m.waiting.Load(), m.arena.InUse(); n != 0 || used != 0 {
			t.Errorf("closed %t: %d bytes are waiting, %d in use, want none", isClosed, n, used)
		}
		m.close()
	}
}

// The memory of a cache stays within its options when many read a file that is many
// times larger.
func TestMemoryBound(t *testing.T) {
	const chunkSize, n = 64 << 10, 256
	b := origintest.NewBuilder(t, origintest.Form{NoFooter: false})
	var all [][]byte
	for i := range n {
		all = append(all, bytes.Repeat([]byte{byte(i), byte(i >> 8), 3, 4}, chunkSize/4))
	}
	x := xorbSource{Xorb: b.Xorb(all...)}
	const budget = 4 << 20
	for place, s := range map[string]origin.Store{"local": b.LocalStore(), "remote": b.Store()} {
		t.Run(place, func(t *testing.T) {
			c := open(t, objects.New(s, objects.Options{}), Options{MemoryBytes: budget, AheadBytes: budget})
			before := heap()
			var readers sync.WaitGroup
			for i := range 32 {
				readers.Go(func() {
					random := rand.New(rand.NewPCG(uint64(i), 1))
					p := make([]byte, 8<<10)
					for range 50 {
						at := random.IntN(n)
						if err := c.Read(t.Context(), x.Hash(), chunks(at, at+1), int64(random.IntN(chunkSize-len(p))), p); err != nil {
							t.Error(err)
						}
						if got := c.Stats().MemoryBytes; got > budget {
							t.Errorf("%d bytes are kept, %d may be", got, budget)
						}
					}
				})
			}
			readers.Wait()
			// Pools keep some, and there are the readers' own buffers.
			if grown := heap() - before; grown > budget+4<<20 {
				t.Errorf("the heap grew by %d bytes, the budget is %d", grown, budget)
			}
		})
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestBuffers(t *testing.T) {
	for _, n := range []int{0, 1, 64 << 10, 64<<10 + 1, 1 << 20, 8 << 20, 8<<20 + 1} {
		b := newBuffer(n)
		if len(b.b) != n {
			t.Errorf("newBuffer(%d) has %d bytes", n, len(b.b))
		}
		b.free()
		again := newBuffer(n)
		if len(again.b) != n || cap(again.b) < n {
			t.Errorf("the next one has %d bytes of %d", len(again.b), n)
		}
		again.free()
	}
	(*buffer)(nil).free()
}

// Readers of all cores look up chunks. A read of chunks in memory takes no lock of a Cache.
func TestRead_NoLockForMemory(t *testing.T) {
	x := folder(t, 2)
	c := open(t, x.src, Options{})
	p := make([]byte, 100<<10) // parts of three chunks
	read := func() {
		if err := c.Read(t.Context(), x.Hash(), chunks(3, 6), 50<<10, p); err != nil {
			t.Error(err)
		}
	}
	for i := range 3 { // into memory, which takes only chunks at the ends of a read
		c.Read(t.Context(), x.Hash(), chunks(3+i, 4+i), 1, p[:10])
	}
	c.memory.settle()
	unpacked := c.stats.unpacked.Load()
	for _, mu := range []*sync.Mutex{&c.memory.mu, &c.unpacking.mu, &c.fetches.mu, &c.budget.mu, &c.replicas.mu, &c.pages.mu} {
		mu.Lock()
		defer mu.Unlock()
	}
	done := make(chan struct{})
	go func() { defer close(done); read() }()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("a read of chunks in memory waits for a lock")
	}
	if n := c.stats.unpacked.Load(); n != unpacked {
		t.Errorf("the read has unpacked %d chunks", n-unpacked)
	}
}

// The ends of a long read stay in memory only if the packed chunks are not on this machine. The
// next read of a stream finds its first chunk in any case.
func TestMemoryOfLongReads(t *testing.T) {
	local, remote := store(t, true, same(20, 1000)...), store(t, false, same(20, 1000)...)
	short, long := chunks(0, shortRead), chunks(0, shortRead+1)
	for _, tt := range []struct {
		name  string
		x     xorbSource
		cache *Cache
		r     codec.ChunkRange
		want  bool
	}{
		{"a short read of a local origin", local, open(t, local.src, Options{}), short, true},
		{"a long read of a local origin", local, open(t, local.src, Options{}), long, false},
		{"a short read with a disk cache", remote, mountOn(t, t.TempDir(), remote.src, Options{}).Cache, short, true},
		{"a long read with a disk cache", remote, mountOn(t, t.TempDir(), remote.src, Options{}).Cache, long, false},
		{"a long read of a remote origin", remote, open(t, remote.src, Options{}), long, true},
	} {
		last := int(tt.r.End) - 1
		tt.x.read(t, tt.cache, tt.r, 500, last*1000)
		tt.cache.memory.settle()
		if got := tt.cache.memory.has(chunkKey{tt.x.Hash(), uint32(last)}); got != tt.want {
			t.Errorf("%s: its last chunk is in memory: %v, want %v", tt.name, got, tt.want)
		}
		before := tt.cache.stats.unpacked.Load()
		tt.x.read(t, tt.cache, chunks(last, last+1), 500, 500)
		if tt.cache.stats.unpacked.Load() != before {
			t.Errorf("%s: the next read unpacks its first chunk again", tt.name)
		}
	}
}

package byhash

import (
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/xetfs/xetfs/codec"
)

// hashOf returns a hash for a number. Number 0 has the zero hash.
func hashOf(n int) (h codec.Hash) {
	binary.LittleEndian.PutUint64(h[:], uint64(n)*0x9e3779b97f4a7c15)
	return h
}

func hashesOf(first, n int) (all []codec.Hash) {
	for i := range n {
		all = append(all, hashOf(first+i))
	}
	return all
}

func TestTable(t *testing.T) {
	a, b := codec.Hash{1}, codec.Hash{2}
	table := New(1 << 20)
	if _, _, ok := table.Find(hashOf(1)); ok || !table.IsEmpty() {
		t.Error("a new table has chunks")
	}
	table.Add(a, 5, hashesOf(0, 10)) // chunk 5 is unknown
	table.Add(b, 8191, hashesOf(3, 1))
	for n, want := range map[int]struct {
		x     codec.Hash
		chunk uint32
		ok    bool
	}{
		0: {}, 1: {a, 6, true}, 2: {a, 7, true}, 3: {b, 8191, true}, 4: {a, 9, true}, 9: {a, 14, true}, 10: {},
	} {
		if x, chunk, ok := table.Find(hashOf(n)); x != want.x || chunk != want.chunk || ok != want.ok {
			t.Errorf("hash %d is that of chunk %d of %s, %v; want %+v", n, chunk, x, ok, want)
		}
	}
	if table.IsEmpty() || table.IsFull() {
		t.Error("a table with few chunks is empty or full")
	}
}

// The memory of a table stays within its limit, for large and for small xorbs. The chunks that were
// added last are found.
func TestTable_Bound(t *testing.T) {
	const limit = 4 << 20
	for name, run := range map[string]int{"large xorbs": 1000, "small xorbs": 1} {
		t.Run(name, func(t *testing.T) {
			table, most, n := New(limit), int64(0), 1
			before := heap()
			for step := range 20 {
				for range 10_000 / run {
					table.Add(codec.Hash{byte(n), byte(n >> 8), byte(n >> 16)}, 0, hashesOf(n, run))
					n += run
				}
				if step%4 == 3 {
					most = max(most, heap()-before)
				}
			}
			if most > limit || most < limit/8 {
				t.Errorf("%d bytes, the limit is %d", most, limit)
			}
			for i := n - limit/2/(chunkBytes+xorbBytes); i < n; i++ {
				if _, _, ok := table.Find(hashOf(i)); !ok {
					t.Fatalf("chunk %d of %d is absent", i, n)
				}
			}
			if _, _, ok := table.Find(hashOf(1)); ok || !table.IsFull() {
				t.Error("the first chunk is still found, or the table is not full")
			}
			runtime.KeepAlive(table)
		})
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

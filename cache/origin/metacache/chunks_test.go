package metacache

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A mapBackend is a Backend in memory. Like a disk cache it does not replace values.
type mapBackend struct {
	mu     sync.Mutex
	values map[[32]byte][]byte // guarded by mu
}

func (m *mapBackend) Page(h [32]byte) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.values[h]
	return b, ok
}

func (m *mapBackend) PutPage(h [32]byte, b []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.values[h]; !ok {
		m.values[h] = bytes.Clone(b)
	}
	return nil
}

func (m *mapBackend) ForgetPage(h [32]byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, h)
}

// leaf is the hash and size of a chunk, made of a number.
func leaf(i int) merkle.Leaf {
	return merkle.Leaf{Hash: merkle.Chunk([]byte{byte(i), byte(i >> 8)}), Size: uint64(1000 + i)}
}

func leaves(start, end int) (all []merkle.Leaf) {
	for i := start; i < end; i++ {
		all = append(all, leaf(i))
	}
	return all
}

// A table returns what was put, also a later table over the same backend, also with little memory.
func TestChunkTable(t *testing.T) {
	x, y := codec.Hash{1}, codec.Hash{2}
	for name, backend := range map[string]Backend{"with a disk": &mapBackend{values: map[[32]byte][]byte{}}, "in memory": nil} {
		t.Run(name, func(t *testing.T) {
			table := NewChunkTable(New(backend, "store", true), 1<<20)
			table.Put([]origin.ChunkHashes{{Xorb: x, Start: 100, Leaves: leaves(100, 300)}, {Xorb: y, Start: 8190, Leaves: leaves(1, 4)}})
			table.Put([]origin.ChunkHashes{{Xorb: x, Start: 5, Leaves: leaves(5, 6)}})
			table.Put([]origin.ChunkHashes{{Xorb: x, Start: 200, Leaves: make([]merkle.Leaf, 1)}})
			tables := []*ChunkTable{table}
			if backend != nil {
				tables = append(tables, NewChunkTable(New(backend, "store", true), 1))
			}
			for _, table := range tables {
				want := append(make([]merkle.Leaf, 300), merkle.Leaf{})
				want[5] = leaf(5)
				copy(want[100:], leaves(100, 300))
				want[200] = merkle.Leaf{}
				if got := table.Leaves(x, codec.ChunkRange{End: 301}); !slices.Equal(got, want) {
					t.Errorf("Leaves = %v", got)
				}
				for _, tt := range []struct {
					x    codec.Hash
					r    codec.ChunkRange
					want bool
				}{
					{x, codec.ChunkRange{Start: 100, End: 200}, true}, {x, codec.ChunkRange{Start: 201, End: 300}, true},
					{x, codec.ChunkRange{Start: 199, End: 201}, false}, {x, codec.ChunkRange{Start: 299, End: 301}, false},
					{x, codec.ChunkRange{Start: 5, End: 6}, true}, {x, codec.ChunkRange{Start: 5, End: 7}, false},
					{y, codec.ChunkRange{Start: 8190, End: 8192}, true}, {y, codec.ChunkRange{End: 1}, false},
					{codec.Hash{3}, codec.ChunkRange{End: 1}, false}, {x, codec.ChunkRange{Start: 9000, End: 9001}, false},
				} {
					if got := table.Hashed(tt.x, tt.r); got != tt.want {
						t.Errorf("Hashed(%x, %v) = %v", tt.x[0], tt.r, got)
					}
				}
			}
			other := NewChunkTable(New(backend, "another store", true), 1<<20)
			if got := other.Leaves(x, codec.ChunkRange{Start: 100, End: 101}); got != nil {
				t.Errorf("another store has %v", got)
			}
		})
	}
}

// The memory of a table is bounded.
func TestChunkTableMemory(t *testing.T) {
	table := NewChunkTable(New(nil, "", true), 100<<10)
	for i := range 200 {
		table.Put([]origin.ChunkHashes{{Xorb: codec.Hash{byte(i)}, Leaves: leaves(0, 128)}})
	}
	if n := table.blocks.Cost(); n > 100<<10 {
		t.Errorf("%d bytes in memory", n)
	}
}

func TestChunkTableAnnotate(t *testing.T) {
	content := [][]byte{[]byte("one"), []byte("second"), []byte("3")}
	var packed []byte
	for _, c := range content {
		packed = xorb.ChunkHeader{Packed: len(c), Unpacked: len(c)}.Append(packed)
		packed = append(packed, c...)
	}
	run, err := xorb.ParseRun(packed, codec.ChunkRange{Start: 7, End: 10}, nil)
	if err != nil {
		t.Fatal(err)
	}
	x := codec.Hash{1}
	table := NewChunkTable(New(nil, "", true), 1<<20)
	if got, err := table.Annotate(x, run); err != nil || got.Hashes != nil {
		t.Errorf("Annotate without hashes = %v, %v", got.Hashes, err)
	}
	h := merkle.Chunk(content[1])
	table.Put([]origin.ChunkHashes{{Xorb: x, Start: 8, Leaves: []merkle.Leaf{{Hash: h, Size: 6}}}})
	got, err := table.Annotate(x, run)
	if err != nil || !slices.Equal(got.Hashes, []codec.Hash{{}, h, {}}) || run.Hashes != nil {
		t.Errorf("Annotate = %v, %v", got, err)
	}
	table.Put([]origin.ChunkHashes{{Xorb: x, Start: 9, Leaves: []merkle.Leaf{{Hash: h, Size: 2}}}})
	if _, err := table.Annotate(x, run); !errors.Is(err, codec.ErrCorrupt) || !strings.Contains(err.Error(), "chunk 9: chunk at byte 0: it has 1 bytes, 2 are proven") {
		t.Errorf("Annotate of another size = %v", err)
	}
}

// Values that a disk could return are refused or right.
func TestDecodeBlock(t *testing.T) {
	key := [32]byte{7}
	block := append(leaves(0, 2), merkle.Leaf{})
	if got, err := decodeBlock(key, encodeBlock(key, block)); err != nil || !reflect.DeepEqual(got, block) {
		t.Errorf("decoded: %v, %v", got, err)
	}
	for name, b := range map[string][]byte{
		"half a chunk":  make([]byte, 35),
		"too many":      make([]byte, (blockChunks+1)*chunkSize),
		"a large chunk": slices.Concat(make([]byte, 32), []byte{1, 0, 2, 0}),
	} {
		if _, err := decodeBlockBody(b); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzDecodeBlock checks that decodeBlockBody never panics, and that an accepted value stays the
// same when it is encoded again.
func FuzzDecodeBlock(f *testing.F) {
	b := encodeBlock([32]byte{}, leaves(0, 3))
	f.Add(b[headSize : len(b)-32])
	f.Fuzz(func(t *testing.T, body []byte) {
		block, err := decodeBlockBody(body)
		if err != nil {
			return
		}
		if again := encodeBlock([32]byte{}, block); !bytes.Equal(again[headSize:len(again)-32], body) {
			t.Error("another value when it is encoded again")
		}
	})
}

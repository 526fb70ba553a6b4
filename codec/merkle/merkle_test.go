package merkle

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
)

// The vectors are those of the published specification.
func TestChunk(t *testing.T) {
	const want = "d8d408e608fb9ca213b9909a65d86d725f2de4d8d540324be8a363e7a6e228cb"
	if got := Chunk([]byte("Hello World!")).String(); got != want {
		t.Errorf("Chunk = %s, want %s", got, want)
	}
}

// The pieces in which bytes arrive do not change their hash.
func TestChunkHash(t *testing.T) {
	b := codectest.Bytes(0, 300_000)
	for _, step := range []int{1000, 1 << 16, len(b)} {
		h := NewChunkHash()
		if got := h.Sum(); got != Chunk(nil) {
			t.Errorf("hash of nothing = %s, want %s", got, Chunk(nil))
		}
		for off := 0; off < len(b); off += step {
			end := min(off+step, len(b))
			if _, err := h.Write(b[off:end]); err != nil {
				t.Fatal(err)
			}
			if got := h.Sum(); got != Chunk(b[:end]) {
				t.Errorf("hash of %d bytes in pieces of %d = %s, want %s", end, step, got, Chunk(b[:end]))
			}
		}
	}
}

// Bytes that are read in pieces have the same hash, and a reader that ends early is an error.
func TestReadChunk(t *testing.T) {
	b := codectest.Bytes(0, 300_000)
	for _, size := range []int{0, 1, hashBuffer, hashBuffer + 1, len(b)} {
		if got, err := ReadChunk(bytes.NewReader(b), int64(size)); err != nil || got != Chunk(b[:size]) {
			t.Errorf("hash of %d bytes = %s, %v, want %s", size, got, err, Chunk(b[:size]))
		}
	}
	if _, err := ReadChunk(bytes.NewReader(b), int64(len(b)+1)); err == nil {
		t.Error("a byte behind the end was hashed")
	}
}

// A vector is one known answer. Which fields of its input are set follows from its
// kind.
type vector struct {
	Name, Kind string
	Input      struct {
		UTF8, Hex, Generator string
		Ends                 []int
		ChunkHashes          []codec.Hash `json:"chunk_hashes"`
		Hash, Key            codec.Hash
		Size                 uint64
		Count                int
		Nodes                []Leaf
	}
	Expected json.RawMessage
}

// The vectors of the specification that say something about hashes.
func TestVectors(t *testing.T) {
	var file []vector
	codectest.ReadJSON(t, &file, "testdata", "vectors.json")
	for _, v := range file {
		t.Run(v.Name, func(t *testing.T) { v.check(t) })
	}
}

func (v *vector) check(t *testing.T) {
	switch v.Kind {
	case "chunk_hash":
		v.want(t, Chunk(v.data(t)))
	case "chunk_hashes":
		v.want(t, chunkHashes(codectest.Bytes(0, 1_000_000), v.Input.Ends))
	case "range_hash":
		v.want(t, Term(v.Input.ChunkHashes))
	case "hmac":
		v.want(t, Keyed(v.Input.Hash, v.Input.Key))
	case "aggregate":
		v.wantTree(t, v.Input.Nodes)
	case "aggregate_repeat":
		v.wantTree(t, repeat(Leaf{v.Input.Hash, v.Input.Size}, v.Input.Count))
	default:
		t.Fatalf("kind %q is not known", v.Kind)
	}
}

func (v *vector) data(t *testing.T) []byte {
	if v.Input.Generator != "" {
		return make([]byte, 131072) // the only one: "131072 bytes of 0x00"
	}
	b, err := hex.DecodeString(v.Input.Hex)
	if err != nil {
		t.Fatal(err)
	}
	return append(b, v.Input.UTF8...)
}

// want compares got with the expected value by their JSON, which spells hashes alike.
func (v *vector) want(t *testing.T, got any) {
	t.Helper()
	var want bytes.Buffer
	b, err := json.Marshal(got)
	if err == nil {
		err = json.Compact(&want, v.Expected)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, want.Bytes()) {
		t.Errorf("got %s, want %s", b, want.Bytes())
	}
}

func (v *vector) wantTree(t *testing.T, leaves []Leaf) {
	t.Helper()
	var want struct {
		Xorb codec.Hash `json:"xorb_hash"`
		File codec.Hash `json:"file_hash"`
	}
	if err := json.Unmarshal(v.Expected, &want); err != nil {
		t.Fatal(err)
	}
	if got := Xorb(leaves); got != want.Xorb {
		t.Errorf("Xorb = %s, want %s", got, want.Xorb)
	}
	if got := File(leaves); got != want.File {
		t.Errorf("File = %s, want %s", got, want.File)
	}
}

func chunkHashes(b []byte, ends []int) []codec.Hash {
	var hashes []codec.Hash
	start := 0
	for _, end := range ends {
		hashes = append(hashes, Chunk(b[start:end]))
		start = end
	}
	return hashes
}

func repeat(l Leaf, n int) []Leaf {
	leaves := make([]Leaf, n)
	for i := range leaves {
		leaves[i] = l
	}
	return leaves
}

// testLeaves returns the leaves that the reference made its answers for.
func testLeaves(seed uint64, n int) []Leaf {
	leaves := make([]Leaf, n)
	var in [16]byte
	binary.LittleEndian.PutUint64(in[:], seed)
	state := seed
	for i := range leaves {
		binary.LittleEndian.PutUint64(in[8:], uint64(i))
		leaves[i] = Leaf{Hash: Chunk(in[:]), Size: 1 + codectest.SplitMix64(&state)%131072}
	}
	return leaves
}

type tree struct {
	N    int
	Xorb codec.Hash `json:"xorb_hash"`
	File codec.Hash `json:"file_hash"`
	Term codec.Hash `json:"range_hash"`
	Hash codec.Hash // of the leaf, where all are equal
	Size uint64
}

type answers struct {
	Seed   uint64
	Trees  []tree
	Ranges []struct {
		Start, End int
		Term       codec.Hash `json:"range_hash"`
	}
	EqualLeaves []tree     `json:"equal_leaves"`
	HMACKey     codec.Hash `json:"hmac_key"`
	HMAC        []struct{ Hash, Keyed codec.Hash }
}

// The reference made these answers for generated leaves, up to 40,000.
func TestReference(t *testing.T) {
	var a answers
	codectest.ReadJSON(t, &a, "testdata", "hashes.json")
	leaves := testLeaves(a.Seed, 40_000)
	hashes := make([]codec.Hash, len(leaves))
	for i := range leaves {
		hashes[i] = leaves[i].Hash
	}
	for _, want := range a.Trees {
		if codectest.Race && want.N > 5000 {
			continue // slow, and nothing is shared
		}
		got := tree{N: want.N, Xorb: Xorb(leaves[:want.N]), File: File(leaves[:want.N]), Term: Term(hashes[:want.N])}
		if got != want {
			t.Errorf("%d leaves: %v, want %v", want.N, got, want)
		}
	}
	for _, want := range a.EqualLeaves {
		same := repeat(Leaf{want.Hash, want.Size}, want.N)
		if x, f := Xorb(same), File(same); x != want.Xorb || f != want.File {
			t.Errorf("%d times %s: %s, %s, want %s, %s", want.N, want.Hash, x, f, want.Xorb, want.File)
		}
	}
	for _, r := range a.Ranges {
		if got := Term(hashes[r.Start:r.End]); got != r.Term {
			t.Errorf("Term of %d to %d = %s, want %s", r.Start, r.End, got, r.Term)
		}
	}
	for _, k := range a.HMAC {
		if got := Keyed(k.Hash, a.HMACKey); got != k.Keyed {
			t.Errorf("Keyed(%s) = %s, want %s", k.Hash, got, k.Keyed)
		}
	}
}

// Hashers are kept from call to call: a key must not outlive its call, and the leaves
// must stay as they are.
func TestKeyedTwoKeys(t *testing.T) {
	h := Chunk(nil)
	first := Keyed(h, [32]byte{1})
	if second := Keyed(h, [32]byte{2}); second == first {
		t.Error("two keys, one hash")
	}
	if again := Keyed(h, [32]byte{1}); again != first {
		t.Errorf("Keyed = %s, then %s", first, again)
	}
}

func TestLeavesStay(t *testing.T) {
	leaves := testLeaves(1, 1000)
	before := append([]Leaf(nil), leaves...)
	File(leaves)
	for i := range leaves {
		if leaves[i] != before[i] {
			t.Fatalf("leaf %d changed", i)
		}
	}
}

func TestAllocs(t *testing.T) {
	chunk := codectest.Bytes(1, 64<<10)
	leaves := testLeaves(1, 1000)
	tests := []struct {
		name string
		max  float64
		do   func()
	}{
		{"Chunk", 0, func() { Chunk(chunk) }},
		{"Term", 0, func() { Term([]codec.Hash{{1}, {2}}) }},
		{"Keyed", 0, func() { Keyed(leaves[0].Hash, [32]byte{1}) }},
		{"File, one slice for all levels", 1, func() { File(leaves) }},
	}
	for _, tt := range tests {
		// Less than one more on average: a garbage collection may empty the pools.
		if got := testing.AllocsPerRun(100, tt.do); got > tt.max+0.5 && !codectest.Race {
			t.Errorf("%s: %v allocations, want %v", tt.name, got, tt.max)
		}
	}
}

func BenchmarkChunk(b *testing.B) {
	for _, size := range []int{8 << 10, 64 << 10, 128 << 10} {
		b.Run(fmt.Sprintf("%dK", size>>10), func(b *testing.B) {
			data := codectest.Bytes(1, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				Chunk(data)
			}
		})
	}
}

func BenchmarkFile(b *testing.B) {
	for _, n := range []int{1000, 40_000, 1_000_000} {
		leaves := testLeaves(1, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				File(leaves)
			}
		})
	}
}

package pack

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Files of random and repeated pieces are read back unchanged, under all limits. No chunk is
// stored twice without need, and a second pack of the files stores nothing.
func TestPackReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{
			NoSHA:         rapid.Bool().Draw(t, "no sha"),
			ShardBytes:    rapid.SampledFrom([]int64{0, 1, 1000, 20_000}).Draw(t, "shard bytes"),
			FlushBytes:    rapid.SampledFrom([]int64{0, 1, 500_000}).Draw(t, "flush bytes"),
			maxXorbSize:   rapid.SampledFrom([]int{0, 131_072, 300_000, 1 << 20}).Draw(t, "xorb size"),
			maxXorbChunks: rapid.SampledFrom([]int{0, 1, 2, 7, 30}).Draw(t, "xorb chunks"),
			maxWaiting:    rapid.SampledFrom([]int{0, 1, 3}).Draw(t, "files waiting"),
			maxKept:       rapid.SampledFrom([]int{0, 0, 1, 10}).Draw(t, "chunks kept"),
		}
		sink := newMemory()
		how := rapid.SampledFrom([]string{"alone", "known", "ledger", "deaf ledger"}).Draw(t, "known")
		if how != "alone" {
			first := newSession(t, sink, o)
			addFiles(t, first)
			first.close()
		}
		o.Known = knownBy(how, sink)
		second := newSession(t, sink, o)
		files := addFiles(t, second)
		second.close()
		checkStats(t, second.w.Stats(), files)
		before := len(sink.xorbs)
		if second.w.Stats().Again == 0 && how == "alone" && o.maxKept == 0 {
			checkOnce(t, second)
		}

		o.Known = newLedger(sink)
		shards := len(sink.shards)
		third := newSession(t, sink, o)
		for _, data := range files {
			third.add(data)
		}
		third.close()
		if s := third.w.Stats(); s.NewChunks > 0 || len(sink.xorbs) > before || len(sink.shards) > shards {
			t.Fatalf("packing the same again stores %d chunks, %d xorbs, %d shards", s.NewChunks, s.Xorbs, s.Shards)
		}
	})
}

func knownBy(how string, m *memory) ChunkIndex {
	l := newLedger(m)
	switch how {
	case "known":
		return known{l}
	case "ledger":
		return l
	case "deaf ledger":
		l.deaf = true
		return l
	}
	return nil
}

// addFiles adds files made of a few pieces over and over.
func addFiles(t *rapid.T, s *session) (files [][]byte) {
	pool := rapid.SliceOfN(rapid.Custom(drawPiece), 1, 5).Draw(t, "pieces")
	for range rapid.IntRange(0, 12).Draw(t, "files") {
		var data []byte
		for range rapid.IntRange(0, 6).Draw(t, "parts") {
			data = append(data, rapid.SampledFrom(pool).Draw(t, "part")...)
		}
		data = data[:len(data)-rapid.IntRange(0, min(len(data), 30_000)).Draw(t, "less")]
		switch rapid.IntRange(0, 9).Draw(t, "how") {
		case 0:
			s.addBroken(data)
		case 1:
			if err := s.w.Flush(s.t.Context()); err != nil {
				t.Fatalf("Flush: %v", err)
			}
			fallthrough
		default:
			s.add(data)
			files = append(files, data)
		}
	}
	return files
}

func drawPiece(t *rapid.T) []byte {
	size := rapid.IntRange(1, 1<<rapid.IntRange(1, 18).Draw(t, "bits")).Draw(t, "size")
	seed := rapid.Uint64Range(0, 3).Draw(t, "seed")
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		return bytes.Repeat([]byte{byte(seed)}, size)
	case 1:
		return numbers(seed, size)
	}
	return codectest.Bytes(seed, size)
}

// numbers returns little-endian numbers, which compress, and repeat nowhere.
func numbers(seed uint64, size int) []byte {
	b := make([]byte, 0, size+8)
	for i := seed << 32; len(b) < size; i++ {
		b = binary.LittleEndian.AppendUint64(b, i)
	}
	return b[:size]
}

func checkStats(t *rapid.T, s Stats, files [][]byte) {
	var bytes int64
	for _, data := range files {
		bytes += int64(len(data))
	}
	if s.Files != int64(len(files)) || s.Bytes != bytes || s.Read != s.NewBytes+s.OldBytes || s.Read < bytes || s.AgainBytes > s.NewBytes {
		t.Fatalf("%d files of %d bytes: %+v", len(files), bytes, s)
	}
}

// checkOnce looks for chunks that are stored twice.
func checkOnce(t *rapid.T, s *session) {
	c, err := s.sink.decode()
	if err != nil {
		t.Fatal(err)
	}
	at := map[name]name{}
	for n, x := range c.xorbs {
		for _, chunk := range x.sized {
			if other, ok := at[chunk.name]; ok {
				t.Fatalf("chunk %s is in xorb %s and in %s", chunk.name, n, other)
			}
			at[chunk.name] = n
		}
	}
}

// Equal files are one File Info block, and Done is called for all.
func TestEqualFiles(t *testing.T) {
	s := newSession(t, newMemory(), Options{})
	a, b := codectest.Bytes(1, 300_000), []byte("b")
	for _, data := range [][]byte{a, b, a, nil, b, nil, a} {
		s.add(data)
	}
	c := s.close()
	if len(c.shards) != 1 || len(c.xorbs) != 1 {
		t.Fatalf("%d shards, %d xorbs, want one of each", len(c.shards), len(c.xorbs))
	}
	for _, shard := range c.shards {
		if len(shard.files) != 3 {
			t.Errorf("%d files are described, want 3", len(shard.files))
		}
	}
	if st := s.w.Stats(); st.Files != 7 || st.NewBytes != 300_001 || st.Bytes != 900_002 {
		t.Errorf("stats = %+v", st)
	}
}

// Files that add nothing to a shard do not wait for one without end.
func TestManyKnownFiles(t *testing.T) {
	sink := newMemory()
	first := newSession(t, sink, Options{})
	first.add([]byte("known"))
	first.close()
	s := newSession(t, sink, Options{Known: newLedger(sink), maxWaiting: 10})
	s.add([]byte("new"))
	// All batches are in use by then, so the first has come through.
	const files = 2 * maxBatches * batchPieces
	for range files {
		s.add([]byte("known"))
	}
	if st := s.w.Stats(); st.Files < files/2-20 {
		t.Errorf("%d of %d files are told of", st.Files, files)
	}
	if err := s.w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := s.w.Stats(); st.Files != files+1 || st.Shards != 1 || st.Xorbs != 1 {
		t.Errorf("%+v", st)
	}
	s.close()
}

// Chunks that no Ledger learns are remembered while there is room. The oldest ones are
// forgotten first, and stored again.
func TestForgotten(t *testing.T) {
	tests := []struct {
		name   string
		known  func(m *memory) ChunkIndex
		kept   int
		stored int64 // bytes, of three files of 300,000; then the last comes again, and the first
	}{
		{"all is kept", func(*memory) ChunkIndex { return nil }, 0, 900_000},
		{"the last is kept", func(*memory) ChunkIndex { return nil }, 8, 1_200_000},
		{"nothing is kept", func(*memory) ChunkIndex { return nil }, 1, 1_500_000},
		{"a ledger that does not learn", func(m *memory) ChunkIndex { return &ledger{m: m, deaf: true} }, 1, 1_500_000},
		{"a ledger that learns", func(m *memory) ChunkIndex { return newLedger(m) }, 1, 900_000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sink := newMemory()
			s := newSession(t, sink, Options{Known: tt.known(sink), maxKept: tt.kept, maxXorbSize: 200_000})
			for _, seed := range []uint64{1, 2, 3, 3, 1} {
				s.add(codectest.Bytes(seed, 300_000))
				if err := s.w.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			s.close()
			if st := s.w.Stats(); st.NewBytes != tt.stored {
				t.Errorf("%d bytes are stored, want %d", st.NewBytes, tt.stored)
			}
		})
	}
}

// A block that a Ledger takes for that of a file, and that leads elsewhere, is not
// believed: the file is described again.
func TestWrongBlock(t *testing.T) {
	a, b := codectest.Bytes(1, 300_000), codectest.Bytes(2, 300_000)
	tests := []struct {
		name  string
		spoil func(a, b *shard.FileInfo)
		wrong bool
	}{
		{"the right one", func(a, b *shard.FileInfo) {}, false},
		{"that of another file", func(a, b *shard.FileInfo) { a.Terms, a.Verify = b.Terms, b.Verify }, true},
		{"without verification hashes", func(a, _ *shard.FileInfo) { a.Verify = nil }, true},
		{"one verification hash is wrong", func(a, _ *shard.FileInfo) { a.Verify[0][0]++ }, true},
		{"a term too few", func(a, _ *shard.FileInfo) { a.Terms, a.Verify = a.Terms[1:], a.Verify[1:] }, true},
		{"a term too many", func(a, _ *shard.FileInfo) {
			a.Terms, a.Verify = append(a.Terms, a.Terms[0]), append(a.Verify, a.Verify[0])
		}, true},
		{"a term of other chunks", func(a, _ *shard.FileInfo) { a.Terms[0].Chunks.End += 1000 }, true},
		{"a term of another size", func(a, _ *shard.FileInfo) { a.Terms[0].Size++ }, true},
		{"nothing", func(a, _ *shard.FileInfo) { a.Terms, a.Verify = nil, nil }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sink := newMemory()
			first := newSession(t, sink, Options{maxXorbSize: 150_000})
			first.add(a)
			first.add(b)
			first.close()
			l := newLedger(sink)
			tt.spoil(l.files[first.done[0].ID.File].in, l.files[first.done[1].ID.File].in)
			l.deaf = true
			s := newSession(t, sink, Options{Known: l})
			s.add(a)
			s.close()
			if st := s.w.Stats(); (st.Shards != 0) != tt.wrong || st.NewBytes > 0 {
				t.Errorf("%d shards are stored, %d bytes are new", st.Shards, st.NewBytes)
			}
		})
	}
}

// The SHA-256 of the empty file is that of nothing, though the shard has zeros there.
func TestEmptyFile(t *testing.T) {
	s := newSession(t, newMemory(), Options{})
	s.add(nil)
	c := s.close()
	const want = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if got := name(codec.Hash(s.done[0].SHA256).Swapped().String()); got != want {
		t.Errorf("SHA256 = %s, want %s", got, want)
	}
	block, err := c.find(s.done[0].ID)
	if err != nil || block.flags != 0xc0000000 || !bytes.Equal(block.sha256, make([]byte, 32)) || len(c.xorbs) != 0 {
		t.Errorf("block = %+v, %v; %d xorbs", block, err, len(c.xorbs))
	}
}

// A file that is in the store without SHA-256 is described again, with it, once.
func TestDescribedAgainForSHA(t *testing.T) {
	sink := newMemory()
	data := codectest.Bytes(1, 100_000)
	for i, tt := range []struct {
		noSHA  bool
		shards int
	}{{true, 1}, {true, 1}, {false, 2}, {false, 2}} {
		s := newSession(t, sink, Options{NoSHA: tt.noSHA, Known: newLedger(sink)})
		if i == 3 {
			s.w.o.Known.(*ledger).keepSHA()
		}
		s.add(data)
		s.close()
		if len(sink.shards) != tt.shards || len(sink.xorbs) != 1 {
			t.Errorf("session %d: %d shards, %d xorbs, want %d, 1", i, len(sink.shards), len(sink.xorbs), tt.shards)
		}
	}
}

// keepSHA makes l prefer descriptions with SHA-256, of which it has one at random.
func (l *ledger) keepSHA() {
	for range 64 {
		for n := range l.m.shards {
			l.learn(n)
		}
		for _, f := range l.files {
			if f.in.Metadata {
				return
			}
		}
	}
}

// Chunks fill a xorb until the next one would exceed its size, with its header and without
// compression. The number of chunks is limited, too.
func TestXorbLimits(t *testing.T) {
	const mib = 1 << 20
	tiny := func(n int) (files [][]byte) {
		for i := range n {
			files = append(files, binary.LittleEndian.AppendUint64(nil, uint64(i)))
		}
		return files
	}
	tests := []struct {
		name  string
		o     Options
		files [][]byte
		full  func(x *decodedXorb, next int) bool
	}{
		{
			"size", Options{maxXorbSize: mib, maxXorbPacked: mib}, [][]byte{codectest.Bytes(1, mib+300_000)},
			func(x *decodedXorb, next int) bool { return x.packed <= mib && x.packed+8+next > mib },
		},
		{
			"size, unpacked", Options{maxXorbSize: mib}, [][]byte{codectest.Bytes(1, mib+300_000)},
			func(x *decodedXorb, next int) bool { return unpacked(x) <= mib && unpacked(x)+next > mib },
		},
		{
			"size, compressed", Options{maxXorbSize: mib, maxXorbPacked: mib}, [][]byte{numbers(1, mib+300_000)},
			func(x *decodedXorb, next int) bool {
				size := 8*len(x.chunks) + unpacked(x)
				return size <= mib && size+8+next > mib
			},
		},
		{
			"chunks", Options{maxXorbChunks: 500}, tiny(503),
			func(x *decodedXorb, _ int) bool { return len(x.chunks) == 500 },
		},
		{
			"those of the format", Options{}, [][]byte{codectest.Bytes(1, 66*mib)},
			func(x *decodedXorb, next int) bool { return x.packed <= 64*mib && x.packed+8+next > 64*mib },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.NoSHA = true
			s := newSession(t, newMemory(), tt.o)
			for _, data := range tt.files {
				s.add(data)
			}
			c := s.close()
			xorbs := slices.SortedFunc(maps.Values(c.xorbs), func(a, b *decodedXorb) int { return len(b.chunks) - len(a.chunks) })
			if len(xorbs) != 2 {
				t.Fatalf("%d xorbs, want 2", len(xorbs))
			}
			if !tt.full(xorbs[0], xorbs[1].sized[0].size) {
				t.Errorf("the first xorb has %d chunks, %d bytes; the next chunk has %d", len(xorbs[0].chunks), xorbs[0].packed, xorbs[1].sized[0].size)
			}
		})
	}
}

func unpacked(x *decodedXorb) (size int) {
	for _, c := range x.sized {
		size += c.size
	}
	return size
}

// Without options the limits are those of the format.
func TestDefaultLimits(t *testing.T) {
	var o Options
	o.fill()
	if o.maxXorbSize != 64<<20 || o.maxXorbPacked != 64<<20 || o.maxXorbChunks != 8192 {
		t.Errorf("options are %+v", o)
	}
}

// The largest xorb has room for its footer, so that a Sink need not move it.
func TestFooterRoom(t *testing.T) {
	in := largestInfo()
	if n := len(in.AppendFooter(nil)); n > footerRoom {
		t.Errorf("a footer has %d bytes, there is room for %d", n, footerRoom)
	}
}

// Shards have about 4 MiB with their tables: a remote reader reads one whole.
func TestShardSize(t *testing.T) {
	if codectest.Race {
		t.Skip("many files, and no more concurrency than with fewer")
	}
	sink := newMemory()
	s := newSession(t, sink, Options{})
	for i := range 40_000 {
		s.add(fmt.Appendf(nil, "file %d", i))
	}
	s.close()
	if n := len(sink.shards); n < 2 || n > 4 {
		t.Errorf("%d shards", n)
	}
	for name, b := range sink.shards {
		if len(b) > 5<<20 {
			t.Errorf("shard %s has %d bytes", name, len(b))
		}
	}
}

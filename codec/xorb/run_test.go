package xorb

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
)

// exampleRun returns the three chunks of the worked example as chunks 5 to 7 of a
// xorb, and what they unpack to.
func exampleRun(t testing.TB, hashed bool) (*Run, [][]byte) {
	t.Helper()
	in, err := readInfo(example(t, "xorb-footer-v1"))
	if err != nil {
		t.Fatal(err)
	}
	var hashes []codec.Hash
	if hashed {
		hashes = in.Chunks
	}
	run, err := ParseRun(example(t, "xorb-no-footer"), codec.ChunkRange{Start: 5, End: 8}, hashes)
	if err != nil {
		t.Fatal(err)
	}
	content := [][]byte{
		[]byte(hello),
		[]byte(as),
		append(bytes.Repeat([]byte{0, 0x11, 0x22, 0x33}, 16), 0x44, 0x55),
	}
	return run, content
}

func TestRun(t *testing.T) {
	for _, hashed := range []bool{false, true} {
		run, content := exampleRun(t, hashed)
		var start int64
		for i, want := range content {
			chunk := uint32(5 + i)
			if got := run.Size(chunk); got != len(want) {
				t.Errorf("Size(%d) = %d, want %d", chunk, got, len(want))
			}
			if got := run.UnpackedStart(chunk); got != start {
				t.Errorf("UnpackedStart(%d) = %d, want %d", chunk, got, start)
			}
			if got := run.Scheme(chunk); got != Scheme(i) {
				t.Errorf("Scheme(%d) = %s", chunk, got)
			}
			dst := make([]byte, len(want))
			if _, err := run.Unpack(chunk, dst); err != nil || !bytes.Equal(dst, want) {
				t.Errorf("Unpack(%d) = %x, %v, want %x", chunk, dst, err, want)
			}
			start += int64(len(want))
		}
		if got := run.UnpackedSize(); got != start {
			t.Errorf("UnpackedSize = %d, want %d", got, start)
		}
		if _, err := run.Unpack(5, make([]byte, 13)); err == nil {
			t.Error("unpacked into a buffer that is too long")
		}
	}
}

// Every part of a part unpacks to the same chunks.
func TestRunSlice(t *testing.T) {
	whole, content := exampleRun(t, true)
	for start := uint32(5); start < 8; start++ {
		for end := start + 1; end <= 8; end++ {
			run := whole.Slice(codec.ChunkRange{Start: start, End: 8}).Slice(codec.ChunkRange{Start: start, End: end})
			var size int64
			for chunk := start; chunk < end; chunk++ {
				dst := make([]byte, run.Size(chunk))
				if _, err := run.Unpack(chunk, dst); err != nil || !bytes.Equal(dst, content[chunk-5]) {
					t.Errorf("%s: Unpack(%d) = %x, %v", run.Chunks, chunk, dst, err)
				}
				size += int64(len(dst))
			}
			if run.UnpackedSize() != size || len(run.Hashes) != run.Chunks.Len() {
				t.Errorf("%s: size %d, %d hashes", run.Chunks, run.UnpackedSize(), len(run.Hashes))
			}
			again, err := ParseRun(run.Packed, run.Chunks, run.Hashes)
			if err != nil || again.UnpackedSize() != size {
				t.Errorf("%s: parsed again: %v", run.Chunks, err)
			}
		}
	}
}

func TestF15_ParseRun(t *testing.T) {
	body, withFooter := example(t, "xorb-no-footer"), example(t, "xorb-footer-v1")
	tests := []struct {
		name   string
		packed []byte
		start  uint32
		end    uint32
		off    int64
		reason string
	}{
		{"all", body, 0, 3, 0, ""},
		{"begins with the footer", withFooter[102:], 0, 1, 0, "fewer chunks than the term needs: 0 of 1"},
		{"continues with the footer", withFooter, 2, 6, 102, "fewer chunks than the term needs: 3 of 4"},
		{"ends early", body, 0, 4, 102, "fewer chunks than the term needs: 3 of 4"},
		{"nothing", nil, 0, 1, 0, "fewer chunks than the term needs: 0 of 1"},
		{"the footer too", withFooter, 0, 3, 102, "216 bytes follow the last chunk"},
		{"more chunks", body, 0, 2, 54, "48 bytes follow the last chunk"},
		{"cut in a header", body[:59], 0, 3, 59, "ends after 5 of 8 bytes"},
		{"cut in a chunk", body[:101], 0, 3, 55, "packed size 40, 39 bytes are left"},
		{"no chunks wanted", body, 3, 3, 0, "chunks [3, 3) cannot be"},
		{"range turned around", body, 3, 0, 0, "chunks [3, 0) cannot be"},
		{"more chunks than a xorb has", body, 8191, 8193, 0, "chunks [8191, 8193) cannot be"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run, err := ParseRun(tt.packed, codec.ChunkRange{Start: tt.start, End: tt.end}, nil)
			wantReason(t, err, tt.reason)
			if tt.reason == "" {
				return
			}
			wantOffset(t, err, tt.off)
			if run != nil {
				t.Error("a run and an error")
			}
		})
	}
	if _, err := ParseRun(body, codec.ChunkRange{End: 3}, make([]codec.Hash, 2)); err == nil {
		t.Error("two hashes for three chunks")
	}
}

// A range from outside allocates nothing beyond what the bytes can hold.
func TestF15_RunAllocates(t *testing.T) {
	n := allocated(func() { ParseRun(make([]byte, 9), codec.ChunkRange{End: 8192}, nil) })
	if n > 1024 {
		t.Errorf("%d bytes allocated for a run of 9", n)
	}
}

// An error in a chunk names the chunk by its index in the xorb and the byte.
func TestRunErrors(t *testing.T) {
	run, _ := exampleRun(t, true)
	wrong := slices.Clone(run.Hashes)
	wrong[0][31] ^= 1
	tests := []struct {
		name   string
		packed []byte
		hashes []codec.Hash
		chunk  uint32
		want   string
	}{
		{"bad header", codectest.Put(run.Packed, 54, 9), nil, 7, "chunk 7: chunk header at byte 54: version 9 is not known"},
		{"bad frame", codectest.Put(run.Packed, 28, 9), nil, 6, "chunk 6: lz4 frame at byte 28: magic is 184d2209, want 184d2204"},
		{"wrong hash", run.Packed, wrong, 5, "chunk 5: chunk at byte 0: its hash is d8d408e608fb9ca213b9909a65d86d725f2de4d8d540324be8a363e7a6e228cb, want d8d408e608fb9ca213b9909a65d86d725f2de4d8d540324be9a363e7a6e228cb"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run, err := ParseRun(tt.packed, codec.ChunkRange{Start: 5, End: 8}, tt.hashes)
			if err == nil {
				_, err = run.Unpack(tt.chunk, make([]byte, run.Size(tt.chunk)))
			}
			if err == nil || err.Error() != tt.want || !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("error = %v, want %s", err, tt.want)
			}
		})
	}
}

// One flipped byte of a grouped chunk that still decodes is found by its hash.
func TestF13_FlippedByte(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, 10, 131_071, 131_072} {
		data := codectest.Bytes(uint64(n), n)
		grouped := make([]byte, n)
		group4(grouped, data)
		stored := join(frameHead(0x60, 0x50), uint32(n)|blockStored, grouped, 0)
		packed := append(ChunkHeader{Scheme: ByteGrouping4LZ4, Packed: len(stored), Unpacked: n}.Append(nil), stored...)
		run, err := ParseRun(packed, codec.ChunkRange{End: 1}, []codec.Hash{chunkHash(data)})
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, n)
		if _, err := run.Unpack(0, got); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes: %v", n, err)
		}
		packed[ChunkHeaderSize+11+n/2] ^= 0x10
		if _, err := run.Unpack(0, got); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("%d bytes, one flipped: %v", n, err)
		}
	}
}

// Every bit of a xorb of three chunks, in all three schemes: the chunks are refused or
// they are the very same.
func TestF14_BitFlips(t *testing.T) {
	original, content := exampleRun(t, true)
	var same int
	dst := make([]byte, codec.MaxChunkSize)
	for bit := range 8 * len(original.Packed) {
		run, err := ParseRun(codectest.Flip(original.Packed, bit), original.Chunks, original.Hashes)
		for i := 0; i < len(content) && err == nil; i++ {
			chunk := uint32(5 + i)
			got := dst[:run.Size(chunk)]
			_, err = run.Unpack(chunk, got)
			if err == nil && !bytes.Equal(got, content[i]) {
				t.Fatalf("bit %d: chunk %d unpacked to other bytes", bit, chunk)
			}
		}
		switch {
		case err == nil:
			same++
		case !errors.Is(err, codec.ErrCorrupt):
			t.Errorf("bit %d: %v", bit, err)
		}
	}
	if same > 30 {
		t.Errorf("%d of %d flips changed nothing", same, 8*len(original.Packed))
	}
}

func TestUnpackAllocates(t *testing.T) {
	if codectest.Race {
		t.Skip("pools lose things under the race detector")
	}
	for _, s := range []Scheme{None, LZ4, ByteGrouping4LZ4} {
		run := runOf(t, sample{floatLike(64 << 10), s})
		dst := make([]byte, run.Size(0))
		if n := testing.AllocsPerRun(50, func() { run.Unpack(0, dst) }); n > 0.5 {
			t.Errorf("%s: %v allocations", s, n)
		}
		if got := run.Scheme(0); got != s {
			t.Errorf("packed by %s, want %s", got, s)
		}
	}
}

// runOf packs chunks and returns them as a run with hashes.
func runOf(t testing.TB, chunks ...sample) *Run {
	t.Helper()
	var hashes []codec.Hash
	for _, c := range chunks {
		hashes = append(hashes, chunkHash(c.data))
	}
	run, err := ParseRun(build(t, false, chunks...), codec.ChunkRange{End: uint32(len(chunks))}, hashes)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// Join returns the chunks of consecutive runs, with the hashes that are known.
func TestJoin(t *testing.T) {
	hashed, _ := exampleRun(t, true)
	bare, _ := exampleRun(t, false)
	first, last := hashed.Chunks, hashed.Chunks
	first.End--
	last.Start = first.End
	for name, tt := range map[string]struct {
		runs []*Run
		want []codec.Hash
	}{
		"hashes":       {[]*Run{hashed.Slice(first), hashed.Slice(last)}, hashed.Hashes},
		"no hashes":    {[]*Run{bare.Slice(first), bare.Slice(last)}, nil},
		"some hashes":  {[]*Run{hashed.Slice(first), bare.Slice(last)}, append(slices.Clone(hashed.Hashes[:first.Len()]), codec.Hash{})},
		"a single run": {[]*Run{hashed}, hashed.Hashes},
	} {
		t.Run(name, func(t *testing.T) {
			memory := make([]byte, len(hashed.Packed))
			for _, buffer := range []func(int) []byte{nil, func(n int) []byte { return memory[:n] }} {
				run, err := Join(tt.runs, buffer)
				if err != nil {
					t.Fatal(err)
				}
				if run.Chunks != hashed.Chunks || !bytes.Equal(run.Packed, hashed.Packed) || !slices.Equal(run.Hashes, tt.want) {
					t.Errorf("chunks %v, %d bytes, %d hashes", run.Chunks, len(run.Packed), len(run.Hashes))
				}
				if inMemory := &run.Packed[0] == &memory[0]; inMemory != (buffer != nil) {
					t.Errorf("in the buffer: %v", inMemory)
				}
			}
		})
	}
}

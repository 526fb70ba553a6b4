package xorb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
)

// The body of the example is written as the specification has it, but for the LZ4
// blocks, where every writer may choose.
func TestWriter(t *testing.T) {
	want := example(t, "xorb-footer-v1")
	run, content := exampleRun(t, true)
	var b bytes.Buffer
	w := NewWriter(&b)
	for i, chunk := range content {
		if err := w.Add(run.Hashes[i], chunk, Scheme(i)); err != nil {
			t.Fatal(err)
		}
	}
	in := w.Info()
	if got := checkXorb(t, in.AppendFooter(b.Bytes()), in.Xorb); got.Footer != FooterV1 {
		t.Errorf("footer %s", got.Footer)
	}
	if wantInfo, _ := readInfo(want); in.Xorb != wantInfo.Xorb {
		t.Errorf("the xorb is %s, want %s", in.Xorb, wantInfo.Xorb)
	}
}

// A chunk that does not compress is stored unpacked. Others have the frame head of the
// reference.
func TestWriterSchemes(t *testing.T) {
	tests := []struct {
		name   string
		chunk  []byte
		scheme Scheme
		want   Scheme
		head   [7]byte // of the frame, if there is one
	}{
		{"one byte", []byte{1}, LZ4, None, [7]byte{}},
		{"16 equal bytes", bytes.Repeat([]byte{1}, 16), LZ4, None, [7]byte{}},
		{"random", randomLike(65536), LZ4, None, [7]byte{}},
		{"random, grouped", randomLike(131072), ByteGrouping4LZ4, None, [7]byte{}},
		{"text, as it is", textLike(1000), None, None, [7]byte{}},
		{"text", textLike(1000), LZ4, LZ4, head64K},
		{"text of 64 KiB", textLike(65536), LZ4, LZ4, head64K},
		{"text, one byte more", textLike(65537), LZ4, LZ4, head256K},
		{"floats of 64 KiB", floatLike(65536), ByteGrouping4LZ4, ByteGrouping4LZ4, head64K},
		{"the largest", floatLike(131072), ByteGrouping4LZ4, ByteGrouping4LZ4, head256K},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := build(t, false, sample{tt.chunk, tt.scheme})
			h, err := DecodeChunkHeader(b)
			if err != nil || h.Scheme != tt.want || h.Unpacked != len(tt.chunk) || h.Packed > len(tt.chunk) {
				t.Errorf("header %+v, %v, want scheme %s", h, err, tt.want)
			}
			if tt.want != None && (h.Packed == len(tt.chunk) || !bytes.HasPrefix(b[ChunkHeaderSize:], tt.head[:])) {
				t.Errorf("%d bytes packed, begins % x, want % x", h.Packed, b[ChunkHeaderSize:ChunkHeaderSize+7], tt.head)
			}
			checkXorb(t, b, chunkHash(tt.chunk))
		})
	}
}

// A xorb is full at 64 MiB, unpacked or packed, and at 8,192 chunks. A chunk that does
// not fit leaves no trace.
func TestErrFull(t *testing.T) {
	tests := []struct {
		name  string
		chunk []byte
		fit   int
	}{
		{"unpacked size", make([]byte, 131072), 512},
		{"packed size", randomLike(131072), 511},
		{"chunks", []byte{1}, 8192},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var n writeCounter
			w := NewWriter(&n)
			h := chunkHash(tt.chunk)
			for i := range tt.fit {
				if err := w.Add(h, tt.chunk, LZ4); err != nil {
					t.Fatalf("chunk %d: %v", i, err)
				}
			}
			before := n
			if err := w.Add(h, tt.chunk, LZ4); !errors.Is(err, ErrFull) {
				t.Errorf("error = %v, want ErrFull", err)
			}
			if in := w.Info(); n != before || in.Len() != tt.fit || int(in.PackedEnd[tt.fit-1]) != int(n) {
				t.Errorf("%d chunks, %d bytes written, %d before", in.Len(), n, before)
			}
			if n > codec.MaxXorbSize {
				t.Errorf("%d bytes", n)
			}
		})
	}
}

type writeCounter int

func (n *writeCounter) Write(p []byte) (int, error) {
	*n += writeCounter(len(p))
	return len(p), nil
}

func TestWriterRefuses(t *testing.T) {
	w := NewWriter(io.Discard)
	for name, err := range map[string]error{
		"no bytes":          w.Add(codec.Hash{}, nil, None),
		"too many bytes":    w.Add(codec.Hash{}, make([]byte, 131073), None),
		"an unknown scheme": w.Add(codec.Hash{}, []byte{1}, 3),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	broken := errors.New("disk full")
	w = NewWriter(brokenWriter{broken})
	for range 2 {
		if err := w.Add(codec.Hash{}, []byte{1}, None); !errors.Is(err, broken) {
			t.Errorf("error = %v, want %v", err, broken)
		}
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

// An Info stays as it was when chunks are added.
func TestInfoStays(t *testing.T) {
	w := NewWriter(io.Discard)
	add := func(c string) {
		if err := w.Add(chunkHash([]byte(c)), []byte(c), None); err != nil {
			t.Fatal(err)
		}
	}
	add("a")
	first := w.Info()
	root := first.Root()
	add("b")
	if first.Len() != 1 || first.Root() != root || first.Xorb != root || w.Info().Len() != 2 {
		t.Errorf("Info changed: %+v", first)
	}
}

// Whatever is written is read back: by the footer, by the walk, chunk by chunk.
func TestWriteRead(t *testing.T) {
	pieces := [][]byte{textLike(131072), floatLike(131072), randomLike(131072), make([]byte, 131072)}
	rapid.Check(t, func(rt *rapid.T) {
		var chunks []sample
		for range rapid.IntRange(1, 6).Draw(rt, "chunks") {
			from := rapid.SampledFrom(pieces).Draw(rt, "content")
			size := rapid.OneOf(rapid.IntRange(1, 70), rapid.IntRange(1, 131072), rapid.SampledFrom([]int{65535, 65536, 65537, 131072})).Draw(rt, "size")
			chunks = append(chunks, sample{from[len(from)-size:], Scheme(rapid.IntRange(0, 2).Draw(rt, "scheme"))})
		}
		b := build(t, true, chunks...)
		in := checkXorb(t, b, codec.Hash{})
		for i, c := range chunks {
			dst, err := readChunk(b, in, uint32(i))
			if err != nil || !bytes.Equal(dst, c.data) {
				rt.Fatalf("chunk %d: %v", i, err)
			}
		}
		body := b[:in.PackedEnd[len(chunks)-1]]
		walked, err := walkInfo(body)
		if err != nil || walked.Len() != len(chunks) {
			rt.Fatalf("walk: %v", err)
		}
	})
}

// The vectors of the specification say when grouping pays.
func TestPredictVectors(t *testing.T) {
	for _, v := range specVectors(t, "bg4_predict") {
		var want struct {
			Max       float64 `json:"max_kl"`
			Recommend bool    `json:"recommended"`
		}
		v.expect(t, &want)
		chunk := predictInput(t, v.Name)
		scheme := LZ4
		if want.Recommend {
			scheme = ByteGrouping4LZ4
		}
		if got := Predict(chunk); got != scheme {
			t.Errorf("%s: %s, want %s", v.Name, got, scheme)
		}
		if got := divergence(bitCounts(chunk)); math.Abs(got-want.Max) > 1e-6 {
			t.Errorf("%s: divergence %f, want %f", v.Name, got, want.Max)
		}
	}
}

// predictInput makes the input that the generator of a vector describes.
func predictInput(t *testing.T, name string) []byte {
	var b []byte
	switch name {
	case "bg4-predict-zeros":
		return make([]byte, 4096)
	case "bg4-predict-random":
		return codectest.Bytes(0, 65536)
	case "bg4-predict-float32":
		for i := range 16384 {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(float64(i)*0.001)))
		}
	case "bg4-predict-u32":
		for i := range uint32(16384) {
			b = binary.LittleEndian.AppendUint32(b, i)
		}
	case "bg4-predict-text":
		return []byte(strings.Repeat("The quick brown fox jumps over the lazy dog. ", 1000))
	default:
		t.Fatalf("no generator for %s", name)
	}
	return b
}

// The counts are right at every length, whatever part of them is counted by words.
func TestBitCounts(t *testing.T) {
	data := codectest.Bytes(5, 100)
	for n := range data {
		var want [4][9]uint32
		for i, c := range data[:n] {
			ones := 0
			for ; c != 0; c &= c - 1 {
				ones++
			}
			want[i%4][ones]++
		}
		if got := bitCounts(data[:n]); got != want {
			t.Errorf("%d bytes: %v, want %v", n, got, want)
		}
	}
	Predict(nil) // divides by nothing, and must not mind
}

// The reference uses the first chunk of a xorb to choose the scheme of its first chunks. If it
// packed them at all, Predict must have returned that scheme.
func TestPredictReference(t *testing.T) {
	dir := codectest.Vectors(t)
	for _, file := range files(t, dir+"/core/xorbs/stored") {
		b := codectest.Read(t, file)
		in, err := readInfo(b)
		if err != nil {
			t.Fatal(err)
		}
		h, err := DecodeChunkHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		first, err := readChunk(b, in, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := Predict(first); h.Scheme != None && got != h.Scheme {
			t.Errorf("%s: %s, the reference chose %s", file, got, h.Scheme)
		}
	}
}

func TestWriterAllocates(t *testing.T) {
	if codectest.Race {
		t.Skip("the race detector allocates")
	}
	for _, s := range []Scheme{None, LZ4, ByteGrouping4LZ4} {
		chunk := textLike(4 << 10)
		h := chunkHash(chunk)
		w := NewWriter(io.Discard)
		add := func() {
			if err := w.Add(h, chunk, s); err != nil {
				t.Fatal(err)
			}
		}
		if n := testing.AllocsPerRun(1000, add); n > 0.1 { // the lists of the Info grow
			t.Errorf("%s: %v allocations for a chunk", s, n)
		}
	}
}

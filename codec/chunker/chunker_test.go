package chunker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
)

// ends returns where the chunks of a stream end.
func ends(t fataler, r io.Reader) []int {
	c := New(r)
	var all []int
	at := 0
	for {
		chunk, err := c.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		at += len(chunk)
		all = append(all, at)
	}
}

type fataler interface{ Fatal(...any) }

// plain is the rule as the specification writes it, byte after byte.
func plain(data []byte) []int {
	var all []int
	var h uint64
	start := 0
	for i, b := range data {
		h = h<<1 + gear[b]
		n := i + 1 - start
		if n >= 8192 && h&0xffff000000000000 == 0 || n == 131072 || i+1 == len(data) {
			all = append(all, i+1)
			start, h = i+1, 0
		}
	}
	return all
}

func TestBoundaries(t *testing.T) {
	tests := []struct {
		name string
		data []byte
		want []int
	}{
		{"nothing", nil, nil},
		{"one byte", []byte{7}, []int{1}},
		{"random", codectest.Bytes(0, 1_000_000), []int{
			84493, 134421, 144853, 243318, 271793, 336457, 467529, 494581, 582000, 596735,
			616815, 653164, 678202, 724510, 815591, 827760, 958832, 991092, 1000000,
		}},
		{"random, other seed", codectest.Bytes(1, 256_000), []int{25125, 104497, 235569, 256000}},
		{"one value", bytes.Repeat([]byte{59}, 1_000_000), []int{131072, 262144, 393216, 524288, 655360, 786432, 917504, 1000000}},
		{"zeros", make([]byte, 300_000), []int{131072, 262144, 300000}},
		{"a value that old writers cut at", bytes.Repeat([]byte{17}, 300_000), []int{131072, 262144, 300000}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := ends(t, bytes.NewReader(tt.data)); !slices.Equal(got, tt.want) {
				t.Errorf("chunks end at %v, want %v", got, tt.want)
			}
			for _, n := range []int{1, 37, 255, 65536} {
				if got := ends(t, pieces(tt.data, n)); !slices.Equal(got, tt.want) {
					t.Errorf("read by %d bytes, chunks end at %v, want %v", n, got, tt.want)
				}
			}
		})
	}
}

// pieces returns a reader that gives n bytes at a time.
func pieces(data []byte, n int) io.Reader {
	return readFunc(func(b []byte) (int, error) {
		if len(data) == 0 {
			return 0, io.EOF
		}
		m := copy(b[:min(n, len(b))], data)
		data = data[m:]
		return m, nil
	})
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(b []byte) (int, error) { return f(b) }

// The series of the reference for the least size: 128 streams that hit the rule around
// it.
func TestTriggerSeries(t *testing.T) {
	var series struct {
		Pattern []int
		Cases   []struct {
			Padding    int
			Boundaries []int
		}
	}
	codectest.ReadJSON(t, &series, "testdata", "trigger-series.json")
	var pattern []byte
	for _, b := range series.Pattern {
		pattern = append(pattern, byte(b))
	}
	for _, want := range series.Cases {
		data := append(bytes.Clone(pattern), make([]byte, want.Padding)...)
		for len(data) < 65536 {
			data = append(data, data[:min(len(data), 65536-len(data))]...)
		}
		if got := ends(t, bytes.NewReader(data)); !slices.Equal(got, want.Boundaries) {
			t.Errorf("padding %d: chunks end at %v, want %v", want.Padding, got, want.Boundaries)
		}
	}
	if len(series.Cases) != 128 {
		t.Errorf("%d cases, want 128", len(series.Cases))
	}
}

// However the stream arrives, and whatever it holds, chunks are those of the plain rule.
func TestRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := draw(t)
		step := rapid.IntRange(1, 200_000).Draw(t, "step")
		got := ends(t, pieces(data, step))
		if want := plain(data); !slices.Equal(got, want) {
			t.Fatalf("chunks end at %v, want %v", got, want)
		}
	})
}

// The hash is the same however it is computed.
func TestRoll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := draw(t)
		data = data[rapid.IntRange(0, min(len(data), 20)).Draw(t, "from"):]
		for h := rapid.Uint64().Draw(t, "hash"); ; {
			n, next := roll(data, h)
			if m, want := rollGo(data, h); n != m || next != want {
				t.Fatalf("roll = %d, %#x, in Go %d, %#x", n, next, m, want)
			}
			if data, h = data[n:], next; len(data) == 0 {
				return
			}
		}
	})
}

// draw makes data in which runs of one value, repetitions and noise follow each other.
func draw(t *rapid.T) []byte {
	var data []byte
	for range rapid.IntRange(0, 6).Draw(t, "parts") {
		n := rapid.IntRange(0, 300_000).Draw(t, "size")
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			data = append(data, codectest.Bytes(rapid.Uint64().Draw(t, "seed"), n)...)
		case 1:
			data = append(data, bytes.Repeat([]byte{rapid.Byte().Draw(t, "value")}, n)...)
		case 2:
			if len(data) > 0 {
				from := rapid.IntRange(0, len(data)-1).Draw(t, "from")
				data = append(data, data[from:min(len(data), from+n)]...)
			}
		}
	}
	return data
}

// Two streams after each other through one Chunker do not touch.
func TestReset(t *testing.T) {
	a, b := codectest.Bytes(3, 700_001), codectest.Bytes(4, 90_000)
	c := New(bytes.NewReader(a))
	for range 3 {
		if _, err := c.Next(); err != nil {
			t.Fatal(err)
		}
	}
	c.Reset(bytes.NewReader(b))
	var got []byte
	for {
		chunk, err := c.Next()
		if err != nil {
			break
		}
		got = append(got, chunk...)
	}
	if !bytes.Equal(got, b) {
		t.Error("the second stream came out changed")
	}
}

// A reader that fails gives its error and no chunk of what it did not give.
func TestReaderFails(t *testing.T) {
	broken := errors.New("broken")
	tests := []struct {
		name string
		r    io.Reader
		want error
	}{
		{"broken", iotest.ErrReader(broken), broken},
		{"an end that is none", iotest.ErrReader(fmt.Errorf("%w: %w", broken, io.EOF)), broken},
		{"nothing, for ever", readFunc(func([]byte) (int, error) { return 0, nil }), io.ErrNoProgress},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := New(io.MultiReader(bytes.NewReader(codectest.Bytes(5, 300_000)), tt.r))
			for range 100 {
				if _, err := c.Next(); err != nil {
					if !errors.Is(err, tt.want) {
						t.Errorf("error = %v, want %v", err, tt.want)
					}
					return
				}
			}
			t.Error("no error came")
		})
	}
}

// Chunks have legal sizes, and only the last may be small.
func FuzzNext(f *testing.F) {
	f.Add([]byte("Hello World!"), uint8(3))
	f.Add(codectest.Bytes(6, 20_000), uint8(255))
	f.Fuzz(func(t *testing.T, data []byte, repeat uint8) {
		data = bytes.Repeat(data, 1+int(repeat))
		c := New(bytes.NewReader(data))
		var sizes []int
		var joined []byte
		for {
			chunk, err := c.Next()
			if err != nil {
				break
			}
			sizes = append(sizes, len(chunk))
			joined = append(joined, chunk...)
		}
		if !bytes.Equal(joined, data) {
			t.Fatal("the chunks are not the stream")
		}
		for i, n := range sizes {
			if n > codec.MaxChunkSize || n < MinSize && i < len(sizes)-1 {
				t.Errorf("chunk %d of %d has %d bytes", i, len(sizes), n)
			}
		}
	})
}

func BenchmarkNext(b *testing.B) {
	data := make([]byte, 256<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	c := New(nil)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		c.Reset(bytes.NewReader(data))
		for {
			if _, err := c.Next(); err != nil {
				break
			}
		}
	}
}

func BenchmarkRoll(b *testing.B) {
	data := codectest.Bytes(1, 64<<10)
	for name, f := range map[string]func([]byte, uint64) (int, uint64){"best": roll, "portable": rollGo} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				var h uint64
				for rest := data; len(rest) > 0; {
					var n int
					n, h = f(rest, h)
					rest = rest[n:]
				}
			}
		})
	}
}

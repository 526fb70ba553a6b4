package xorb

import (
	"fmt"
	"io"
	"testing"

	"github.com/xetfs/xetfs/codec/merkle"
)

const benchSize = 64 << 10

var contents = []struct {
	name string
	data []byte
}{
	{"text", textLike(benchSize)},
	{"f32", floatLike(benchSize)},
	{"random", randomLike(benchSize)},
}

var schemes = []Scheme{None, LZ4, ByteGrouping4LZ4}

// BenchmarkUnpack decodes one chunk without looking at its hash, which
// merkle.BenchmarkChunk measures.
func BenchmarkUnpack(b *testing.B) {
	for _, c := range contents {
		for _, s := range schemes {
			run := runOf(b, sample{c.data, s})
			if run.Scheme(0) != s {
				continue // it saves nothing
			}
			b.Run(fmt.Sprintf("%s/%s", c.name, s), func(b *testing.B) { benchmarkUnpack(b, run, run.UnpackUnchecked) })
		}
	}
}

// BenchmarkUnpackVerify is what a read costs: decode and hash.
func BenchmarkUnpackVerify(b *testing.B) {
	for i, c := range contents {
		run := runOf(b, sample{c.data, []Scheme{LZ4, ByteGrouping4LZ4, None}[i]})
		b.Run(c.name, func(b *testing.B) {
			benchmarkUnpack(b, run, func(chunk uint32, dst []byte) error {
				_, err := run.Unpack(chunk, dst)
				return err
			})
		})
	}
}

func benchmarkUnpack(b *testing.B, run *Run, unpack func(chunk uint32, dst []byte) error) {
	dst := make([]byte, run.Size(0))
	b.SetBytes(int64(len(dst)))
	b.ReportAllocs()
	for b.Loop() {
		if err := unpack(0, dst); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWriterAdd packs chunks into xorb after xorb.
func BenchmarkWriterAdd(b *testing.B) {
	for _, c := range contents {
		h := merkle.Chunk(c.data)
		for _, s := range schemes {
			b.Run(fmt.Sprintf("%s/%s", c.name, s), func(b *testing.B) {
				b.SetBytes(benchSize)
				b.ReportAllocs()
				w := NewWriter(io.Discard)
				for b.Loop() {
					err := w.Add(h, c.data, s)
					if err == ErrFull {
						w = NewWriter(io.Discard)
					} else if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkPredict(b *testing.B) {
	for _, c := range contents {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(benchSize)
			b.ReportAllocs()
			for b.Loop() {
				Predict(c.data)
			}
		})
	}
}

// BenchmarkParseRun finds the chunks of a run of 16 MiB.
func BenchmarkParseRun(b *testing.B) {
	var chunks []sample
	for range 256 {
		chunks = append(chunks, sample{contents[2].data, None})
	}
	run := runOf(b, chunks...)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseRun(run.Packed, run.Chunks, run.Hashes); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReadInfo reads the footer of a xorb of 1,000 chunks.
func BenchmarkReadInfo(b *testing.B) {
	x := manyChunks(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := readInfo(x); err != nil {
			b.Fatal(err)
		}
	}
}

package pack

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// discard is a Sink to nowhere.
type discard struct{}

func (discard) PutXorb(context.Context, *xorb.Info, []byte) error { return nil }
func (discard) PutShard(_ context.Context, w *shard.Writer) (codec.Hash, error) {
	b, err := w.Encode()
	return merkle.Chunk(b), err
}

const benchSize = 256 << 20

// benchContents makes the contents that are packed, each of which appears once.
var benchContents = []struct {
	name string
	make func() []byte
}{
	{"text", benchText}, {"f32", benchFloats}, {"random", benchRandom},
}

func benchRandom() []byte {
	b := make([]byte, benchSize)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// benchText is lines of a log, which compress to less than half.
func benchText() []byte {
	rng := rand.New(rand.NewPCG(1, 1))
	words := []string{"request", "from", "client", "took", "reading", "chunk", "of", "file", "and", "was", "served", "cache", "origin", "with", "status"}
	b := make([]byte, 0, benchSize+100)
	for i := 0; len(b) < benchSize; i++ {
		b = fmt.Appendf(b, "2026-11-21T%02d:%02d:%02d ", i/3600%24, i/60%60, i%60)
		for range 6 + rng.IntN(8) {
			b = append(append(b, words[rng.IntN(len(words))]...), ' ')
		}
		b = fmt.Appendf(b, "%x %d\n", rng.Uint32(), rng.IntN(100_000))
	}
	return b[:benchSize]
}

// benchFloats is weights as models have them.
func benchFloats() []byte {
	rng := rand.New(rand.NewPCG(1, 1))
	b := make([]byte, 0, benchSize)
	for len(b) < benchSize {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(rng.NormFloat64()*0.02)))
	}
	return b
}

// BenchmarkPack packs what is new, with and without SHA-256.
func BenchmarkPack(b *testing.B) {
	for _, c := range benchContents {
		data := c.make()
		for _, noSHA := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/sha=%t", c.name, !noSHA), func(b *testing.B) {
				benchmarkPack(b, data, func() Options { return Options{NoSHA: noSHA} })
			})
		}
	}
}

// BenchmarkPackStored packs what is stored already.
func BenchmarkPackStored(b *testing.B) {
	data := benchRandom()
	sink := newMemory()
	w := NewWriter(sink, Options{NoSHA: true})
	if err := w.AddFile(b.Context(), bytes.NewReader(data)); err != nil {
		b.Fatal(err)
	}
	if err := w.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	for _, noSHA := range []bool{false, true} {
		b.Run(fmt.Sprintf("sha=%t", !noSHA), func(b *testing.B) {
			benchmarkPack(b, data, func() Options { return Options{NoSHA: noSHA, Known: newLedger(sink)} })
		})
	}
}

func benchmarkPack(b *testing.B, data []byte, options func() Options) {
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	before := cpuSeconds()
	n := 0
	for b.Loop() {
		w := NewWriter(discard{}, options())
		if err := w.AddFile(b.Context(), bytes.NewReader(data)); err != nil {
			b.Fatal(err)
		}
		if err := w.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric((cpuSeconds()-before)/(float64(n*len(data))/1e9), "cpu-s/GB")
}

// cpuSeconds is what the program has computed so far, on all cores.
func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// BenchmarkSmallFiles packs files of 1 KiB.
func BenchmarkSmallFiles(b *testing.B) {
	data := benchRandom()[:64<<20]
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		w := NewWriter(discard{}, Options{})
		for at := 0; at < len(data); at += 1024 {
			if err := w.AddFile(b.Context(), bytes.NewReader(data[at:at+1024])); err != nil {
				b.Fatal(err)
			}
		}
		if err := w.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

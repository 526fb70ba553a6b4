package shard

import (
	"bytes"
	"sync"
	"testing"

	"github.com/xetfs/xetfs/codec"
)

// million is a stored shard with a million files, made once for all benchmarks.
var million = sync.OnceValues(func() ([]byte, []codec.Hash) {
	w, hashes := manyFiles(1_000_000)
	b, err := w.Encode()
	if err != nil {
		panic(err)
	}
	return b, hashes
})

func openMillion(b *testing.B) (*Reader, []byte, []codec.Hash) {
	shard, hashes := million()
	r, err := open(shard)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	return r, shard, hashes
}

func BenchmarkFileInfo(b *testing.B) {
	r, _, hashes := openMillion(b)
	i := 0
	for b.Loop() {
		i = (i + 7919) % len(hashes)
		if _, err := r.FileInfo(hashes[i]); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFileInfoAbsent(b *testing.B) {
	r, _, hashes := openMillion(b)
	i := 0
	for b.Loop() {
		i = (i + 7919) % len(hashes)
		h := hashes[i]
		h[5]++
		if _, err := r.FileInfo(h); err != ErrNoFile {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadFileInfo(b *testing.B) {
	r, shard, hashes := openMillion(b)
	f, err := r.FileInfo(hashes[0])
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := ReadFileInfo(bytes.NewReader(shard), f.Block); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHeads(b *testing.B) {
	r, _, hashes := openMillion(b)
	b.SetBytes(r.Meta().XorbInfoOffset)
	for b.Loop() {
		n := 0
		for _, err := range r.Heads() {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != len(hashes) {
			b.Fatal(n)
		}
	}
}

func BenchmarkFiles(b *testing.B) {
	r, _, _ := openMillion(b)
	b.SetBytes(r.Meta().XorbInfoOffset)
	for b.Loop() {
		for _, err := range r.Files() {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	w, _ := manyFiles(1_000_000)
	b.SetBytes(w.Size())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.Encode(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpenUpload opens a shard without a footer, and looks one file up.
func BenchmarkOpenUpload(b *testing.B) {
	w, hashes := manyFiles(100_000)
	shard, err := w.EncodeUpload()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(shard)))
	b.ReportAllocs()
	for b.Loop() {
		r, err := open(shard)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := r.FileInfo(hashes[0]); err != nil {
			b.Fatal(err)
		}
	}
}

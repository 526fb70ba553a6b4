package wal

import (
	"encoding/binary"
	"path/filepath"
	"testing"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/cache/disk/internal/vfs"
	"github.com/xetfs/xetfs/codec"
)

const packedSize = 50 << 10 // bytes of a chunk

func benchHash(n int) (h codec.Hash) {
	binary.LittleEndian.PutUint64(h[:], uint64(n)*0x9e3779b97f4a7c15)
	return h
}

// BenchmarkJournal writes and reads back the records of puts.
func BenchmarkJournal(b *testing.B) {
	const records = 200_000
	dir := filepath.Join(b.TempDir(), "cache")
	d, err := vfs.OpenDir(dir, true)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	var id [16]byte
	infos := make([]index.ChunkInfo, 16)
	for i := range infos {
		infos[i] = index.ChunkInfo{Size: packedSize, CRC: uint32(i) * 0x9e3779b9}
	}
	write := func(b *testing.B) *Log {
		_ = d.Remove(Name(1))
		f, err := d.Create(Name(1))
		if err != nil {
			b.Fatal(err)
		}
		l := newLog(f, 1, 0, func(int64) {})
		say := func(r *Record) {
			if err := l.Append(r); err != nil {
				b.Fatal(err)
			}
		}
		say(&Record{Kind: HeaderRecord, Version: FormatVersion, ID: id, Number: 1})
		say(&Record{Kind: EndRecord})
		for n := range 400 {
			say(&Record{Kind: NameRecord, Key: index.Key{Hash: benchHash(n)}})
			say(&Record{Kind: SegmentRecord, Number: uint64(n)})
		}
		for n := range records {
			say(&Record{
				Kind: AddRecord, Number: uint64(n / 500), Off: uint64(n%500) * 16 * packedSize,
				Rows: []index.Row{{Ref: uint32(n / 500), First: uint32(n%500) * 16, N: 16}}, Infos: infos,
			})
			if n%16 == 0 {
				if err := l.Flush(); err != nil {
					b.Fatal(err)
				}
			}
		}
		if err := l.Flush(); err != nil {
			b.Fatal(err)
		}
		return l
	}
	b.Run("append", func(b *testing.B) {
		for b.Loop() {
			l := write(b)
			b.SetBytes(l.size)
			l.f.Close()
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/records, "ns/record")
	})
	b.Run("replay", func(b *testing.B) {
		for b.Loop() {
			r, err := read(d, id, 1)
			if err != nil {
				b.Fatal(err)
			}
			if n, _ := r.Index.Len(); r.Bad != nil || n != records*16 {
				b.Fatal(n, r.Bad)
			}
			b.SetBytes(r.size)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/records, "ns/record")
	})
}

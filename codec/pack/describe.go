package pack

import (
	"slices"
	"sync"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A newShard is the shard that is being made.
type newShard struct {
	shard.Writer
	blocks int
}

// any reports whether there is something in it.
func (s *newShard) any() bool { return s.blocks > 0 }

// describe makes a shard of the files and xorbs that are complete.
func (a *assembler) describe() *newShard {
	s := new(newShard)
	s.Created = a.w.o.Created
	var files []*file
	for _, f := range a.files {
		if f.same == nil && f.id.Shard.IsZero() {
			files = append(files, f)
		}
	}
	a.w.locate(files)
	for _, f := range files {
		s.AddFile(a.w.fileInfo(f))
	}
	listed := map[codec.Hash]bool{}
	for _, x := range a.xorbs {
		if !listed[x.hash] {
			s.AddXorb(xorbInfo(x))
		}
		listed[x.hash] = true
	}
	s.blocks = len(files) + len(listed)
	return s
}

// shardRecord is the size of every record in a shard: a term, a chunk, a block header, and the
// header of the shard.
const shardRecord = 48

// blockSize is the length of the File Info block of f. The block has a header, a record for
// each term and for its verification hash, and one for the SHA-256.
func (w *Writer) blockSize(f *file) int64 {
	records := 1 + 2*len(f.verify)
	if !w.o.NoSHA {
		records++
	}
	return shardRecord * int64(records)
}

// xorbBlockSize is the length of the CAS Info block of x.
func xorbBlockSize(x *openXorb) int64 { return shardRecord * int64(1+len(x.hashes)) }

// Entries of the lookup tables of a shard: of a file or xorb, and of a chunk.
const (
	lookupEntry = 12
	chunkEntry  = 16
)

// locate finds out where the blocks of files will stand in a shard: behind its header,
// in the order of their hashes.
func (w *Writer) locate(files []*file) {
	slices.SortFunc(files, func(a, b *file) int { return a.id.File.Compare(b.id.File) })
	at := int64(shardRecord)
	for _, f := range files {
		f.id.Block = at
		at += w.blockSize(f)
	}
}

// fileInfo is the File Info block of f. All its xorbs are cut.
func (w *Writer) fileInfo(f *file) *shard.FileInfo {
	in := &shard.FileInfo{File: f.id.File, Verify: f.verify, Metadata: !w.o.NoSHA}
	if f.size > 0 {
		in.SHA256 = f.sha256 // that of the empty file is left zero, as by the reference
	}
	in.Terms = make([]codec.Term, len(f.terms))
	for i, t := range f.terms {
		in.Terms[i] = codec.Term{
			Xorb:   t.first.xorb.hash,
			Chunks: codec.ChunkRange{Start: t.first.index, End: t.first.index + t.chunks},
			Size:   t.size,
		}
	}
	return in
}

// xorbInfo is the CAS Info block of x.
func xorbInfo(x *openXorb) *shard.XorbInfo {
	info := &shard.XorbInfo{Xorb: x.hash, Chunks: make([]shard.Chunk, len(x.hashes))}
	for i, h := range x.hashes {
		info.Chunks[i] = shard.Chunk{Hash: h, Start: info.Unpacked, Size: x.sizes[i]}
		info.Unpacked += x.sizes[i]
	}
	if n := len(x.ends); n > 0 {
		info.Packed = x.ends[n-1]
	}
	return info
}

// XorbInfo returns the CAS Info block of a xorb whose chunks have hashes.
func XorbInfo(x codec.Hash, in *xorb.Info) *shard.XorbInfo {
	info := &shard.XorbInfo{Xorb: x, Chunks: make([]shard.Chunk, in.Len()), Packed: in.PackedEnd[in.Len()-1]}
	for i, h := range in.Chunks {
		info.Chunks[i] = shard.Chunk{Hash: h, Start: info.Unpacked, Size: in.UnpackedEnd[i] - info.Unpacked}
		info.Unpacked = in.UnpackedEnd[i]
	}
	return info
}

// A storedShard is what the deduper may forget.
type storedShard struct {
	hash  codec.Hash
	xorbs []*openXorb
}

// storedShards pass from the assembler to the deduper.
type storedShards struct {
	mu   sync.Mutex
	list []storedShard // guarded by mu
}

func (s *storedShards) put(one storedShard) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, one)
}

// take returns what was put since the last time.
func (s *storedShards) take() []storedShard {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.list
	s.list = nil
	return list
}

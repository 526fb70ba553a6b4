package harness

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// StoreOptions say how a store is written. The zero value is what servers keep: footers,
// CAS Info, verification hashes, SHA-256.
type StoreOptions struct {
	ChunkSize  int  // every chunk but a file's last; 0: 64 KiB
	XorbChunks int  // most chunks of one xorb; 0: what fits
	NoFooter   bool // xorbs as they are uploaded
	NoCASInfo  bool // shards that describe files alone
	NoVerify   bool // no verification hashes
	NoSHA256   bool
	Upload     bool // shards without tables and footer
}

// A Store is a folder of shards and xorbs, being written. It keeps one chunk in memory
// and some 100 bytes of every other, so files may have any size.
type Store struct {
	Dir     string
	options StoreOptions
	shard   shard.Writer

	// The xorb being written.
	xorb   *xorb.Writer
	chunks int
	file   *os.File
	buf    *bufio.Writer
	terms  []openTerm

	Info map[codec.Hash]*xorb.Info // of finished xorbs
}

// An openTerm is a term whose xorb has no name yet.
type openTerm struct {
	file *shard.FileInfo
	term int
}

// A Stored is one file of a store.
type Stored struct {
	Hash   codec.Hash
	Size   int64
	SHA256 [32]byte
	Info   *shard.FileInfo // its terms are complete when the Store is closed
}

// NewStore begins a store in an empty folder.
func NewStore(dir string, o StoreOptions) *Store {
	if o.ChunkSize == 0 {
		o.ChunkSize = 64 << 10
	}
	if o.XorbChunks == 0 {
		o.XorbChunks = codec.MaxXorbChunks
	}
	return &Store{Dir: dir, options: o, Info: map[codec.Hash]*xorb.Info{}}
}

// Add stores a file, chunks packed by scheme s.
func (s *Store) Add(r io.Reader, scheme xorb.Scheme) (Stored, error) {
	var (
		fi     = &shard.FileInfo{}
		sum    = sha256.New()
		leaves []merkle.Leaf
		chunk  = make([]byte, s.options.ChunkSize)
		size   int64
	)
	for {
		n, err := io.ReadFull(r, chunk)
		if n > 0 {
			sum.Write(chunk[:n])
			h := merkle.Chunk(chunk[:n])
			leaves = append(leaves, merkle.Leaf{Hash: h, Size: uint64(n)})
			size += int64(n)
			if err := s.addChunk(fi, h, chunk[:n], scheme); err != nil {
				return Stored{}, err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			fi.File = merkle.File(leaves)
			out := Stored{Hash: fi.File, Size: size, SHA256: [32]byte(sum.Sum(nil)), Info: fi}
			if !s.options.NoSHA256 {
				fi.SHA256 = out.SHA256
			}
			s.verify(fi, leaves)
			s.shard.AddFile(fi)
			return out, nil
		case err != nil:
			return Stored{}, err
		}
	}
}

// addChunk adds a chunk to the open xorb and the term that ends there.
func (s *Store) addChunk(fi *shard.FileInfo, h codec.Hash, chunk []byte, scheme xorb.Scheme) error {
	if s.xorb != nil && s.chunks >= s.options.XorbChunks {
		if err := s.finishXorb(); err != nil {
			return err
		}
	}
	if s.xorb == nil {
		if err := s.startXorb(); err != nil {
			return err
		}
	}
	err := s.xorb.Add(h, chunk, scheme)
	if errors.Is(err, xorb.ErrFull) {
		if err := s.finishXorb(); err != nil {
			return err
		}
		return s.addChunk(fi, h, chunk, scheme)
	}
	if err != nil {
		return err
	}
	s.chunks++
	s.extendTerm(fi, len(chunk))
	return nil
}

// extendTerm makes the last chunk of the open xorb part of a file.
func (s *Store) extendTerm(fi *shard.FileInfo, size int) {
	end := uint32(s.chunks)
	last := openTerm{fi, len(fi.Terms) - 1}
	if n := len(s.terms); n == 0 || s.terms[n-1] != last {
		fi.Terms = append(fi.Terms, codec.Term{Chunks: codec.ChunkRange{Start: end - 1, End: end - 1}})
		last.term++
		s.terms = append(s.terms, last)
	}
	fi.Terms[last.term].Chunks.End = end
	fi.Terms[last.term].Size += uint32(size)
}

// verify adds the verification hash of every term.
func (s *Store) verify(fi *shard.FileInfo, leaves []merkle.Leaf) {
	if s.options.NoVerify {
		return
	}
	fi.Verify = []codec.Hash{}
	for _, t := range fi.Terms {
		hashes := make([]codec.Hash, t.Chunks.Len())
		for i := range hashes {
			hashes[i] = leaves[i].Hash
		}
		leaves = leaves[len(hashes):]
		fi.Verify = append(fi.Verify, merkle.Term(hashes))
	}
}

func (s *Store) startXorb() (err error) {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return err
	}
	if s.file, err = os.CreateTemp(s.Dir, "new-*"); err != nil {
		return err
	}
	s.buf = bufio.NewWriterSize(s.file, 1<<20)
	s.xorb = xorb.NewWriter(s.buf)
	return nil
}

// finishXorb gives the open xorb its footer and its name, and its name to the terms.
func (s *Store) finishXorb() error {
	if s.xorb == nil {
		return nil
	}
	in := s.xorb.Info()
	if !s.options.NoFooter {
		s.buf.Write(in.AppendFooter(nil)) // Flush returns the error
	}
	if err := errors.Join(s.buf.Flush(), s.file.Close(), os.Chmod(s.file.Name(), 0o644)); err != nil {
		return err
	}
	if err := os.Rename(s.file.Name(), s.XorbPath(in.Xorb)); err != nil {
		return err
	}
	for _, open := range s.terms {
		open.file.Terms[open.term].Xorb = in.Xorb
	}
	if s.Info[in.Xorb] == nil && !s.options.NoCASInfo {
		s.shard.AddXorb(casInfo(in))
	}
	s.Info[in.Xorb] = in
	s.xorb, s.chunks, s.terms = nil, 0, nil
	return nil
}

func casInfo(in *xorb.Info) *shard.XorbInfo {
	x := &shard.XorbInfo{Xorb: in.Xorb, Packed: in.PackedEnd[in.Len()-1], Unpacked: in.UnpackedEnd[in.Len()-1]}
	start := uint32(0)
	for i, h := range in.Chunks {
		x.Chunks = append(x.Chunks, shard.Chunk{Hash: h, Start: start, Size: in.UnpackedEnd[i] - start})
		start = in.UnpackedEnd[i]
	}
	return x
}

// Close finishes the last xorb and writes the shard. It returns the shard's hash.
func (s *Store) Close() (codec.Hash, error) {
	if err := s.finishXorb(); err != nil {
		return codec.Hash{}, err
	}
	encode := s.shard.Encode
	if s.options.Upload {
		encode = s.shard.EncodeUpload
	}
	b, err := encode()
	if err != nil {
		return codec.Hash{}, err
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return codec.Hash{}, err
	}
	h := merkle.Chunk(b)
	return h, os.WriteFile(s.ShardPath(h), b, 0o644)
}

// XorbPath returns the path of a xorb.
func (s *Store) XorbPath(h codec.Hash) string { return filepath.Join(s.Dir, h.String()+".xorb") }

// ShardPath returns the path of a shard.
func (s *Store) ShardPath(h codec.Hash) string { return filepath.Join(s.Dir, h.String()+".shard") }

// StoreFiles writes a store of files that are given whole, and returns them in order.
func StoreFiles(t testing.TB, dir string, o StoreOptions, scheme xorb.Scheme, files ...[]byte) (*Store, []Stored) {
	t.Helper()
	s := NewStore(dir, o)
	var stored []Stored
	for _, b := range files {
		f, err := s.Add(bytes.NewReader(b), scheme)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, f)
	}
	if _, err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return s, stored
}

// ShardOnly writes a shard of files and xorbs as they are, right or wrong.
func ShardOnly(t testing.TB, dir string, files []*shard.FileInfo, xorbs []*shard.XorbInfo) codec.Hash {
	t.Helper()
	var w shard.Writer
	for _, f := range files {
		w.AddFile(f)
	}
	for _, x := range xorbs {
		w.AddXorb(x)
	}
	b, err := w.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	h := merkle.Chunk(b)
	if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s.shard", h)), b, 0o644); err != nil {
		t.Fatal(err)
	}
	return h
}

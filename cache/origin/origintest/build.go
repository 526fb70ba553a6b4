package origintest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A Form describes how a Builder writes objects. The zero value is the form of servers, with
// footers, CAS Info, verification hashes and SHA-256.
type Form struct {
	Schemes    []xorb.Scheme   // of the chunks of a xorb, in turn; nil: LZ4
	XorbChunks int             // Add starts another xorb after this number of chunks; 0: 16
	Footer     xorb.FooterKind // if not NoFooter
	NoFooter   bool
	NoCASInfo  bool
	NoVerify   bool
	NoSHA256   bool
	Upload     bool     // the shard has no tables and no footer
	Key        [32]byte // if not zero, the chunk hashes of the shard are keyed
}

// A Builder makes xorbs and one shard out of files.
type Builder struct {
	Xorbs []*Xorb
	Files []*File

	t     testing.TB
	form  Form
	known map[codec.Hash]place
}

// A place is where a chunk is stored.
type place struct {
	x     *Xorb
	index int
}

// A Xorb is a xorb of a Builder.
type Xorb struct {
	Info   *xorb.Info
	Chunks [][]byte // unpacked
	Bytes  []byte   // as stored
}

// Hash returns the name of the xorb.
func (x *Xorb) Hash() codec.Hash { return x.Info.Xorb }

// Key returns the key of the xorb.
func (x *Xorb) Key() names.Key { return names.XorbKey(x.Info.Xorb) }

// Unpacked returns the unpacked bytes of some chunks.
func (x *Xorb) Unpacked(r codec.ChunkRange) []byte {
	return slices.Concat(x.Chunks[r.Start:r.End]...)
}

// Term returns the term of chunks start ≤ i < end.
func (x *Xorb) Term(start, end int) Term { return Term{x, start, end} }

// All returns the term of all chunks.
func (x *Xorb) All() Term { return Term{x, 0, len(x.Chunks)} }

// A Term is a range of chunks of a xorb in a file.
type Term struct {
	X          *Xorb
	Start, End int
}

// A File is a file that a Builder stored.
type File struct {
	Info  *shard.FileInfo
	Terms []Term
}

// ID returns the FileID of the file, without the shard.
func (f *File) ID() codec.FileID { return codec.FileID{File: f.Info.File} }

// Bytes returns the bytes of the file.
func (f *File) Bytes() []byte {
	var b []byte
	for _, t := range f.Terms {
		for _, c := range t.X.Chunks[t.Start:t.End] {
			b = append(b, c...)
		}
	}
	return b
}

// NewBuilder returns a Builder of objects in one form.
func NewBuilder(t testing.TB, form Form) *Builder {
	if form.XorbChunks == 0 {
		form.XorbChunks = 16
	}
	if form.Schemes == nil {
		form.Schemes = []xorb.Scheme{xorb.LZ4}
	}
	return &Builder{t: t, form: form, known: map[codec.Hash]place{}}
}

// Xorb stores chunks in a xorb of their own.
func (b *Builder) Xorb(chunks ...[]byte) *Xorb {
	b.t.Helper()
	var body bytes.Buffer
	w := xorb.NewWriter(&body)
	for i, c := range chunks {
		if err := w.Add(merkle.Chunk(c), c, b.form.Schemes[i%len(b.form.Schemes)]); err != nil {
			b.t.Fatal(err)
		}
	}
	x := &Xorb{Info: w.Info(), Chunks: chunks, Bytes: body.Bytes()}
	switch {
	case b.form.NoFooter:
	case b.form.Footer == xorb.FooterV0:
		x.Bytes = appendFooterV0(x.Bytes, x.Info)
	default:
		x.Bytes = x.Info.AppendFooter(x.Bytes)
	}
	b.Xorbs = append(b.Xorbs, x)
	return x
}

// appendFooterV0 appends a footer of version 0, which has no unpacked sizes.
//
//	offset  size  field
//	     0     8  "XETBLOB", version 0
//	     8    32  hash of the xorb
//	    40     4  number of chunks, n
//	    44    4n  ends of the packed chunks
//	     …   32n  hashes of the chunks
//	     …    16  free
//	     …     4  length of all before
func appendFooterV0(b []byte, in *xorb.Info) []byte {
	start := len(b)
	b = append(append(b, "XETBLOB\x00"...), in.Xorb[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(in.Len()))
	for _, end := range in.PackedEnd {
		b = binary.LittleEndian.AppendUint32(b, end)
	}
	for _, h := range in.Chunks {
		b = append(b, h[:]...)
	}
	b = append(b, make([]byte, 16)...)
	return binary.LittleEndian.AppendUint32(b, uint32(len(b)-start))
}

// File stores a file made of terms.
func (b *Builder) File(terms ...Term) *File {
	f := &File{Info: &shard.FileInfo{}, Terms: terms}
	var leaves []merkle.Leaf
	sum := sha256.New()
	for _, t := range terms {
		term := codec.Term{Xorb: t.X.Hash(), Chunks: codec.ChunkRange{Start: uint32(t.Start), End: uint32(t.End)}}
		for i := t.Start; i < t.End; i++ {
			term.Size += uint32(len(t.X.Chunks[i]))
			leaves = append(leaves, merkle.Leaf{Hash: t.X.Info.Chunks[i], Size: uint64(len(t.X.Chunks[i]))})
			if !b.form.NoSHA256 {
				sum.Write(t.X.Chunks[i])
			}
		}
		f.Info.Terms = append(f.Info.Terms, term)
		if !b.form.NoVerify {
			f.Info.Verify = append(f.Info.Verify, merkle.Term(t.X.Info.Chunks[t.Start:t.End]))
		}
	}
	f.Info.File = merkle.File(leaves)
	if !b.form.NoSHA256 {
		f.Info.SHA256 = [32]byte(sum.Sum(nil))
	}
	b.Files = append(b.Files, f)
	return f
}

// Add stores a file cut into chunks of the given sizes, the last of which repeats.
// Chunks that are stored already are not stored again.
func (b *Builder) Add(content []byte, sizes ...int) *File {
	b.t.Helper()
	var fresh, all [][]byte
	for i := 0; len(content) > 0; i++ {
		n := min(len(content), sizes[min(i, len(sizes)-1)])
		chunk := content[:n]
		content = content[n:]
		all = append(all, chunk)
		if h := merkle.Chunk(chunk); b.known[h] == (place{}) {
			b.known[h] = place{index: -1} // until its xorb is written
			fresh = append(fresh, chunk)
		}
	}
	for group := range slices.Chunk(fresh, b.form.XorbChunks) {
		x := b.Xorb(group...)
		for i, h := range x.Info.Chunks {
			b.known[h] = place{x, i}
		}
	}
	return b.File(b.terms(all)...)
}

// terms joins chunks that follow each other in one xorb.
func (b *Builder) terms(chunks [][]byte) []Term {
	var terms []Term
	for _, c := range chunks {
		p := b.known[merkle.Chunk(c)]
		if n := len(terms); n > 0 && terms[n-1].X == p.x && terms[n-1].End == p.index {
			terms[n-1].End++
			continue
		}
		terms = append(terms, p.x.Term(p.index, p.index+1))
	}
	return terms
}

// Shard returns the shard with all files and xorbs.
func (b *Builder) Shard() []byte {
	b.t.Helper()
	var w shard.Writer
	for _, f := range b.Files {
		w.AddFile(f.Info)
	}
	for _, x := range b.Xorbs {
		if !b.form.NoCASInfo {
			w.AddXorb(b.casInfo(x))
		}
	}
	encode := w.Encode
	if b.form.Upload {
		encode = w.EncodeUpload
	}
	out, err := encode()
	if err != nil {
		b.t.Fatal(err)
	}
	if b.form.Key != ([32]byte{}) {
		copy(out[len(out)-200+72:], b.form.Key[:]) // of the footer
	}
	return out
}

// IDs returns the FileID of each file, with the place of its block in the shard, in the order of
// the shard.
func (b *Builder) IDs() (ids []codec.FileID) {
	b.t.Helper()
	encoded := b.Shard()
	r, err := shard.NewReader(bytes.NewReader(encoded), int64(len(encoded)))
	if err != nil {
		b.t.Fatal(err)
	}
	s := merkle.Chunk(encoded)
	for head, err := range r.Heads() {
		if err != nil {
			b.t.Fatal(err)
		}
		ids = append(ids, codec.FileID{File: head.File, Shard: s, Block: head.Block})
	}
	return ids
}

func (b *Builder) casInfo(x *Xorb) *shard.XorbInfo {
	info := &shard.XorbInfo{Xorb: x.Hash(), Packed: uint32(len(x.Bytes))}
	for i, h := range x.Info.Chunks {
		if b.form.Key != ([32]byte{}) {
			h = merkle.Keyed(h, b.form.Key)
		}
		size := uint32(len(x.Chunks[i]))
		info.Chunks = append(info.Chunks, shard.Chunk{Hash: h, Start: info.Unpacked, Size: size})
		info.Unpacked += size
	}
	return info
}

// Objects returns the xorbs and the shard. The key of the shard has the hash of its bytes.
func (b *Builder) Objects() map[names.Key][]byte {
	b.t.Helper()
	s := b.Shard()
	objects := map[names.Key][]byte{names.ShardKey(merkle.Chunk(s)): s}
	for _, x := range b.Xorbs {
		objects[x.Key()] = x.Bytes
	}
	return objects
}

// Put puts all objects into a store and returns the hash of the shard.
func (b *Builder) Put(s origin.WriteStore) codec.Hash {
	b.t.Helper()
	objects := b.Objects()
	for _, k := range slices.Sorted(maps.Keys(objects)) {
		if err := Replace(s, k, objects[k]); err != nil {
			b.t.Fatal(err)
		}
	}
	return merkle.Chunk(b.Shard())
}

// Store returns a remote store with all shards and xorbs of b.
func (b *Builder) Store() origin.WriteStore {
	b.t.Helper()
	s := Memory()
	b.Put(s)
	return s
}

// LocalStore returns a local store with all shards and xorbs of b.
func (b *Builder) LocalStore() origin.WriteStore {
	b.t.Helper()
	s := LocalMemory()
	b.Put(s)
	return s
}

// Close closes a store at the end of a test.
func Close(t testing.TB, c interface{ Close() error }) {
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// Get returns one object of a store.
func Get(t testing.TB, s origin.Store, k names.Key) []byte {
	t.Helper()
	b, _, err := s.Get(context.Background(), k, "")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

package shard

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/codec"
)

func TestWriteExamples(t *testing.T) {
	empty := &FileInfo{Verify: []codec.Hash{}, Metadata: true}
	tests := []struct {
		name  string
		files []*FileInfo
		xorbs []*XorbInfo
		want  []byte
	}{
		{"nothing, for upload", nil, nil, emptyUpload},
		{"nothing, stored", nil, nil, emptyStored},
		{"an empty file, for upload", []*FileInfo{empty}, nil, emptyFileUpload},
		{"hello, for upload", []*FileInfo{helloFile(t)}, []*XorbInfo{helloXorb(t)}, helloUpload},
		{"hello, stored", []*FileInfo{helloFile(t)}, []*XorbInfo{helloXorb(t)}, helloStored},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := contents{files: tt.files, xorbs: tt.xorbs}.writer()
			encode := w.Encode
			if strings.HasSuffix(tt.name, "upload") {
				encode = w.EncodeUpload
			}
			sameBytes(t, tt.want, encode)
		})
	}
}

func TestWriterCreated(t *testing.T) {
	w := Writer{Created: time.Unix(1_700_000_000, 999)}
	b, err := w.Encode()
	if err != nil {
		t.Fatal(err)
	}
	sameBytes(t, put64(emptyStored, 144+104, 1_700_000_000), func() ([]byte, error) { return b, nil })
}

// The empty file is marked as the files beside it are.
func TestWriterMarksEmptyFile(t *testing.T) {
	plain := helloFile(t)
	plain.Verify = nil
	tests := []struct {
		name  string
		files []*FileInfo
		flags uint32 // of the empty file, which is the first
	}{
		{"beside one with verification", []*FileInfo{helloFile(t), {}}, flagVerify},
		{"beside one without", []*FileInfo{plain, {}}, 0},
		{"alone", []*FileInfo{{}}, 0},
		{"marked by its maker", []*FileInfo{{Verify: []codec.Hash{}}}, flagVerify},
		{"with SHA-256", []*FileInfo{{SHA256: [32]byte{1}}}, flagMetadata},
		{"with a SHA-256 that is zero", []*FileInfo{{Metadata: true}}, flagMetadata},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := contents{files: tt.files}.writer().EncodeUpload()
			if err != nil {
				t.Fatal(err)
			}
			if flags := binary.LittleEndian.Uint32(b[48+32:]); flags != tt.flags {
				t.Errorf("flags = %08x, want %08x", flags, tt.flags)
			}
			if _, err := seek(b); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWriterRefuses(t *testing.T) {
	bookend := codec.Hash(appendBookend(nil))
	file := func(change func(f *FileInfo)) contents {
		f := helloFile(t)
		change(f)
		return contents{files: []*FileInfo{f, helloFile(t)}}
	}
	xorb := func(change func(x *XorbInfo)) contents {
		x := helloXorb(t)
		change(x)
		return contents{xorbs: []*XorbInfo{x}}
	}
	tests := []struct {
		name   string
		in     contents
		reason string // how the error ends
	}{
		{"a file like a bookend", file(func(f *FileInfo) { f.File = bookend }), "hash is that of a bookend"},
		{"a xorb like a bookend", xorb(func(x *XorbInfo) { x.Xorb = bookend }), "hash is that of a bookend"},
		{"a term without chunks", file(func(f *FileInfo) { f.Terms[0].Chunks.End = 0 }), "term 0: [0, 0) are no chunks"},
		{"a term without bytes", file(func(f *FileInfo) { f.Terms[0].Size = 0 }), "term 0: chunks [0, 1) cannot have 0 bytes"},
		{"too few verification hashes", file(func(f *FileInfo) { f.Verify = f.Verify[:0] }), "0 verification hashes for 1 terms"},
		{"verification in some files", file(func(f *FileInfo) { f.Verify = nil }), "some files have verification hashes and some have none"},
		{"a xorb without chunks", xorb(func(x *XorbInfo) { x.Chunks = nil }), "a xorb without chunks"},
		{"a xorb with too many chunks", xorb(func(x *XorbInfo) { x.Chunks = make([]Chunk, 10_000) }), "8193 chunks are more than a xorb has"},
		{"a chunk without bytes", xorb(func(x *XorbInfo) { x.Chunks[0].Size = 0 }), "chunk 0: size 0 is out of range"},
		{"a chunk out of place", xorb(func(x *XorbInfo) { x.Chunks[0].Start = 3 }), "chunk 0: begins at byte 3, the chunk before it ends at 0"},
		{"a xorb of other size", xorb(func(x *XorbInfo) { x.Unpacked = 13 }), "the chunks have 12 bytes, the xorb says 13"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := tt.in.writer()
			_, err := w.Encode()
			_, uploadErr := w.EncodeUpload()
			if err == nil || uploadErr == nil || !strings.HasSuffix(err.Error(), ": "+tt.reason) {
				t.Errorf("errors = %v, %v, want one that ends in %q", err, uploadErr, tt.reason)
			}
		})
	}
}

// A written shard is read in the order of the hashes.
func TestWriteRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawContents(t)
		w := want.writer()
		size := w.Size()
		sortContents(&want)
		for stored, encode := range map[bool]func() ([]byte, error){true: w.Encode, false: w.EncodeUpload} {
			b, err := encode()
			if err != nil {
				t.Fatal(err)
			}
			if stored && int64(len(b)) != size {
				t.Fatalf("Size said %d, Encode wrote %d bytes", size, len(b))
			}
			r, err := open(b)
			if err != nil {
				t.Fatal(err)
			}
			got, err := scan(r)
			if err != nil {
				t.Fatal(err)
			}
			if d := diff(want.content(), got.content()); d != "" {
				t.Fatal(d)
			}
			if err := r.CheckTables(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func sortContents(c *contents) {
	slices.SortStableFunc(c.files, func(a, b *FileInfo) int { return a.File.Compare(b.File) })
	slices.SortStableFunc(c.xorbs, func(a, b *XorbInfo) int { return a.Xorb.Compare(b.Xorb) })
}

// drawContents draws files and xorbs with hashes that often share their key.
func drawContents(t *rapid.T) contents {
	var c contents
	verify := rapid.Bool().Draw(t, "verify")
	var keys [2][256]int // files and xorbs of each key; more than maxEqual are not found
	for range rapid.IntRange(0, 8).Draw(t, "files") {
		f := &FileInfo{File: drawHash(t)}
		if keys[0][f.File[0]]++; keys[0][f.File[0]] > maxEqual {
			continue
		}
		for range rapid.IntRange(0, 5).Draw(t, "terms") {
			start := rapid.Uint32Range(0, 8000).Draw(t, "start")
			n := rapid.Uint32Range(1, 10).Draw(t, "chunks")
			size := rapid.Uint32Range(n, n*codec.MaxChunkSize).Draw(t, "size")
			f.Terms = append(f.Terms, codec.Term{Xorb: drawHash(t), Chunks: codec.ChunkRange{Start: start, End: start + n}, Size: size})
			if verify {
				f.Verify = append(f.Verify, drawHash(t))
			}
		}
		if f.Metadata = rapid.Bool().Draw(t, "metadata"); f.Metadata {
			f.SHA256 = drawHash(t)
		}
		c.files = append(c.files, f)
	}
	for range rapid.IntRange(0, 4).Draw(t, "xorbs") {
		x := &XorbInfo{Xorb: drawHash(t), Packed: rapid.Uint32().Draw(t, "packed")}
		if keys[1][x.Xorb[0]]++; keys[1][x.Xorb[0]] > maxEqual {
			continue
		}
		for range rapid.IntRange(1, 6).Draw(t, "chunks") {
			size := rapid.Uint32Range(1, codec.MaxChunkSize).Draw(t, "size")
			x.Chunks = append(x.Chunks, Chunk{drawHash(t), x.Unpacked, size, rapid.Bool().Draw(t, "dedup")})
			x.Unpacked += size
		}
		c.xorbs = append(c.xorbs, x)
	}
	return c
}

func drawHash(t *rapid.T) codec.Hash {
	return codec.Hash{0: rapid.ByteRange(0, 3).Draw(t, "key"), 31: rapid.Byte().Draw(t, "rest")}
}

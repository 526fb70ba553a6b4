package shard

import (
	"bytes"
	"encoding/hex"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
)

// helloFile and helloXorb are what the examples tell of.
func helloFile(t testing.TB) *FileInfo {
	xorb := parseHash(t, "d8d408e608fb9ca213b9909a65d86d725f2de4d8d540324be8a363e7a6e228cb")
	sha, err := hex.DecodeString("7f83b1657ff1fc53b92dc18148a1d65dfc2d4b1fa3d677284addd200126d9069")
	if err != nil {
		t.Fatal(err)
	}
	return &FileInfo{
		File:     parseHash(t, "a9dae0ad88b060bdd7e7c87abdcf95b132c95a0414b06d4f6beb68d287b87165"),
		Terms:    []codec.Term{{Xorb: xorb, Chunks: codec.ChunkRange{End: 1}, Size: 12}},
		Verify:   []codec.Hash{codec.Hash(helloStored[144:])},
		SHA256:   [32]byte(sha),
		Metadata: true,
		Block:    48,
	}
}

func helloXorb(t testing.TB) *XorbInfo {
	h := parseHash(t, "d8d408e608fb9ca213b9909a65d86d725f2de4d8d540324be8a363e7a6e228cb")
	return &XorbInfo{Xorb: h, Unpacked: 12, Chunks: []Chunk{{Hash: h, Size: 12}}}
}

func TestReadExamples(t *testing.T) {
	keyedXorb := helloXorb(t)
	keyedXorb.Chunks[0].Hash, keyedXorb.Chunks[0].Dedup = codec.Hash(helloKeyed[144:]), true
	files, xorbs := []*FileInfo{helloFile(t)}, []*XorbInfo{helloXorb(t)}
	emptyFile := []*FileInfo{{Verify: []codec.Hash{}, Metadata: true, Block: 48}}
	tests := []struct {
		name string
		in   []byte
		want contents
	}{
		{"nothing, for upload", emptyUpload, contents{meta: Meta{FileInfoOffset: 48, XorbInfoOffset: 96}}},
		{"nothing, stored", emptyStored, contents{meta: Meta{
			Footer: true, FileInfoOffset: 48, XorbInfoOffset: 96, FooterOffset: 144, Expires: noExpiry,
			FileTable: Table{144, 0}, XorbTable: Table{144, 0}, ChunkTable: Table{144, 0},
		}}},
		{"an empty file, for upload", emptyFileUpload, contents{files: emptyFile, meta: Meta{FileInfoOffset: 48, XorbInfoOffset: 192}}},
		{"hello, for upload", helloUpload, contents{files, xorbs, Meta{FileInfoOffset: 48, XorbInfoOffset: 288}}},
		{"hello, stored", helloStored, contents{files, xorbs, Meta{
			Footer: true, FileInfoOffset: 48, XorbInfoOffset: 288, FooterOffset: 472, Expires: noExpiry,
			FileTable: Table{432, 1}, XorbTable: Table{444, 1}, ChunkTable: Table{456, 1}, FileBytes: 12, UnpackedBytes: 12,
		}}},
		{"hello, keyed", helloKeyed, contents{xorbs: []*XorbInfo{keyedXorb}, meta: Meta{
			Footer: true, FileInfoOffset: 48, XorbInfoOffset: 96, FooterOffset: 240,
			FileTable: Table{240, 0}, XorbTable: Table{240, 0}, ChunkTable: Table{240, 0},
			Key: [32]byte(unhex("8967452301efcdab8967452301efcdab8967452301efcdab8967452301efcdab")), Keyed: true,
			Created: 1700000000, Expires: 1700604800, UnpackedBytes: 12,
		}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.meta.Version, tt.want.meta.Size = 2, int64(len(tt.in))
			got, err := seek(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if d := diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// Heads and Blocks return for each file what Files returns for it.
func TestHeads(t *testing.T) {
	for _, b := range [][]byte{helloStored, helloUpload, emptyFileUpload, emptyUpload, codectest.Read(t, "testdata/stored.shard")} {
		r, err := open(b)
		if err != nil {
			t.Fatal(err)
		}
		var want, got []FileHead
		blocks := map[codec.Hash]int64{}
		for f, err := range r.Files() {
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, FileHead{f.File, f.Block, f.Size(), len(f.Terms), f.SHA256})
			blocks[f.File] = f.Block
		}
		for h, err := range r.Heads() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, h)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Files (-), Heads (+):\n%s", diff)
		}
		if found, err := Blocks(b); err != nil || !maps.Equal(found, blocks) {
			t.Errorf("Blocks = %v, %v, want %v", found, err, blocks)
		}
	}
}

func TestReadFileInfo(t *testing.T) {
	tests := []struct {
		name  string
		block int64
		err   string // empty: the file of the examples
	}{
		{"the block", 48, ""},
		{"the header of the shard", 0, "file info block at byte 0: no block can begin here"},
		{"between records", 50, "file info block at byte 50: no block can begin here"},
		{"before the shard", -48, "file info block at byte -48: no block can begin here"},
		{"the bookend", 240, "file info block at byte 240: is the bookend of the section"},
		{"a term", 96, "file info block at byte 96: term 0: [0, 0) are no chunks"},
		{"a xorb", 288, "file info block at byte 288: term 0: [0, 0) are no chunks"},
		{"behind the shard", 48000, "file info block at byte 48000: ends after 0 of 48 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// The shard is a piece of zeros longer, so that a wrong block has room.
			f, err := ReadFileInfo(bytes.NewReader(append(bytes.Clone(helloUpload), make([]byte, 960)...)), tt.block)
			switch {
			case tt.err == "":
				if diff := cmp.Diff(helloFile(t), f); err != nil || diff != "" {
					t.Errorf("error %v, want (-), got (+):\n%s", err, diff)
				}
			case err == nil || err.Error() != tt.err:
				t.Errorf("error = %v, want %q", err, tt.err)
			case !errors.Is(err, codec.ErrCorrupt):
				t.Errorf("error %v is not an ErrCorrupt", err)
			}
		})
	}
}

func TestAbsent(t *testing.T) {
	ones := codec.Hash(bytes.Repeat([]byte{0xff}, 32)) // the hash of bookends
	for _, b := range [][]byte{helloStored, helloUpload, emptyStored, emptyUpload} {
		r, err := open(b)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range []codec.Hash{{}, {1}, {0xbd, 0x60}, ones} {
			if _, err := r.FileInfo(h); err != ErrNoFile {
				t.Errorf("FileInfo(%s): %v, want ErrNoFile", h.Short(), err)
			}
			if _, err := r.XorbInfo(h); err != ErrNoXorb {
				t.Errorf("XorbInfo(%s): %v, want ErrNoXorb", h.Short(), err)
			}
		}
	}
}

// An index made by the first lookup is shared by concurrent ones.
func TestConcurrentLookups(t *testing.T) {
	for _, name := range []string{"testdata/stored.shard", "testdata/uploaded.shard"} {
		r, err := open(codectest.Read(t, name))
		if err != nil {
			t.Fatal(err)
		}
		var readers sync.WaitGroup
		for range 8 {
			readers.Go(func() {
				for h, err := range r.Heads() {
					if err != nil {
						t.Error(err)
						return
					}
					if f, err := r.FileInfo(h.File); err != nil || f.Block != h.Block {
						t.Errorf("FileInfo = %v, %v, want the block at %d", f, err, h.Block)
					}
				}
			})
		}
		readers.Wait()
	}
}

// Errors of the underlying reader are passed on and are no ErrCorrupt.
func TestReadErrorsAreNotDamage(t *testing.T) {
	sick := errors.New("sick disk")
	r, err := NewReader(brokenAt{helloUpload, 0, nil}, int64(len(helloUpload)))
	if err != nil {
		t.Fatal(err)
	}
	r.files.r, r.xorbs.r = brokenAt{helloUpload, 0, sick}, brokenAt{helloUpload, 0, sick}
	if _, err := r.FileInfo(codec.Hash{}); !errors.Is(err, sick) || errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("FileInfo: %v", err)
	}
	for _, err := range r.Files() {
		if !errors.Is(err, sick) || errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("Files: %v", err)
		}
	}
	r.files.r = bytes.NewReader(helloUpload) // it heals: the failure was not kept
	if _, err := r.FileInfo(helloFile(t).File); err != nil {
		t.Error(err)
	}
}

// brokenAt is bytes that cannot be read from an offset on, if err says so.
type brokenAt struct {
	b   []byte
	off int64
	err error
}

func (r brokenAt) ReadAt(p []byte, off int64) (int, error) {
	if r.err != nil && off+int64(len(p)) > r.off {
		return 0, r.err
	}
	return bytes.NewReader(r.b).ReadAt(p, off)
}

// A shard of many buffers is read like the small ones. It does not matter how its blocks cross
// the buffers, or whether they are built or only checked.
func TestManyBuffers(t *testing.T) {
	w, hashes := manyFiles(4_000)
	x := &XorbInfo{Xorb: hashes[0]}
	for range codec.MaxXorbChunks {
		x.Chunks = append(x.Chunks, Chunk{Hash: hashes[1], Start: x.Unpacked, Size: 100})
		x.Unpacked += 100
	}
	w.AddXorb(x)
	w.AddFile(&FileInfo{File: hashes[2], Terms: slices.Repeat(w.files[0].Terms, 15_000), Verify: slices.Repeat(w.files[0].Verify, 15_000)})
	b, err := w.Encode()
	if err != nil {
		t.Fatal(err)
	}
	want := readGood(t, b)
	if len(want.files) != len(w.files) || len(want.xorbs) != 1 {
		t.Errorf("%d files, %d xorbs", len(want.files), len(want.xorbs))
	}
	r, err := open(b)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	for h, err := range r.Heads() {
		if f := want.files[i]; err != nil || h.File != f.File || h.Size != f.Size() {
			t.Errorf("checked only: %+v, %v, want file %s of %d bytes", h, err, f.File, f.Size())
		}
		i++
	}
	if i != len(want.files) {
		t.Errorf("checked only: %d files, want %d", i, len(want.files))
	}
	for _, f := range want.files {
		if len(f.Terms) == 1 {
			continue
		}
		got, err := ReadFileInfo(bytes.NewReader(b), f.Block)
		if err != nil || !reflect.DeepEqual(got, f) {
			t.Errorf("the file of %d terms: %v", len(f.Terms), err)
		}
	}
}

// A sparse file may have any size. It is refused by that, and nothing of it is read.
func TestF43_ShardTooLarge(t *testing.T) {
	_, err := NewReader(strings.NewReader(""), MaxSize+1)
	if !errors.Is(err, codec.ErrCorrupt) || !strings.Contains(err.Error(), "is the most") {
		t.Errorf("NewReader = %v", err)
	}
}

package metacache

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// sampleInfo is the info of a xorb of n chunks of 100 bytes.
func sampleInfo(n int, kind xorb.FooterKind) *xorb.Info {
	in := &xorb.Info{Footer: kind}
	for i := range n {
		in.Chunks = append(in.Chunks, codec.Hash{1, byte(i), byte(i >> 8)})
		in.PackedEnd = append(in.PackedEnd, uint32(60*(i+1)))
		in.UnpackedEnd = append(in.UnpackedEnd, uint32(100*(i+1)))
	}
	in.Xorb = in.Root()
	return in
}

func TestInfo(t *testing.T) {
	key := [32]byte{7}
	for _, tt := range []struct {
		chunks int
		kind   xorb.FooterKind
	}{{1, xorb.FooterV1}, {3, xorb.FooterV0}, {2000, xorb.NoFooter}, {codec.MaxXorbChunks, xorb.FooterV1}} {
		in := sampleInfo(tt.chunks, tt.kind)
		b := encodeInfo(key, in)
		got, err := decodeInfo(key, in.Xorb, b)
		if err != nil || !reflect.DeepEqual(got, in) {
			t.Errorf("%d chunks: %v", tt.chunks, err)
		}
		if limit := 330 << 10; len(b) > limit {
			t.Errorf("%d chunks take %d bytes, more than %d", tt.chunks, len(b), limit)
		}
	}
}

// sampleFile is a File Info block of n terms.
func sampleFile(n int, full bool) FileEntry {
	fi := &shard.FileInfo{File: codec.Hash{5}, Block: 48 * 77}
	for i := range n {
		fi.Terms = append(fi.Terms, codec.Term{Xorb: codec.Hash{byte(i)}, Size: 100, Chunks: codec.ChunkRange{Start: uint32(i), End: uint32(i) + 1}})
	}
	if full {
		fi.Verify = make([]codec.Hash, n)
		fi.SHA256, fi.Metadata = [32]byte{1, 2, 3}, true
	}
	return FileEntry{fi, codec.Hash{9}, !full}
}

func TestFile(t *testing.T) {
	key := [32]byte{7}
	for _, n := range []int{0, 1, 1000} {
		for _, full := range []bool{false, true} {
			fi := sampleFile(n, full)
			got, err := decodeFile(key, fi.File, encodeFile(key, fi))
			if err != nil || !reflect.DeepEqual(got, fi) {
				t.Errorf("%d terms: %+v, %v, want %+v", n, got, err, fi)
			}
		}
	}
	bookend := sampleFile(1, true)
	bookend.File = codec.Hash(bytes.Repeat([]byte{255}, 32))
	if b := encodeFile(key, bookend); b != nil {
		t.Error("a file that no shard can hold has a value")
	}
}

// TestDecode tests each reason to refuse a value. TestDamagedValues tests damage of
// single bytes.
func TestDecode(t *testing.T) {
	key := [32]byte{7}
	in, fi := sampleInfo(3, xorb.FooterV1), sampleFile(2, true)
	info, file := encodeInfo(key, in), encodeFile(key, fi)
	// sealed changes the bytes between head and sum.
	sealed := func(b []byte, change func(body []byte) []byte) []byte {
		body := bytes.Clone(b[headSize : len(b)-32])
		return seal(append(appendHead(nil, key), change(body)...))
	}
	set := func(at int, to byte) func([]byte) []byte {
		return func(b []byte) []byte { b[at] = to; return b }
	}
	asInfo := func(b []byte) error { _, err := decodeInfo(key, in.Xorb, b); return err }
	asFile := func(b []byte) error { _, err := decodeFile(key, fi.File, b); return err }
	for _, tt := range []struct {
		name   string
		b      []byte
		decode func([]byte) error
		reason string
	}{
		{"nothing", nil, asInfo, "ends after 0 bytes, 72 is the least"},
		{"a later version", append([]byte("XETKEPT\x02"), info[8:]...), asInfo, `ident "XETKEPT\x02"`},
		{"of something else", encodeInfo([32]byte{8}, in), asInfo, "it is something else"},
		{"torn", info[:len(info)-1], asInfo, "checksum does not match"},
		{"no body", sealed(info, func([]byte) []byte { return nil }), asInfo, "ends before a footer"},
		{"footer of the future", sealed(info, set(0, 3)), asInfo, "footer of kind 3"},
		{"no footer", sealed(info, func(b []byte) []byte { return b[:len(b)-9] }), asInfo, "no footer"},
		{"packed bytes that are not there", sealed(info, set(1, 181)), asInfo, "the last chunk ends at byte 180"},
		{"a size that is not the chunk's", sealed(info, set(5+64+36*3, 99)), asInfo, "its chunks give"},
		{"another xorb", encodeInfo(key, sampleInfo(4, xorb.FooterV1)), asInfo, "it is the footer of xorb"},
		{"a file", file, asInfo, ""},
		{"no shard", sealed(file, func(b []byte) []byte { return b[:40] }), asFile, "ends before a shard"},
		{"not keyed, not not keyed", sealed(file, set(32, 2)), asFile, "no block can begin"},
		{"a place beyond all", sealed(file, set(40, 0x80)), asFile, "no block can begin"},
		{"half a shard", sealed(file, func(b []byte) []byte { return b[:100] }), asFile, ""},
		{"another file", encodeFile(key, func() FileEntry { f := sampleFile(1, true); f.File[0]++; return f }()), asFile, "no such file"},
		{"an info", info, asFile, ""},
	} {
		if err := tt.decode(tt.b); err == nil || !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.reason)
		}
	}
}

func TestTailReader(t *testing.T) {
	all := append(make([]byte, 10), "0123456789"...)
	r, want := tailReader{all[10:], 10}, bytes.NewReader(all)
	for off := range int64(22) {
		for n := range 22 {
			got, exp := bytes.Repeat([]byte{'x'}, n), bytes.Repeat([]byte{'x'}, n)
			gotN, gotErr := r.ReadAt(got, off)
			expN, expErr := want.ReadAt(exp, off)
			if gotN != expN || !errors.Is(gotErr, expErr) || !bytes.Equal(got, exp) {
				t.Errorf("ReadAt(%d, %d) = %q, %d, %v, want %q, %d, %v", n, off, got, gotN, gotErr, exp, expN, expErr)
			}
		}
	}
}

// FuzzDecodeInfo checks two promises of the decoder, apart from the checksum. The decoder never
// panics. An accepted value has the chunks of that xorb, and stays the same when it is encoded
// and decoded again.
func FuzzDecodeInfo(f *testing.F) {
	in := sampleInfo(3, xorb.FooterV1)
	b := encodeInfo([32]byte{}, in)
	f.Add(b[headSize : len(b)-32])
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := decodeInfoBody(in.Xorb, body)
		if err != nil {
			return
		}
		if got.Xorb != in.Xorb || got.Root() != in.Xorb || len(got.Chunks) != got.Len() {
			t.Errorf("not an info of the xorb: %+v", got)
		}
		again, err := decodeInfo([32]byte{}, in.Xorb, encodeInfo([32]byte{}, got))
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("encoded again: %+v, %v, was %+v", again, err, got)
		}
	})
}

// FuzzDecodeFile is FuzzDecodeInfo for File Info blocks.
func FuzzDecodeFile(f *testing.F) {
	fi := sampleFile(2, true)
	for _, fi := range []FileEntry{fi, sampleFile(0, true), sampleFile(3, false)} {
		b := encodeFile([32]byte{}, fi)
		f.Add(b[headSize : len(b)-32])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := decodeFileBody(fi.File, body)
		if err != nil {
			return
		}
		if got.File != fi.File || got.Block < 0 {
			t.Errorf("not a block of the file: %+v", got)
		}
		again, err := decodeFile([32]byte{}, fi.File, encodeFile([32]byte{}, got))
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("encoded again: %+v, %v, was %+v", again, err, got)
		}
	})
}

// The bytes are written out, or encoder and decoder could be wrong together.
func TestBytes(t *testing.T) {
	in := sampleInfo(1, xorb.FooterV0)
	want := slices.Concat([]byte("XETKEPT\x01"), bytes.Repeat([]byte{7}, 32), []byte{1, 60, 0, 0, 0}, in.AppendFooter(nil))
	if b := encodeInfo([32]byte(bytes.Repeat([]byte{7}, 32)), in); !bytes.Equal(b, seal(want)) {
		t.Errorf("info = % x, want % x", b, seal(want))
	}
	fi := sampleFile(1, false)
	var w shard.Writer
	w.AddFile(fi.FileInfo)
	alone, _ := w.EncodeUpload()
	want = slices.Concat([]byte("XETKEPT\x01"), make([]byte, 32), fi.Shard[:], []byte{1}, binary.LittleEndian.AppendUint64(nil, 48*77), alone)
	if b := encodeFile([32]byte{}, fi); !bytes.Equal(b, seal(want)) {
		t.Errorf("file = % x, want % x", b, seal(want))
	}
}

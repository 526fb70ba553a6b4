package xorb

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/xetfs/xetfs/codec"
)

// The first of the catalogue's faults that a header can have. Sizes that only the bytes
// behind the header show to be wrong are in TestF05_PackedSize.
func TestF01_F06_ChunkHeader(t *testing.T) {
	tests := []struct {
		name   string
		in     []byte
		want   ChunkHeader
		off    int64
		reason string // of the CorruptError; empty if the header is good
	}{
		{"lz4", []byte{0, 0x00, 0x10, 0, 1, 0, 0, 2}, ChunkHeader{Packed: 4096, Unpacked: 128 << 10, Scheme: LZ4}, 0, ""},
		{"not packed", []byte{0, 1, 0, 0, 0, 1, 0, 0}, ChunkHeader{Packed: 1, Unpacked: 1, Scheme: None}, 0, ""},
		{"grew when it was packed", []byte{0, 0, 0, 4, 2, 0, 0, 2}, ChunkHeader{Packed: 256 << 10, Unpacked: 128 << 10, Scheme: ByteGrouping4LZ4}, 0, ""},
		{"as long packed as unpacked", []byte{0, 0, 0, 2, 1, 0, 0, 2}, ChunkHeader{Packed: 128 << 10, Unpacked: 128 << 10, Scheme: LZ4}, 0, ""},
		{"cut off", []byte{0, 1, 0, 0, 0, 1, 0}, ChunkHeader{}, 7, "ends after 7 of 8 bytes"},
		{"nothing", nil, ChunkHeader{}, 0, "ends after 0 of 8 bytes"},
		{"F01 next version", []byte{1, 1, 0, 0, 0, 1, 0, 0}, ChunkHeader{}, 0, "version 1 is not known"},
		{"F01 future version", []byte{7, 1, 0, 0, 0, 1, 0, 0}, ChunkHeader{}, 0, "version 7 is not known"},
		{"F01 last version", []byte{255, 1, 0, 0, 0, 1, 0, 0}, ChunkHeader{}, 0, "version 255 is not known"},
		{"F02 unknown scheme", []byte{0, 1, 0, 0, 3, 1, 0, 0}, ChunkHeader{}, 4, "scheme 3 is not known"},
		{"F02 a letter", []byte{0, 1, 0, 0, 'A', 1, 0, 0}, ChunkHeader{}, 4, "scheme 65 is not known"},
		{"F02 choose for me", []byte{0, 1, 0, 0, 99, 1, 0, 0}, ChunkHeader{}, 4, "scheme 99 is not known"},
		{"F02 last scheme", []byte{0, 1, 0, 0, 255, 1, 0, 0}, ChunkHeader{}, 4, "scheme 255 is not known"},
		{"F03 nothing unpacked", []byte{0, 19, 0, 0, 1, 0, 0, 0}, ChunkHeader{}, 5, "unpacked size 0 is out of range"},
		{"F03 nothing at all", []byte{0, 0, 0, 0, 0, 0, 0, 0}, ChunkHeader{}, 1, "packed size 0 is out of range"},
		{"F04 one byte too big", []byte{0, 1, 0, 0, 1, 1, 0, 2}, ChunkHeader{}, 5, "unpacked size 131073 is out of range"},
		{"F04 much too big", []byte{0, 1, 0, 0, 1, 255, 255, 255}, ChunkHeader{}, 5, "unpacked size 16777215 is out of range"},
		{"F05 nothing packed", []byte{0, 0, 0, 0, 1, 1, 0, 0}, ChunkHeader{}, 1, "packed size 0 is out of range"},
		{"F05 packed much too big", []byte{0, 1, 0, 4, 1, 1, 0, 0}, ChunkHeader{}, 1, "packed size 262145 is out of range"},
		{"F06 not packed, other size", []byte{0, 2, 0, 0, 0, 1, 0, 0}, ChunkHeader{}, 5, "2 bytes that are not packed unpack to 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := DecodeChunkHeader(tt.in)
			if got != tt.want {
				t.Errorf("header = %+v, want %+v", got, tt.want)
			}
			wantReason(t, err, tt.reason)
			if tt.reason != "" {
				wantOffset(t, err, tt.off)
			}
		})
	}
}

// Only the known versions and schemes are accepted.
func TestF02_OnlyKnownSchemes(t *testing.T) {
	for i := range 256 {
		_, err := DecodeChunkHeader([]byte{0, 1, 0, 0, byte(i), 1, 0, 0})
		if good := i <= 2; good != (err == nil) {
			t.Errorf("scheme %d: %v", i, err)
		}
		_, err = DecodeChunkHeader([]byte{byte(i), 1, 0, 0, 0, 1, 0, 0})
		if good := i == 0; good != (err == nil) {
			t.Errorf("version %d: %v", i, err)
		}
	}
}

// The packed size must fit in what is left, and one chunk must fill it.
func TestF05_PackedSize(t *testing.T) {
	one := codec.ChunkRange{Start: 7, End: 8}
	tests := []struct {
		name   string
		packed []byte
		reason string
	}{
		{"one more than is left", []byte{0, 3, 0, 0, 0, 3, 0, 0, 'a', 'b'}, "packed size 3, 2 bytes are left"},
		{"all of it", []byte{0, 2, 0, 0, 0, 2, 0, 0, 'a', 'b'}, ""},
		{"one less", []byte{0, 1, 0, 0, 0, 1, 0, 0, 'a', 'b'}, "1 bytes follow the last chunk"},
		{"256 KiB", ChunkHeader{Scheme: LZ4, Packed: 256 << 10, Unpacked: 1}.Append(nil), "packed size 262144, 0 bytes are left"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseRun(tt.packed, one, nil)
			wantReason(t, err, tt.reason)
			if tt.reason != "" && len(tt.packed) == 10 {
				return
			}
			_, err = walkInfo(tt.packed)
			wantReason(t, err, tt.reason)
		})
	}
}

// A chunk that grew when it was packed is read: a frame of 256 KiB that is mostly blocks
// of no bytes.
func TestF05_PackedTwiceAsLarge(t *testing.T) {
	frame := frameHead(0x60, 0x40)
	content := "nine byte"
	for len(frame)+4+len(content)+4 < maxPackedSize {
		frame = append(frame, 0, 0, 0, 0x80)
	}
	want := content[:maxPackedSize-len(frame)-8] // 9 or fewer
	frame = append(frame, byte(len(want)), 0, 0, 0x80)
	frame = append(append(frame, want...), 0, 0, 0, 0)
	if len(frame) != maxPackedSize {
		t.Fatalf("the frame has %d bytes", len(frame))
	}
	packed := ChunkHeader{Scheme: LZ4, Packed: len(frame), Unpacked: len(want)}.Append(nil)
	run, err := ParseRun(append(packed, frame...), codec.ChunkRange{End: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := run.Unpack(0, got); err != nil || string(got) != want {
		t.Errorf("unpacked %q, %v, want %q", got, err, want)
	}
}

func TestChunkHeaderVectors(t *testing.T) {
	for _, v := range specVectors(t, "chunk_header") {
		var want string
		v.expect(t, &want)
		h := ChunkHeader{Scheme: Scheme(v.Input.Scheme), Packed: v.Input.Compressed, Unpacked: v.Input.Uncompressed}
		if got := hex.EncodeToString(h.Append(nil)); got != want {
			t.Errorf("%s: %s, want %s", v.Name, got, want)
		}
	}
}

// FuzzDecodeChunkHeader holds the decoder to two promises: it never panics,
// and it accepts only what the encoder would write, byte for byte.
func FuzzDecodeChunkHeader(f *testing.F) {
	f.Add(ChunkHeader{Packed: 1, Unpacked: 1}.Append(nil))
	f.Add(ChunkHeader{Packed: 70_000, Unpacked: codec.MaxChunkSize, Scheme: LZ4}.Append(nil))
	f.Fuzz(func(t *testing.T, in []byte) {
		h, err := DecodeChunkHeader(in)
		if err != nil {
			if !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("error %v is not an ErrCorrupt", err)
			}
			return
		}
		if out := h.Append(nil); !bytes.Equal(out, in[:ChunkHeaderSize]) {
			t.Errorf("decoded and encoded again: % x, was % x", out, in[:ChunkHeaderSize])
		}
	})
}

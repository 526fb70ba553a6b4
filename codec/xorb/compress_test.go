package xorb

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/pierrec/lz4/v4"
	"pgregory.net/rapid"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
)

// compressed compresses into as much room as could be needed.
func compressed(c *compressor, data []byte) []byte {
	dst := make([]byte, len(data)+len(data)/255+16+wildRoom)
	copy(c.load(len(data)), data)
	return dst[:c.compress(dst)]
}

// The xorbs of the reference, unpacked and packed again by the same schemes, have the same
// bytes. Chunks that the reference left unpacked stay unpacked.
func TestCompressLikeReference(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(codectest.Vectors(t), "core", "xorbs", "*", "*.xorb"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var p Packer
	packed := map[Scheme]int{}
	for _, file := range files {
		b := codectest.Read(t, file)
		if filepath.Base(filepath.Dir(file)) == "sliced" {
			continue // packed by other rules
		}
		for at, err := range Chunks(bytes.NewReader(b), int64(len(b))) {
			if err != nil {
				t.Fatal(err)
			}
			want := b[at.Off:at.End()]
			data := make([]byte, at.Header.Unpacked)
			if err := unpack(data, want[ChunkHeaderSize:], at.Header.Scheme); err != nil {
				t.Fatal(err)
			}
			packed[at.Header.Scheme]++
			if got := p.Append(nil, data, at.Header.Scheme); !bytes.Equal(got, want) {
				t.Errorf("%s: chunk %d: other bytes", file, at.Index)
			}
		}
	}
	if packed[LZ4] < 100 || packed[ByteGrouping4LZ4] < 100 {
		t.Errorf("only %v chunks were compared", packed)
	}
}

// Whatever is compressed comes back, and takes the room that was given for it, or is
// refused.
func TestCompress(t *testing.T) {
	var c compressor
	rapid.Check(t, func(t *rapid.T) {
		data := drawData(t)
		block := compressed(&c, data)
		got := make([]byte, len(data))
		n, err := lz4.UncompressBlock(block, got)
		if err != nil || n != len(data) || !bytes.Equal(got, data) {
			t.Fatalf("%d bytes come back as %d: %v", len(data), n, err)
		}
		room := rapid.IntRange(0, len(block)+1).Draw(t, "room")
		dst := bytes.Repeat([]byte{0xaa}, room+wildRoom+1)
		n = c.compress(dst[:room+wildRoom])
		if want := len(block); (n == want) != (room >= want) || n != 0 && n != want || dst[room+wildRoom] != 0xaa {
			t.Fatalf("%d bytes compress to %d in room for %d, want %d", len(data), n, room, want)
		}
	})
}

// drawData makes data in which runs, repetitions and noise follow each other.
func drawData(t *rapid.T) []byte {
	var data []byte
	for range rapid.IntRange(1, 8).Draw(t, "parts") {
		n := rapid.IntRange(1, 1<<rapid.IntRange(1, 15).Draw(t, "bits")).Draw(t, "size")
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			data = append(data, codectest.Bytes(rapid.Uint64().Draw(t, "seed"), n)...)
		case 1:
			data = append(data, bytes.Repeat([]byte{rapid.Byte().Draw(t, "value")}, n)...)
		case 2:
			if len(data) > 0 {
				from := rapid.IntRange(0, len(data)-1).Draw(t, "from")
				data = append(data, data[from:min(len(data), from+n)]...)
			}
		}
	}
	return data[:min(len(data), codec.MaxChunkSize)]
}

func FuzzCompress(f *testing.F) {
	f.Add([]byte("abcabcabcabcabcabcabcabcabc"))
	f.Add(textLike(3000))
	f.Add(bytes.Repeat([]byte{0}, 300))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) == 0 || len(data) > codec.MaxChunkSize {
			return
		}
		block := compressed(new(compressor), data)
		got := make([]byte, len(data))
		if n, err := lz4.UncompressBlock(block, got); err != nil || n != len(data) || !bytes.Equal(got, data) {
			t.Errorf("%d bytes come back as %d: %v", len(data), n, err)
		}
	})
}

// A match never begins in the last bytes, nor reaches into the very last, as other
// decoders expect it.
func TestCompressEnds(t *testing.T) {
	var c compressor
	for n := range 40 {
		data := bytes.Repeat([]byte{7}, n+1)
		block := compressed(&c, data)
		got := make([]byte, len(data))
		if _, err := lz4.UncompressBlock(block, got); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d equal bytes: % x: %v", n+1, block, err)
		}
		if len(data) > matchMargin && !bytes.HasSuffix(block, data[:5]) {
			t.Errorf("%d equal bytes: % x does not end with five literals", n+1, block)
		}
	}
}

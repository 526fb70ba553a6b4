package xorb

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pierrec/lz4/v4"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
)

// The answers are those of the algorithm's own documentation and of its tools.
func TestXXH32(t *testing.T) {
	tests := []struct {
		in   string
		want uint32
	}{
		{"", 0x02cc5d05},
		{"a", 0x550d7456},
		{"abc", 0x32d153ff},
		{"abcd", 0xa3643705},
		{"Nobody inspects the spammish repetition", 0xe2293b2f},
	}
	for _, tt := range tests {
		if got := xxh32([]byte(tt.in)); got != tt.want {
			t.Errorf("xxh32(%q) = %08x, want %08x", tt.in, got, tt.want)
		}
	}
}

func TestFrameHeadVectors(t *testing.T) {
	for _, v := range specVectors(t, "lz4_frame_header") {
		var want []struct{ FLG, BD, HC string }
		v.expect(t, &want)
		for _, w := range want {
			flg, bd := unhex(t, w.FLG)[0], unhex(t, w.BD)[0]
			if got := hex.EncodeToString(frameHead(flg, bd)[6:]); got != w.HC {
				t.Errorf("FLG %s BD %s: check %s, want %s", w.FLG, w.BD, got, w.HC)
			}
		}
	}
	if !bytes.Equal(head64K[:], frameHead(0x60, 0x40)) || !bytes.Equal(head256K[:], frameHead(0x60, 0x50)) {
		t.Error("the heads that appendFrame writes have wrong checks")
	}
}

func TestFrameDecodeVectors(t *testing.T) {
	for _, v := range specVectors(t, "lz4_frame_decode") {
		t.Run(v.Name, func(t *testing.T) {
			var text string
			v.expect(t, &text)
			want := unhex(t, text)
			got := make([]byte, len(want))
			if err := decodeFrame(got, unhex(t, v.Input.Hex)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("decoded %x, %v, want %x", got, err, want)
			}
		})
	}
}

// frameHead returns the head of a frame with a right check. size is the announced size
// of the content, for flags that say that there is one.
func frameHead(flg, bd byte, size ...uint64) []byte {
	b := []byte{0x04, 0x22, 0x4d, 0x18, flg, bd}
	for _, s := range size {
		b = binary.LittleEndian.AppendUint64(b, s)
	}
	return append(b, byte(xxh32(b[4:])>>8))
}

// join puts pieces of a frame together: bytes as they are, numbers as four bytes.
func join(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case []byte:
			b = append(b, p...)
		case string:
			b = append(b, p...)
		case int:
			b = binary.LittleEndian.AppendUint32(b, uint32(p))
		case uint32:
			b = binary.LittleEndian.AppendUint32(b, p)
		}
	}
	return b
}

const (
	stored = 1 << 31
	hello  = "Hello World!"
)

var (
	// as is 64 times "a": one literal, a match of 58 at distance 1, five literals.
	as      = strings.Repeat("a", 64)
	asBlock = []byte{0x1f, 'a', 1, 0, 39, 0x50, 'a', 'a', 'a', 'a', 'a'}
	// far is a block whose match reaches eight bytes before it.
	far = []byte{0x04, 8, 0, 0x50, 'v', 'w', 'x', 'y', 'z'}
)

// frameTests are frames that are good or not. content is what a good one holds.
var frameTests = []struct {
	name    string
	frame   []byte
	content string
	reason  string
}{
	{"as the reference writes it", join(frameHead(0x60, 0x40), 11, asBlock, 0), as, ""},
	{"as JavaScript writes it", join(frameHead(0x40, 0x70), 11, asBlock, 0), as, ""},
	{"F10 stored block", join(frameHead(0x60, 0x40), 12|stored, hello, 0), hello, ""},
	{"F10 several blocks", join(frameHead(0x60, 0x40), 6|stored, hello[:6], 6|stored, hello[6:], 0), hello, ""},
	{"F10 content size", join(frameHead(0x68, 0x40, 12), 12|stored, hello, 0), hello, ""},
	{"F10 block checksum", join(frameHead(0x70, 0x40), 12|stored, hello, xxh32([]byte(hello)), 0), hello, ""},
	{"F10 content checksum", join(frameHead(0x64, 0x40), 12|stored, hello, 0, xxh32([]byte(hello))), hello, ""},
	{"F10 everything", join(frameHead(0x7c, 0x60, 64), 11, asBlock, xxh32(asBlock), 0, xxh32([]byte(as))), as, ""},
	{"F10 block maximum 4 MiB", join(frameHead(0x60, 0x70), 12|stored, hello, 0), hello, ""},
	{"F10 linked blocks", join(frameHead(0x40, 0x40), 8|stored, "abcdefgh", 9, far, 0), "abcdefghabcdefghvwxyz", ""},
	{"a stored block of nothing", join(frameHead(0x60, 0x40), stored, 12|stored, hello, 0), hello, ""},

	{"nothing", nil, hello, "header ends after 0 bytes"},
	{"cut in the header", frameHead(0x60, 0x40)[:6], hello, "header ends after 6 bytes"},
	{"cut in the content size", frameHead(0x68, 0x40, 12)[:14], hello, "header ends after 14 bytes"},
	{"F09 wrong magic", join([]byte{5, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82}, 0), hello, "magic is 184d2205, want 184d2204"},
	{"F09 legacy magic", join([]byte{2, 0x21, 0x4c, 0x18}, 11, asBlock), as, "is a legacy frame"},
	{"F09 skippable frame", join([]byte{0x5a, 0x2a, 0x4d, 0x18}, 3, "abc"), as, "is a skippable frame"},
	{"F09 version 0", join(frameHead(0x20, 0x40), 12|stored, hello, 0), hello, "version 0 is not known"},
	{"F09 version 2", join(frameHead(0xa0, 0x40), 12|stored, hello, 0), hello, "version 2 is not known"},
	{"F09 version 3", join(frameHead(0xe0, 0x40), 12|stored, hello, 0), hello, "version 3 is not known"},
	{"F09 reserved flag", join(frameHead(0x62, 0x40), 12|stored, hello, 0), hello, "reserved bit is set"},
	{"F09 dictionary id", join(frameHead(0x61, 0x40)[:6], 1, 0, 12|stored, hello, 0), hello, "wants a dictionary"},
	{"F09 reserved bits, low", join(frameHead(0x60, 0x41), 12|stored, hello, 0), hello, "reserved bits are set"},
	{"F09 reserved bits, high", join(frameHead(0x60, 0xc0), 12|stored, hello, 0), hello, "reserved bits are set"},
	{"F09 block size code", join(frameHead(0x60, 0x30), 12|stored, hello, 0), hello, "block size code 3 is not known"},
	{"F09 wrong header check", join(codectest.Put(head64K[:], 6, 0x83), 12|stored, hello, 0), hello, "header check is 83, want 82"},
	{"F10 content size lies", join(frameHead(0x68, 0x40, 1<<40), 12|stored, hello, 0), hello, "announces 1099511627776 bytes, the chunk has 12"},
	{"F10 content size one less", join(frameHead(0x68, 0x40, 11), 12|stored, hello, 0), hello, "announces 11 bytes, the chunk has 12"},
	{"F10 block checksum wrong", join(frameHead(0x70, 0x40), 12|stored, hello, 1, 0), hello, "block check is 00000001, want…"},
	{"F10 block checksum missing", join(frameHead(0x70, 0x40), 12|stored, hello), hello, "ends where the check of a block must follow"},
	{"F10 content checksum wrong", join(frameHead(0x64, 0x40), 12|stored, hello, 0, 1), hello, "content check is 00000001, want…"},
	{"F10 content checksum missing", join(frameHead(0x64, 0x40), 12|stored, hello, 0), hello, "ends where the check of the content must follow"},
	{"F10 block larger than the maximum", join(frameHead(0x60, 0x40), 65537|stored, make([]byte, 65537), 0), hello, "block of 65537 bytes, the largest has 65536"},
	{"F11 no end mark", join(frameHead(0x60, 0x40), 12|stored, hello), hello, "ends where a block or the end mark must follow"},
	{"F11 half an end mark", join(frameHead(0x60, 0x40), 12|stored, hello, []byte{0, 0}), hello, "ends where a block or the end mark must follow"},
	{"F11 bytes after the end mark", join(frameHead(0x60, 0x40), 12|stored, hello, 0, "abc"), hello, "3 bytes follow the frame"},
	{"F11 two frames", join(frameHead(0x60, 0x40), 6|stored, hello[:6], 0, frameHead(0x60, 0x40), 6|stored, hello[6:], 0), hello, "holds 6 bytes, the chunk has 12"},
	{"F11 two frames, the first has all", join(frameHead(0x60, 0x40), 12|stored, hello, 0, frameHead(0x60, 0x40), 0), hello, "11 bytes follow the frame"},
	{"F11 empty frame", join(frameHead(0x60, 0x40), 0), hello, "holds 0 bytes, the chunk has 12"},
	{"F07 fewer bytes than announced", join(frameHead(0x60, 0x40), 11, asBlock, 0), as + "a", "holds 64 bytes, the chunk has 65"},
	{"F08 more bytes than announced", join(frameHead(0x60, 0x40), 11, asBlock, 0), as[1:], "block does not decode, or to more than the 63 bytes that are missing"},
	{"F08 more in a stored block", join(frameHead(0x60, 0x40), 12|stored, hello, 0), hello[1:], "holds more than the 11 bytes of the chunk"},
	{"F08 more in a second block", join(frameHead(0x60, 0x40), 11, asBlock, 11, asBlock, 0), as, "block does not decode, or to more than the 0 bytes that are missing"},
	{"F12 block runs out", join(frameHead(0x60, 0x40), 13|stored, hello), hello, "block of 13 bytes, 12 are left"},
	{"F12 block far too long", join(frameHead(0x60, 0x70), 1<<22, hello), hello, "block of 4194304 bytes, 12 are left"},
	{"F12 match offset 0", join(frameHead(0x60, 0x40), 11, codectest.Put(asBlock, 2, 0), 0), as, "block does not decode…"},
	{"F12 offset before the start", join(frameHead(0x60, 0x40), 11, codectest.Put(asBlock, 2, 2), 0), as, "block does not decode…"},
	{"F12 offset before an independent block", join(frameHead(0x60, 0x40), 8|stored, "abcdefgh", 9, far, 0), "abcdefghabcdefghvwxyz", "block does not decode…"},
	{"F12 offset before the first linked block", join(frameHead(0x40, 0x40), 9, far, 0), "abcdefghvwxyz", "block does not decode…"},
	{"F12 literals run out", join(frameHead(0x60, 0x40), 3, []byte{0x50, 'a', 'b'}, 0), hello, "block does not decode…"},
	{"F12 endless literals", join(frameHead(0x60, 0x40), 100, []byte{0xf0}, bytes.Repeat([]byte{0xff}, 99), 0), hello, "block does not decode…"},
	{"F12 endless match", join(frameHead(0x60, 0x40), 100, []byte{0x1f, 'a', 1, 0}, bytes.Repeat([]byte{0xff}, 96), 0), hello, "block does not decode…"},
}

func TestF07_F12_Frame(t *testing.T) {
	for _, tt := range frameTests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := decodeGuarded(t, tt.frame, len(tt.content))
			wantReason(t, err, tt.reason)
			if tt.reason == "" && string(got) != tt.content {
				t.Errorf("content %q, want %q", got, tt.content)
			}
		})
	}
}

// decodeGuarded decodes a frame into n bytes of a larger buffer and checks that those
// around stay as they are.
func decodeGuarded(t testing.TB, frame []byte, n int) ([]byte, error) {
	t.Helper()
	const guard = 64
	buf := bytes.Repeat([]byte{0xa5}, n+2*guard)
	err := decodeFrame(buf[guard:guard+n], frame)
	for i, c := range slices.Concat(buf[:guard], buf[guard+n:]) {
		if c != 0xa5 {
			t.Fatalf("guard byte %d was written", i)
		}
	}
	return buf[guard : guard+n], err
}

// A frame cannot be made to decode further than the chunk, and costs nothing but the
// chunk.
func TestF08_LZ4Bomb(t *testing.T) {
	block := append([]byte{0x1f, 'a', 1, 0}, bytes.Repeat([]byte{0xff}, 250_000)...)
	block = append(block, 0, 0x50, 'a', 'a', 'a', 'a', 'a') // 64 MB
	frame := join(frameHead(0x60, 0x70), len(block), block, 0)
	dst := make([]byte, codec.MaxChunkSize)
	good := bytes.Repeat([]byte{'a'}, len(dst))
	honest := build(t, false, sample{good, LZ4})[ChunkHeaderSize:]
	for _, s := range []Scheme{LZ4, ByteGrouping4LZ4} {
		if err := unpack(dst, frame, s); !errors.Is(err, codec.ErrCorrupt) {
			t.Fatalf("%s: error = %v", s, err)
		}
		// All of the bomb would take 500 times as long as a chunk; to read its long
		// length alone takes up to 100 times as long on a slow machine. Times are
		// compared, because machines differ.
		bomb := fastest(func() { unpack(dst, frame, s) })
		if chunk := fastest(func() { unpack(dst, honest, s) }); bomb > 300*chunk {
			t.Errorf("%s: took %v, an honest chunk takes %v", s, bomb, chunk)
		}
		if n := allocated(func() { unpack(dst, frame, s) }); n > 256<<10 {
			t.Errorf("%s: %d bytes allocated", s, n)
		}
	}
}

// fastest returns the shortest of a few runs of do.
func fastest(do func()) time.Duration {
	least := time.Hour
	for range 10 {
		start := time.Now()
		do()
		least = min(least, time.Since(start))
	}
	return least
}

// Frames of the library's writer, in all its dialects, are read.
func TestFrameOfLibrary(t *testing.T) {
	sizes := []lz4.BlockSize{lz4.Block64Kb, lz4.Block256Kb, lz4.Block1Mb, lz4.Block4Mb}
	for _, data := range [][]byte{textLike(100_000), randomLike(131072), floatLike(70_001), {1}} {
		for i := range 32 {
			var b bytes.Buffer
			w := lz4.NewWriter(&b)
			options := []lz4.Option{
				lz4.BlockSizeOption(sizes[i%4]), lz4.ChecksumOption(i&4 != 0),
				lz4.BlockChecksumOption(i&8 != 0), lz4.ConcurrencyOption(1),
			}
			if i&16 != 0 {
				options = append(options, lz4.SizeOption(uint64(len(data))))
			}
			if err := w.Apply(options...); err != nil {
				t.Fatal(err)
			}
			w.Write(data)
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			got, err := decodeGuarded(t, b.Bytes(), len(data))
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes, dialect %d: %v", len(data), i, err)
			}
		}
	}
}

// Frames of the LZ4 project's own tool with linked blocks are read. Their matches go from one
// block into the one before it.
func TestF10_FrameOfTool(t *testing.T) {
	want := textLike(100_000)
	for _, name := range []string{"linked-64K.lz4", "linked-64K-checks-hc.lz4"} {
		got, err := decodeGuarded(t, codectest.Read(t, "testdata", "frames", name), len(want))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Linked blocks may refer to the 64 KiB before them and no further.
func TestF10_LinkedWindow(t *testing.T) {
	first := randomLike(65536)
	match := func(distance int) []byte { // 8 bytes from there, then five literals
		return []byte{0x04, byte(distance), byte(distance >> 8), 0x50, 'v', 'w', 'x', 'y', 'z'}
	}
	for _, distance := range []int{8, 100, 65535} {
		frame := join(frameHead(0x40, 0x40), 65536|stored, first, 9, match(distance), 0)
		want := slices.Concat(first, first[65536-distance:65536-distance+8], []byte("vwxyz"))
		got, err := decodeGuarded(t, frame, len(want))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("distance %d: %v", distance, err)
		}
	}
}

package xorb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/merkle"
)

func chunkHash(b []byte) codec.Hash { return merkle.Chunk(b) }

// The worked example of the specification, in its three forms.
func TestF19_F27_Example(t *testing.T) {
	for _, v := range specVectors(t, "xorb") {
		t.Run(v.Name, func(t *testing.T) {
			b := unhex(t, v.Input.Hex)
			var want struct {
				Packed   []uint32                    `json:"chunk_end_offsets"`
				Unpacked []uint32                    `json:"unpacked_end_offsets"`
				Xorb     codec.Hash                  `json:"xorb_hash"`
				Chunks   []struct{ Hash codec.Hash } `json:"chunks"`
			}
			v.expect(t, &want)
			in, err := readInfo(b)
			if kind := footerOf(v.Name); kind != NoFooter {
				if err != nil || in.Footer != kind || in.Xorb != want.Xorb || in.Root() != want.Xorb {
					t.Fatalf("ReadInfo = %+v, %v", in, err)
				}
				for i, c := range want.Chunks {
					if in.Chunks[i] != c.Hash {
						t.Errorf("chunk %d is %s, want %s", i, in.Chunks[i], c.Hash)
					}
				}
			} else if !errors.Is(err, ErrNoFooter) {
				t.Fatalf("ReadInfo: %v, want ErrNoFooter", err)
			}
			walked, err := walkInfo(b)
			if err != nil || walked.Chunks != nil {
				t.Fatalf("WalkInfo = %+v, %v", walked, err)
			}
			for _, in := range []*Info{in, walked} {
				if in != nil && (!slices.Equal(in.PackedEnd, want.Packed) || !slices.Equal(in.UnpackedEnd, want.Unpacked)) {
					t.Errorf("ends %v, %v, want %v, %v", in.PackedEnd, in.UnpackedEnd, want.Packed, want.Unpacked)
				}
			}
		})
	}
}

func footerOf(name string) FooterKind {
	switch name {
	case "xorb-footer-v0":
		return FooterV0
	case "xorb-footer-v1":
		return FooterV1
	}
	return NoFooter
}

// A written footer has the same bytes as the one that was read.
func TestAppendFooter(t *testing.T) {
	b := example(t, "xorb-footer-v1")
	in, err := readInfo(b)
	if err != nil {
		t.Fatal(err)
	}
	if got := in.AppendFooter(b[:exampleBody:exampleBody]); !bytes.Equal(got, b) {
		t.Errorf("footer % x, want % x", got[exampleBody:], b[exampleBody:])
	}
}

// noFooter is the reason that represents ErrNoFooter.
const noFooter = "no footer"

func TestF16_F28_Footer(t *testing.T) {
	good := example(t, "xorb-footer-v1")
	put := func(off int, v ...byte) []byte { return codectest.Put(good, off, v...) }
	put32 := func(off int, v uint32) []byte { return codectest.Put32(good, off, v) }
	length := uint32(len(good) - lengthSize - exampleBody)
	zeroHash := codectest.Put(good, exampleBody+8, make([]byte, 32)...)
	tests := []struct {
		name   string
		in     []byte
		off    int64
		reason string
	}{
		{"good", good, 0, ""},
		{"F16 0 bytes", nil, 0, noFooter},
		{"F16 1 byte", good[:1], 0, noFooter},
		{"F16 3 bytes", make([]byte, 3), 0, noFooter},
		{"F16 4 bytes", make([]byte, 4), 0, noFooter},
		{"F16 5 bytes", make([]byte, 5), 0, noFooter},
		{"F16 ident only", join("XETBLOB", 7), 7, "ends after 7 bytes"},
		{"F16 version only", join("XETBLOB\x01", 8), 8, "ends after 8 bytes, 92 is the least"},
		{"F16 version 0 only", join("XETBLOB\x00", 8), 8, "ends after 8 bytes, 60 is the least"},
		{"F17 length 0", put32(-4, 0), 0, noFooter},
		{"F17 length of all", put32(-4, uint32(len(good)-4)), 0, noFooter},
		{"F17 length beyond all", put32(-4, uint32(len(good)-3)), 0, noFooter},
		{"F17 length largest", put32(-4, 0xffffffff), 0, noFooter},
		{"F17 length one more", put32(-4, length+1), 0, noFooter},
		{"F17 length one less", put32(-4, length-1), 0, noFooter},
		{"F18 version 2", put(exampleBody+7, 2), 109, "version 2 is not known"},
		{"F18 version 255", put(exampleBody+7, 255), 109, "version 255 is not known"},
		{"F18 version of the hash section", put(atHashes+7, 1), atHashes + 7, "version 1 of XBLBHSH is not known"},
		{"F18 version of the boundary section", put(atBoundary+7, 2), atBoundary + 7, "version 2 of XBLBBND is not known"},
		{"F18 version 0 of the boundary section", put(atBoundary+7, 0), atBoundary + 7, "version 0 of XBLBBND is not known"},
		{"F20 no chunks", put32(atHashes+8, 0), atHashes + 8, "no chunks"},
		{"F20 8193 chunks", put32(atHashes+8, 8193), atHashes + 8, "8193 chunks, 8192 is the most"},
		{"F20 2^32-1 chunks", put32(atHashes+8, 0xffffffff), atHashes + 8, "4294967295 chunks, 8192 is the most"},
		{"F20 one more", put32(atHashes+8, 4), atHashes + 8, "4 chunks need 252 bytes, the footer has 212"},
		{"F20 other boundary count", put32(atBoundary+8, 2), atBoundary + 8, "count of the boundary section is 2, want 3"},
		{"F20 other last count", put32(atLast, 4), atLast, "last count is 4, want 3"},
		{"F21 equal packed ends", put32(atPacked+4, 20), atPacked + 4, "packed chunk 1 from byte 20 to 20"},
		{"F21 falling packed ends", put32(atPacked+4, 19), atPacked + 4, "packed chunk 1 from byte 20 to 19"},
		{"F21 a header and nothing", put32(atPacked, 8), atPacked, "packed chunk 0 from byte 0 to 8"},
		{"F21 a chunk too large", put32(atPacked+8, 54+8+262145), atPacked + 8, "packed chunk 2 from byte 54 to 262207"},
		{"F21 beyond the data", put32(atPacked+8, 103), atPacked + 8, "the last chunk ends at byte 103, the footer begins at 102"},
		{"F21 before the footer", put32(atPacked+8, 101), atPacked + 8, "the last chunk ends at byte 101, the footer begins at 102"},
		{"F21 a gap before the footer", slices.Concat(good[:102], make([]byte, 8), good[102:]), atPacked + 8 + 8, "the last chunk ends at byte 102, the footer begins at 110"},
		{"F21 chunks removed", good[20:], atPacked + 8 - 20, "the last chunk ends at byte 102, the footer begins at 82"},
		{"F22 equal unpacked ends", put32(atUnpacked+4, 12), atUnpacked + 4, "unpacked chunk 1 from byte 12 to 12"},
		{"F22 falling unpacked ends", put32(atUnpacked+4, 11), atUnpacked + 4, "unpacked chunk 1 from byte 12 to 11"},
		{"F22 a step too large", put32(atUnpacked+8, 76+131073), atUnpacked + 8, "unpacked chunk 2 from byte 76 to 131149"},
		{"F22 over 2^32", put32(atUnpacked+8, 0xffffffff), atUnpacked + 8, "unpacked chunk 2 from byte 76 to 4294967295"},
		{"F23 hashes from end, one more", put32(atLast+4, 173), atLast + 4, "distance of the hash section is 173, want 172"},
		{"F23 hashes from end, zero", put32(atLast+4, 0), atLast + 4, "distance of the hash section is 0, want 172"},
		{"F23 hashes from end, huge", put32(atLast+4, 1<<31), atLast + 4, "distance of the hash section is 2147483648, want 172"},
		{"F23 boundaries from end, one less", put32(atLast+8, 63), atLast + 8, "distance of the boundary section is 63, want 64"},
		{"F23 boundaries from end, zero", put32(atLast+8, 0), atLast + 8, "distance of the boundary section is 0, want 64"},
		{"F25 other hash of the xorb", put(exampleBody+8, 0), 110, "the xorb is…"},
		{"F25 no hash of the xorb", zeroHash, 110, "the hash of the xorb is zero"},
		{"F25 other hash of a chunk", put(atChunkHash, 0), 110, "the xorb is…"},
		{"F25 other unpacked end", put32(atUnpacked+4, 75), 110, "the xorb is…"},
		{"F26 a nonce", put(atFree, 1, 2, 3, 4), 0, ""},
		{"F26 every free byte", put(atFree, bytes.Repeat([]byte{0xff}, 16)...), 0, ""},
		{"F28 a byte behind the trailer", append(bytes.Clone(good), 0), 0, noFooter},
		{"F28 the footer twice", append(bytes.Clone(good), good[102:]...), 318 + 168, "the last chunk ends at byte 102, the footer begins at 318"},
		{"F28 cut by a byte", good[:len(good)-1], 0, noFooter},
		{"no chunks before the footer", good[102:], atPacked + 8 - 102, "the last chunk ends at byte 102, the footer begins at 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &counter{b: tt.in}
			_, err := ReadInfo(c, int64(len(tt.in)))
			if c.reads > 2 {
				t.Errorf("%d reads", c.reads)
			}
			if tt.reason == noFooter {
				if !errors.Is(err, ErrNoFooter) {
					t.Errorf("error = %v, want ErrNoFooter", err)
				}
				if _, err := walkInfo(tt.in); err == nil {
					t.Error("the walk accepts it")
				}
				return
			}
			wantReason(t, err, tt.reason)
			if tt.reason != "" {
				wantOffset(t, err, tt.off)
			}
		})
	}
}

// Each of the three idents, wrong in each byte, is refused and named. ReadInfo does this, or
// the walk over a xorb without a footer.
func TestF18_Idents(t *testing.T) {
	good := example(t, "xorb-footer-v1")
	for i := range identSize {
		b := codectest.Flip(good, 8*(exampleBody+i))
		if _, err := readInfo(b); !errors.Is(err, ErrNoFooter) {
			t.Errorf("byte %d of %s: %v", i, identFooter, err)
		}
		if _, err := walkInfo(b); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("byte %d of %s: the walk says %v", i, identFooter, err)
		}
		for at, ident := range map[int]string{atHashes: identHashes, atBoundary: identBoundary} {
			_, err := readInfo(codectest.Flip(good, 8*(at+i)))
			wantReason(t, err, "ident…")
			wantOffset(t, err, int64(at))
			if err == nil || !bytes.Contains([]byte(err.Error()), []byte("want \""+ident+`"`)) {
				t.Errorf("byte %d of %s: %v", i, ident, err)
			}
		}
	}
}

// The old footer is checked alike, and its ends against the headers they point to.
func TestF19_F24_OldFooter(t *testing.T) {
	good := example(t, "xorb-footer-v0")
	const count, ends = exampleBody + 40, exampleBody + 44
	put32 := func(off int, v uint32) []byte { return codectest.Put32(good, off, v) }
	tests := []struct {
		name   string
		in     []byte
		reason string
	}{
		{"good", good, ""},
		{"F20 no chunks", put32(count, 0), "no chunks"},
		{"F20 one more", put32(count, 4), "4 chunks need 204 bytes, the footer has 168"},
		{"F20 2^32-1 chunks", put32(count, 0xffffffff), "4294967295 chunks, 8192 is the most"},
		{"F21 falling ends", put32(ends+4, 5), "packed chunk 1 from byte 20 to 5"},
		{"F21 last end", put32(ends+8, 100), "the last chunk ends at byte 100, the footer begins at 102"},
		{"F24 first end", put32(ends, 21), "ends at byte 20, not where the footer says"},
		{"F24 bad header", codectest.Put(good, 20, 1), "version 1 is not known"},
		{"F24 ident for a header", codectest.Put(good, 20, []byte(identFooter)...), "is the ident of a footer"},
		{"F25 hash of a chunk", codectest.Put(good, ends+12, 1), "the xorb is…"},
		{"F26 a nonce", codectest.Put(good, -20, 1, 2, 3, 4), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := readInfo(tt.in)
			wantReason(t, err, tt.reason)
		})
	}
}

// Counts are compared with the available bytes before any allocation.
func TestF20_Allocates(t *testing.T) {
	b := codectest.Put32(example(t, "xorb-footer-v1"), atHashes+8, 0xffffffff)
	if n := allocated(func() { readInfo(b) }); n > 4096 {
		t.Errorf("%d bytes allocated", n)
	}
	long := codectest.Put32(make([]byte, 1<<20), -4, 1<<20-4)
	copy(long, identFooter)
	_, err := readInfo(long)
	wantReason(t, err, "has 1048572 bytes, 327772 is the most")
	if n := allocated(func() { readInfo(long) }); n > tailSize+4096 {
		t.Errorf("%d bytes allocated", n)
	}
}

// A reader that fails is not a xorb that is damaged.
func TestReadErrors(t *testing.T) {
	b := example(t, "xorb-footer-v1")
	if _, err := ReadInfo(bytes.NewReader(b), int64(len(b))+1); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("ReadInfo: %v", err)
	}
	if _, err := WalkInfo(bytes.NewReader(b[:60]), int64(len(b))); !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, codec.ErrCorrupt) {
		t.Errorf("WalkInfo: %v", err)
	}
}

// manyChunks returns a xorb of n plain chunks of one byte each, with a footer.
func manyChunks(t testing.TB, n int) []byte {
	chunks := make([]sample, n)
	for i := range chunks {
		chunks[i].data = []byte{byte(i)}
	}
	return build(t, true, chunks...)
}

// A long footer takes two reads of the tail, a short one takes one.
func TestF28_ManyChunks(t *testing.T) {
	for n, reads := range map[int]int{1: 1, 1000: 1, 8192: 2} {
		c := &counter{b: manyChunks(t, n)}
		in, err := ReadInfo(c, int64(len(c.b)))
		if err != nil || in.Len() != n || c.reads != reads {
			t.Errorf("%d chunks: %v, %d reads, want %d", n, err, c.reads, reads)
		}
	}
	b := manyChunks(t, 8192)[:9*8192]
	if in, err := walkInfo(b); err != nil || in.Len() != 8192 {
		t.Errorf("walk over 8192 chunks: %v", err)
	}
	_, err := walkInfo(append(b, b[:9]...))
	wantReason(t, err, "more than 8192 chunks")
	_, err = ParseRun(append(b, b[:9]...), codec.ChunkRange{End: 8192}, nil)
	wantReason(t, err, "9 bytes follow the last chunk")
}

// A wide is a sequence of equal chunks of zeros, as large as a xorb may be, without the memory.
type wide struct{ chunk, n, size int64 }

func (w wide) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	for i := off / w.chunk; i <= (off+int64(len(p)))/w.chunk && i < w.n; i++ {
		head := ChunkHeader{Packed: int(w.chunk - ChunkHeaderSize), Unpacked: int(w.chunk - ChunkHeaderSize)}.Append(nil)
		for j, c := range head {
			if at := i*w.chunk + int64(j) - off; at >= 0 && at < int64(len(p)) {
				p[at] = c
			}
		}
	}
	return int(min(int64(len(p)), w.size-off)), nil
}

// 8,192 plain chunks of 8 KiB are a xorb of 64 MiB and 8,192 headers: the largest. One
// byte more is refused.
func TestF28_LargestXorb(t *testing.T) {
	largest := wide{chunk: 8192 + 8, n: 8192, size: maxBody}
	if in, err := WalkInfo(largest, largest.size); err != nil || in.Len() != 8192 {
		t.Errorf("the largest: %v", err)
	}
	over := wide{chunk: 128<<10 + 8, n: 513, size: 513 * (128<<10 + 8)}
	_, err := WalkInfo(over, over.size)
	wantReason(t, err, fmt.Sprintf("chunks have more than %d bytes", maxBody))
	footer := binary.LittleEndian.AppendUint32([]byte(identFooter+"\x01"), 8)
	_, err = decodeFooter(footer, maxBody+1)
	wantReason(t, err, fmt.Sprintf("the chunks before it have more than %d bytes", maxBody))
}

// A walk over a xorb of large chunks reads little of it, over one of small chunks it
// makes few reads.
func TestWalkReads(t *testing.T) {
	large := make([]sample, 40)
	for i := range large {
		large[i].data = randomLike(100_000)
	}
	c := &counter{b: build(t, false, large...)}
	if _, err := WalkInfo(c, int64(len(c.b))); err != nil || c.bytes > len(c.b)/10 {
		t.Errorf("%d of %d bytes read, %v", c.bytes, len(c.b), err)
	}
	c = &counter{b: manyChunks(t, 8000)[:9*8000]}
	if _, err := WalkInfo(c, int64(len(c.b))); err != nil || c.reads > 4 {
		t.Errorf("%d reads, %v", c.reads, err)
	}
}

func TestInfoRanges(t *testing.T) {
	in := &Info{PackedEnd: []uint32{20, 54, 102}, UnpackedEnd: []uint32{12, 76, 142}}
	r := func(start, end uint32) codec.ChunkRange { return codec.ChunkRange{Start: start, End: end} }
	if start, end := in.PackedRange(r(0, 3)); start != 0 || end != 102 {
		t.Errorf("PackedRange of all = %d, %d", start, end)
	}
	if start, end := in.PackedRange(r(1, 2)); start != 20 || end != 54 {
		t.Errorf("PackedRange of the middle = %d, %d", start, end)
	}
	if start, end := in.UnpackedRange(r(1, 3)); start != 12 || end != 142 {
		t.Errorf("UnpackedRange = %d, %d", start, end)
	}
	tests := []struct {
		name       string
		r          codec.ChunkRange
		skip, size int64
		want       codec.ChunkRange
		left       int64
	}{
		{"all", r(0, 3), 0, 142, r(0, 3), 0},
		{"first byte", r(0, 3), 0, 1, r(0, 1), 0},
		{"first chunk", r(0, 3), 0, 12, r(0, 1), 0},
		{"across a border", r(0, 3), 11, 2, r(0, 2), 11},
		{"from a border", r(0, 3), 12, 1, r(1, 2), 0},
		{"up to a border", r(0, 3), 13, 63, r(1, 2), 1},
		{"last byte", r(0, 3), 141, 1, r(2, 3), 65},
		{"inside a term", r(1, 3), 0, 64, r(1, 2), 0},
		{"inside a term, later", r(1, 3), 64, 66, r(2, 3), 0},
		{"the end of a term", r(1, 2), 60, 4, r(1, 2), 60},
		{"past the term", r(1, 2), 60, 100, r(1, 2), 60},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, left := in.Narrow(tt.r, tt.skip, tt.size); got != tt.want || left != tt.left {
				t.Errorf("Narrow = %s, %d, want %s, %d", got, left, tt.want, tt.left)
			}
		})
	}
}

package xorb

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
)

// Check reports every fault and continues behind it.
func TestCheck(t *testing.T) {
	good, body, old := example(t, "xorb-footer-v1"), example(t, "xorb-no-footer"), example(t, "xorb-footer-v0")
	put := func(b []byte, off int, v ...byte) []byte { return codectest.Put(b, off, v...) }
	tests := []struct {
		name   string
		in     []byte
		chunks int      // that it lists
		faults []string // how each begins
	}{
		{"good", good, 3, nil},
		{"good, old footer", old, 3, nil},
		{"good, no footer", body, 3, nil},
		{"nothing", nil, 0, []string{"xorb at byte 0: no chunks"}},
		{"content of one chunk", put(good, 8, 'h'), 3, []string{
			"chunk 0: chunk at byte 0: its hash is",
			"xorb footer at byte 110: the xorb is",
		}},
		{"two chunks that do not unpack", put(put(good, 28, 0), 62, 0), 3, []string{
			"chunk 1: lz4 frame at byte 28: magic is",
			"chunk 2: lz4 frame at byte 62: magic is",
		}},
		{"bad header in the middle", put(good, 20, 9), 3, []string{
			"chunk 1: chunk header at byte 20: version 9 is not known",
		}},
		{"F24 bad header in the middle, old footer", put(old, 20, 9), 3, []string{
			"chunk 1: chunk header at byte 20: version 9 is not known",
			"xorb footer at byte 110: the xorb is", // the size of chunk 1 is unknown
		}},
		{"bad header in the middle, no footer", put(body, 20, 9), 1, []string{
			"chunk 1: chunk header at byte 20: version 9 is not known",
		}},
		{"F24 chunk longer than the footer says", put(put(good, 1, 11), 5, 11), 3, []string{
			"chunk 0: chunk at byte 0: its hash is",
			"chunk 0: chunk header at byte 5: unpacks to 11 bytes, the footer says 12",
			"chunk 0: chunk header at byte 0: ends at byte 19, the footer says 20",
			"chunk 1: chunk header at byte 19: version 33 is not known",
			"xorb footer at byte 110: the xorb is",
		}},
		{"F24 other packed end", codectest.Put32(good, atPacked, 21), 3, []string{
			"chunk 0: chunk header at byte 0: ends at byte 20, the footer says 21",
		}},
		{"F24 other unpacked end", codectest.Put32(good, atUnpacked, 13), 3, []string{
			"chunk 0: chunk header at byte 5: unpacks to 12 bytes, the footer says 13",
			"chunk 1: chunk header at byte 25: unpacks to 64 bytes, the footer says 63",
		}},
		{"F25 other hash of the xorb", put(good, 110, 0), 3, []string{"xorb footer at byte 110: the xorb is"}},
		{"F25 other hash of a chunk", put(good, atChunkHash, 0), 3, []string{"chunk 0: chunk at byte 0: its hash is"}},
		{"a footer that is not good", put(good, atHashes, 0), 3, []string{"xorb footer at byte 142: ident"}},
		{"a footer that is not found", codectest.Put32(good, -4, 0), 3, []string{"xorb footer at byte 314: the length leads to byte 314"}},
		{"cut in a chunk", body[:100], 2, []string{"chunk 2: chunk header at byte 55: packed size 40, 38 bytes are left"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var faults []string
			in, err := Check(bytes.NewReader(tt.in), int64(len(tt.in)), func(err error) {
				faults = append(faults, err.Error())
				if !errors.Is(err, codec.ErrCorrupt) {
					t.Errorf("fault %v is not an ErrCorrupt", err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if in.Len() != tt.chunks || len(in.Chunks) != tt.chunks || len(in.UnpackedEnd) != tt.chunks {
				t.Errorf("%d chunks, want %d", in.Len(), tt.chunks)
			}
			ok := len(faults) == len(tt.faults)
			for i := 0; ok && i < len(faults); i++ {
				ok = strings.HasPrefix(faults[i], tt.faults[i])
			}
			if !ok {
				t.Errorf("faults:\n%s\nwant:\n%s", strings.Join(faults, "\n"), strings.Join(tt.faults, "\n"))
			}
		})
	}
}

// An error of the reader is returned and is no fault of the xorb.
func TestCheckReader(t *testing.T) {
	b := example(t, "xorb-no-footer")
	for n := range b {
		_, err := Check(bytes.NewReader(b[:n]), int64(len(b)), func(err error) { t.Error(err) })
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// A failingReader fails one of its reads.
type failingReader struct {
	io.ReaderAt
	left int // good reads before the failing one
}

var errDisk = errors.New("disk error")

func (r *failingReader) ReadAt(p []byte, off int64) (int, error) {
	if r.left--; r.left == -1 {
		return 0, errDisk
	}
	return r.ReaderAt.ReadAt(p, off)
}

// Check returns the error of each read, also of one behind a broken header.
func TestCheckReadError(t *testing.T) {
	good := example(t, "xorb-footer-v1")
	for name, b := range map[string][]byte{
		"good":       good,
		"bad header": codectest.Put(good, 20, 9),
		"chunk that is longer than in the footer": codectest.Put(codectest.Put(good, 1, 11), 5, 11),
	} {
		for n := 0; ; n++ {
			r := &failingReader{bytes.NewReader(b), n}
			_, err := Check(r, int64(len(b)), func(error) {})
			if r.left >= 0 {
				break // fewer reads
			}
			if !errors.Is(err, errDisk) {
				t.Errorf("%s: read %d fails: Check = %v, want %v", name, n, err, errDisk)
			}
		}
	}
}

// Check reports every kind of damage. The only exception is a xorb that was cut at the end of a
// chunk.
func TestCheckFindsDamage(t *testing.T) {
	good := example(t, "xorb-footer-v1")
	want, err := readInfo(good)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range codectest.Mutate(good) {
		faults := 0
		in, err := Check(bytes.NewReader(b), int64(len(b)), func(error) { faults++ })
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		whole := len(b) == int(want.PackedEnd[0]) || len(b) == int(want.PackedEnd[1])
		if faults == 0 && in.Xorb != want.Xorb && !whole {
			t.Errorf("%s: no fault, but another xorb", name)
		}
	}
}

// CheckRest leaves out the bytes of proven chunks, and nothing else.
func TestCheckRest(t *testing.T) {
	good, body := example(t, "xorb-footer-v1"), example(t, "xorb-no-footer")
	put := func(b []byte, off int, v ...byte) []byte { return codectest.Put(b, off, v...) }
	tests := []struct {
		name   string
		in     []byte
		faults []string // how each begins
	}{
		{"good", good, nil},
		{"content of the proven chunk", put(good, 28, 0), nil},
		{"content of another chunk", put(good, 62, 0), []string{"chunk 2: lz4 frame at byte 62: magic is"}},
		{"header of the proven chunk", put(good, 20, 9), []string{"chunk 1: chunk header at byte 20: version 9 is not known"}},
		{"size of the proven chunk", put(good, 25, 11), []string{
			"chunk 1: chunk header at byte 25: unpacks to 11 bytes, the footer says 64",
			"xorb footer at byte 110: the xorb is",
		}},
		{"content of the proven chunk, no footer", put(body, 28, 0), []string{"chunk 1: lz4 frame at byte 28: magic is"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var faults []string
			proven := func(chunk int) bool { return chunk == 1 }
			if _, err := CheckRest(bytes.NewReader(tt.in), int64(len(tt.in)), proven, func(err error) { faults = append(faults, err.Error()) }); err != nil {
				t.Fatal(err)
			}
			same := len(faults) == len(tt.faults)
			for i := range faults {
				same = same && strings.HasPrefix(faults[i], tt.faults[i])
			}
			if !same {
				t.Errorf("faults %q, want %q", faults, tt.faults)
			}
		})
	}
}

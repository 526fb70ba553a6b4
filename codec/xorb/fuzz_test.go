package xorb

import (
	"bytes"
	"errors"
	"testing"

	"github.com/xetfs/xetfs/codec"
)

// FuzzUnpack checks these promises: no panic, no write outside the buffer, every error an
// ErrCorrupt. Accepted input unpacks to the same bytes again.
func FuzzUnpack(f *testing.F) {
	for _, tt := range frameTests {
		f.Add(tt.frame, len(tt.content), byte(LZ4))
	}
	f.Add([]byte(hello), 12, byte(None))
	f.Add(build(f, false, sample{floatLike(500), ByteGrouping4LZ4})[ChunkHeaderSize:], 500, byte(ByteGrouping4LZ4))
	f.Fuzz(func(t *testing.T, packed []byte, size int, scheme byte) {
		if size < 0 || size > codec.MaxChunkSize {
			return
		}
		const guard = 64
		decode := func(fill byte) ([]byte, error) {
			buf := bytes.Repeat([]byte{fill}, size+2*guard)
			err := unpack(buf[guard:guard+size], packed, Scheme(scheme))
			for i := range guard {
				if buf[i] != fill || buf[guard+size+i] != fill {
					t.Fatalf("byte %d around the buffer was written", i)
				}
			}
			return buf[guard : guard+size], err
		}
		first, err := decode(0xa5)
		again, err2 := decode(0x5a)
		switch {
		case err != nil && !errors.Is(err, codec.ErrCorrupt):
			t.Errorf("error %v is not an ErrCorrupt", err)
		case (err == nil) != (err2 == nil):
			t.Errorf("first %v, then %v", err, err2)
		case err == nil && !bytes.Equal(first, again):
			t.Error("decoded to other bytes the second time: some were not written")
		}
	})
}

func addXorbs(f *testing.F) {
	for _, form := range []string{"xorb-no-footer", "xorb-footer-v0", "xorb-footer-v1", "xorb-hello"} {
		f.Add(example(f, form))
	}
}

// FuzzReadInfo checks these promises: no panic, and every error of a known kind. Accepted
// footers encode to the same bytes, except the free ones. Version 0 is never written, so it is
// only read again.
func FuzzReadInfo(f *testing.F) {
	addXorbs(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := readInfo(b)
		if err != nil {
			if !errors.Is(err, codec.ErrCorrupt) && !errors.Is(err, ErrNoFooter) {
				t.Errorf("error %v is of no kind", err)
			}
			return
		}
		checkInfo(t, in)
		body := int(in.PackedEnd[in.Len()-1])
		again := in.AppendFooter(nil)
		if in.Footer == FooterV1 {
			clear(b[len(b)-lengthSize-freeSize : len(b)-lengthSize])
			if !bytes.Equal(again, b[body:]) {
				t.Errorf("decoded and encoded again: % x, was % x", again, b[body:])
			}
		}
		if _, err := decodeFooter(again[:len(again)-lengthSize], int64(body)); err != nil {
			t.Errorf("what was written is refused: %v", err)
		}
	})
}

// FuzzWalkInfo checks these promises: no panic, every error an ErrCorrupt. A found run is
// parsed to the same sizes. Check and Describe get the same bytes.
func FuzzWalkInfo(f *testing.F) {
	addXorbs(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := Describe(discard{}, b); err != nil {
			t.Error(err)
		}
		if _, err := Check(bytes.NewReader(b), int64(len(b)), func(error) {}); err != nil {
			t.Error(err)
		}
		in, err := walkInfo(b)
		if err != nil {
			if !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("error %v is not an ErrCorrupt", err)
			}
			return
		}
		checkInfo(t, in)
		all := codec.ChunkRange{End: uint32(in.Len())}
		start, end := in.PackedRange(all)
		run, err := ParseRun(b[start:end], all, nil)
		if err != nil {
			t.Fatalf("ParseRun: %v", err)
		}
		if _, want := in.UnpackedRange(all); run.UnpackedSize() != want {
			t.Errorf("%d bytes unpacked, the walk says %d", run.UnpackedSize(), want)
		}
	})
}

// checkInfo checks what holds for every Info, wherever it comes from.
func checkInfo(t *testing.T, in *Info) {
	t.Helper()
	if in.Len() == 0 || len(in.UnpackedEnd) != in.Len() || in.Chunks != nil && len(in.Chunks) != in.Len() {
		t.Fatalf("%d packed, %d unpacked ends, %d hashes", in.Len(), len(in.UnpackedEnd), len(in.Chunks))
	}
	for i := range uint32(in.Len()) {
		one := codec.ChunkRange{Start: i, End: i + 1}
		if start, end := in.PackedRange(one); end-start <= ChunkHeaderSize || end-start > ChunkHeaderSize+maxPackedSize {
			t.Errorf("packed chunk %d from byte %d to %d", i, start, end)
		}
		if start, end := in.UnpackedRange(one); end <= start || end-start > codec.MaxChunkSize {
			t.Errorf("unpacked chunk %d from byte %d to %d", i, start, end)
		}
	}
}

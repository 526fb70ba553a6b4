package casserve_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A lateSource has one xorb. Its first read fails, and may still write to its buffer.
type lateSource struct {
	casserve.PlaceSource
	t    *testing.T
	xorb *origintest.Xorb
	late []byte // nil before the first read
}

func (s *lateSource) Chunks(_ context.Context, _ codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
	start, end := s.xorb.Info.PackedRange(r)
	b := o.Buffer(int(end - start))
	switch {
	case s.late == nil:
		s.late = b
		return nil, codec.Corrupt("chunk", 0, "is damaged")
	case &b[0] == &s.late[0]:
		s.t.Error("the buffer of the failed read is used again")
	}
	copy(b, s.xorb.Bytes[start:end])
	return xorb.ParseRun(b, r, s.xorb.Info.Chunks[r.Start:r.End])
}

func (s *lateSource) Places(context.Context, codec.Hash, codec.ChunkRange) (origin.Places, error) {
	return s.xorb.Info, nil
}

func (s *lateSource) Reject(codec.Hash) int { return 0 }

func (s *lateSource) Local() bool { return false }

// A buffer that the source may still write to is not used again.
func TestLateBufferIsNotUsedAgain(t *testing.T) {
	x := origintest.NewBuilder(t, origintest.Form{}).Xorb(origintest.Random(1, 1000), origintest.Random(2, 1000))
	r := codec.ChunkRange{End: 2}
	start, end := x.Info.PackedRange(r)
	content := casserve.NewMirror(&lateSource{t: t, xorb: x}, casserve.StoreOptions{})
	for range 3 {
		transfer := casserve.Transfer{Xorb: x.Hash(), Span: casserve.Span{Chunks: r, Start: start, End: end}}
		var got []byte
		for b, err := range content.Packed(t.Context(), transfer, start, end) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, b...)
		}
		if !bytes.Equal(got, x.Bytes[start:end]) {
			t.Errorf("%d bytes differ", len(got))
		}
	}
}

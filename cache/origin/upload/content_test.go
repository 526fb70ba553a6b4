package upload_test

import (
	"context"
	"strings"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/cache/origin/upload"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A panicSource panics in the method with a name.
type panicSource struct {
	upload.Source
	method string
}

func (s panicSource) Info(ctx context.Context, x codec.Hash) (*xorb.Info, error) {
	if s.method == "Info" {
		panic("a bug")
	}
	return s.Source.Info(ctx, x)
}

func (s panicSource) Chunks(ctx context.Context, x codec.Hash, r codec.ChunkRange, o origin.ReadOptions) (*xorb.Run, error) {
	if s.method == "Chunks" {
		panic("a bug")
	}
	return s.Source.Chunks(ctx, x, r, o)
}

// A panic while content is hashed is an error of the upload, and does not end the process.
func TestPanicOfSource(t *testing.T) {
	for _, method := range []string{"Info", "Chunks"} {
		s := origintest.Memory()
		b := openFixture(t, s, upload.Options{Source: panicSource{objects.New(s, objects.Options{}).(upload.Source), method}})
		p := pack(t, random(1, 300_000))
		b.putXorb(p)
		if _, err := b.HashContent(t.Context(), p.files[0]); err == nil || !strings.Contains(err.Error(), "a bug") {
			t.Errorf("%s: %v, want the panic", method, err)
		}
	}
}

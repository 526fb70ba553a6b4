package origin_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/origintest"
)

// A ReaderAt over a store never reads short.
func TestReaderAt(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	x := b.Xorb(origintest.Text(1, 1000))
	r := origin.ReaderAt(t.Context(), b.Store(), x.Key())
	p := make([]byte, 10)
	if n, err := r.ReadAt(p, 3); n != 10 || err != nil || !bytes.Equal(p, x.Bytes[3:13]) {
		t.Errorf("ReadAt = %d, %v", n, err)
	}
	if n, err := r.ReadAt(p, int64(len(x.Bytes)-5)); n != 0 || err == nil {
		t.Errorf("ReadAt across the end = %d, %v, want 0 and an error", n, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := origin.ReaderAt(ctx, b.Store(), x.Key()).ReadAt(p, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("ReadAt = %v, want %v", err, context.Canceled)
	}
}

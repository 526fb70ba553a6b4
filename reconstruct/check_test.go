package reconstruct

import (
	"bytes"
	"context"
	"crypto/sha1"
	"errors"
	"hash"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/codec"
)

// completeSlowly reads a file with a hash of its content to its end. Its check reads it again, which
// takes longer than the last read waits.
func completeSlowly(t *testing.T) (m *planMount, read func(ctx context.Context, off int64) error) {
	s, f := large(t, largeChunks)
	sum := sha1.Sum(f.Bytes())
	m = mountPlan(t, s, "", Options{Ahead: 1}) // two requests at a time
	m.plan.Content = func(codec.FileID) (hash.Hash, []byte, error) { return sha1.New(), sum[:], nil }
	var isChecking atomic.Bool
	m.plan.Before = func(ctx context.Context, _ codec.Hash, _ codec.ChunkRange) error {
		if !isChecking.Load() {
			return nil
		}
		select {
		case <-time.After(50 * time.Second):
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	h := m.handle(t, f.ID())
	read = func(ctx context.Context, off int64) error {
		return tryRead(ctx, h.File(), f.Bytes(), off, 2<<16) // without readahead
	}
	const last = (largeChunks - 2) << 16
	if got, err := scan(t.Context(), h.File(), last); err != nil || !bytes.Equal(got, f.Bytes()[:last]) {
		t.Fatal(err)
	}
	isChecking.Store(true)
	if h.NeedsProof() {
		t.Error("the read that completes the file waits for a proof")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := read(ctx, last); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the read that completes the file: %v", err)
	}
	if !h.NeedsProof() {
		t.Error("the next read does not wait for the check")
	}
	return m, read
}

// The check of a file continues after its reader ran out of time, and is not repeated.
func TestCheckOutlivesItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, read := completeSlowly(t)
		if err := read(t.Context(), 0); err != nil {
			t.Errorf("a read after the check: %v", err)
		}
		if _, n := m.plan.Requests(); n > 2*largeChunks {
			t.Errorf("%d chunks were requested, want %d for the reads and for one check", n, 2*largeChunks)
		}
	})
}

// A check without readers ends with the Reader.
func TestCheckEndsWithReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := completeSlowly(t)
		start := time.Now()
		m.close(t)
		if took := time.Since(start); took > 0 {
			t.Errorf("Close waited %v for the check", took)
		}
	})
}

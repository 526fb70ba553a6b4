package cas

import (
	"context"
	"errors"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// tinyChunks returns n packed chunks of a byte each.
func tinyChunks(n int) (packed []byte) {
	for range n {
		packed = append(xorb.ChunkHeader{Packed: 1, Unpacked: 1}.Append(packed), 'x')
	}
	return packed
}

// A range with more chunks than a xorb may have costs no memory for the further headers.
func TestTooManyHeaders(t *testing.T) {
	for _, first := range []uint32{0, 1, codec.MaxXorbChunks - 2} {
		s := &segment{first: first, buf: tinyChunks(codec.MaxXorbChunks + 100), grown: make(chan struct{})}
		fresh := 0
		for n := 0; n <= len(s.buf); n += 100 {
			_, _, some := s.advance(n)
			fresh += len(some)
		}
		if want := codec.MaxXorbChunks - int(first); len(s.headers) != want || fresh != want {
			t.Errorf("from chunk %d on: %d headers, %d of them new, want %d", first, len(s.headers), fresh, want)
		}
		if !errors.Is(s.bad, codec.ErrCorrupt) {
			t.Errorf("from chunk %d on: error %v, want %v", first, s.bad, codec.ErrCorrupt)
		}
		if all, _, err := headersOf(s.buf, first); len(all) != len(s.headers) || !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("from chunk %d on: %d headers, error %v", first, len(all), err)
		}
	}
}

// No call joins a failed transfer that is not removed yet.
func TestFailedSegmentIsNotShared(t *testing.T) {
	c, x, r := NewClient(Options{}), codec.Hash{1}, codec.ChunkRange{Start: 3, End: 5}
	defer c.Close()
	s := &segment{xorb: x, end: 100, first: 3, about: 13, grown: make(chan struct{})}
	c.segments[x] = []*segment{s}
	covering := func() *segment {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.coveringLocked(x, s)
	}
	if covering() != s || c.joinSegment(x, r) != s {
		t.Error("a running transfer is not shared")
	}
	s.finish(errors.New("lost"))
	if covering() != nil || c.joinSegment(x, r) != nil {
		t.Error("a failed transfer is shared")
	}
}

// Chunks that have arrived are read even if the transfer fails later.
func TestArrivedChunksOfFailedTransfer(t *testing.T) {
	c, lost := NewClient(Options{}), errors.New("lost")
	defer c.Close()
	s := &segment{first: 3, buf: tinyChunks(10), grown: make(chan struct{})}
	s.end = int64(len(s.buf))
	c.learn(s, len(tinyChunks(5)))
	s.finish(lost)
	arrived := codec.ChunkRange{Start: 4, End: 8}
	if run, err := c.read(t.Context(), s, arrived, origin.ReadOptions{}); err != nil || run.Chunks != arrived {
		t.Errorf("chunks %v: %v, %v", arrived, run, err)
	}
	missing := codec.ChunkRange{Start: 4, End: 9}
	if _, err := c.read(t.Context(), s, missing, origin.ReadOptions{}); !errors.Is(err, lost) {
		t.Errorf("chunks %v: error %v, want %v", missing, err, lost)
	}
}

// A transfer without users ends if its reader was canceled, or if much is missing.
func TestAbandonedTransferEnds(t *testing.T) {
	for _, tt := range []struct {
		users    int
		missing  int64
		canceled bool
		ends     bool
	}{
		{1, abandonBytes, false, false},
		{1, abandonBytes + 1, false, true},
		{1, 1, true, true},
		{2, abandonBytes + 1, true, false},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if tt.canceled {
			cancel()
		}
		ended, x := false, codec.Hash{1}
		s := &segment{xorb: x, end: tt.missing, users: tt.users, cancel: func() { ended = true }}
		c := &Client{segments: map[codec.Hash][]*segment{x: {s}}}
		c.leave(ctx, s, 0)
		if isStored := len(c.segments) > 0; ended != tt.ends || isStored == tt.ends {
			t.Errorf("%+v: ended %t, stored %t", tt, ended, isStored)
		}
		cancel()
	}
}

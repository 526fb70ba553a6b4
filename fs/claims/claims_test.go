package claims

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A claim is complete when reads in any order have covered the file, and not before.
func TestOrder(t *testing.T) {
	b := bytes.Repeat([]byte("0123456789"), 100)
	type read struct{ off, end int64 }
	tests := []struct {
		name     string
		reads    []read
		complete int // index of the read that completes it; -1: none
	}{
		{"in order", []read{{0, 400}, {400, 1000}}, 1},
		{"readahead is first", []read{{400, 1000}, {0, 400}}, 1},
		{"backwards", []read{{800, 1000}, {600, 800}, {200, 600}, {0, 200}}, 3},
		{"overlapping", []read{{0, 400}, {300, 500}, {0, 100}, {499, 1000}}, 3},
		{"overlapping and early", []read{{300, 500}, {300, 400}, {499, 1000}, {0, 300}}, 3},
		{"a hole", []read{{0, 400}, {500, 1000}}, -1},
		{"twice", []read{{0, 1000}, {0, 1000}}, 0},
		{"under way meanwhile", []read{{0, 1000}, {500, 1000}}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s Set
			c, _ := s.Acquire(Key{SHA256: sha256.Sum256(b)}, 1000)
			done := -1
			for i, r := range tt.reads {
				sum, complete, _ := c.Add(t.Context(), b[r.off:r.end], r.off)
				if complete && (done >= 0 || sum != sha256.Sum256(b)) {
					t.Errorf("read %d: complete with %x, or again", i, sum)
				}
				if complete {
					done = i
				}
			}
			if done != tt.complete {
				t.Errorf("read %d completes it, want %d", done, tt.complete)
			}
			if s.Release(c); s.held.Load() != 0 || len(s.open) != 0 {
				t.Errorf("%d bytes and %d claims are held after release", s.held.Load(), len(s.open))
			}
		})
	}
	var s Set
	s.held.Store(maxHeld)
	c, _ := s.Acquire(Key{}, 1000)
	if c.Add(t.Context(), b[1:], 1); len(c.early) > 0 || s.held.Load() != maxHeld {
		t.Errorf("%d reads are held without room", len(c.early))
	}
	if _, isNew := s.Acquire(Key{}, 1000); !isNew {
		t.Error("a claim that lacks a read is used again")
	}
}

// The handles of a file have one claim, those of another open file do not.
func TestShare(t *testing.T) {
	var s Set
	first, isNew := s.Acquire(Key{}, 1000)
	if !isNew {
		t.Error("the first claim is not new")
	}
	first.Add(t.Context(), make([]byte, 10), 0)
	if second, isNew := s.Acquire(Key{}, 1000); second != first || isNew {
		t.Error("a second handle has another claim")
	}
	alone, isNew := s.Acquire(Key{File: 1}, 1000)
	if alone == first || !isNew {
		t.Error("a handle shares a claim that it must not share")
	}
	if later, isNew := s.Acquire(Key{File: 1}, 1000); later != alone || isNew {
		t.Error("a later handle does not share the claim of its file")
	}
	for _, c := range []*Claim{first, first, alone, alone, nil} {
		s.Release(c)
	}
	if len(s.open) != 0 || s.Held() != 0 {
		t.Errorf("%d claims and %d bytes are left", len(s.open), s.Held())
	}
}

// A claim that has lost a read leaves its room to other claims.
func TestLostClaimLeavesRoom(t *testing.T) {
	var s Set
	const size, part = 4 * maxHeld, 1 << 20
	lost, _ := s.Acquire(Key{Ino: 1}, size)
	for off := int64(part); off < size; off += 2 * part {
		lost.Add(t.Context(), make([]byte, part), off)
	}
	other, _ := s.Acquire(Key{Ino: 2}, 2*part)
	other.Add(t.Context(), make([]byte, part), part)
	if _, complete, _ := other.Add(t.Context(), make([]byte, part), 0); !complete {
		t.Errorf("a claim has no room, with %d bytes held", s.Held())
	}
	s.Release(lost)
	s.Release(other)
	if s.Held() != 0 {
		t.Errorf("%d bytes are left", s.Held())
	}
}

// A read that was under way when another one has completed a false claim learns of it. Its bytes may be in
// the page cache next, where a third reader would find all of the file.
func TestFalseClaimEndsAllReads(t *testing.T) {
	b := bytes.Repeat([]byte("0123456789"), 100)
	var s Set
	c, _ := s.Acquire(Key{SHA256: [32]byte{1}}, 1000)
	defer s.Release(c)
	for i, off := range []int64{500, 0, 500, 0} {
		sum, complete, _ := c.Add(t.Context(), b[off:off+500], off)
		if complete != (i > 0) || complete && sum != sha256.Sum256(b) {
			t.Errorf("read %d: complete %v, %x", i, complete, sum)
		}
	}
}

// Reads that follow each other end in any order. They wait for their turn, and none is copied. A read in
// random order waits for no other one.
func TestReadsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, part = maxOrdered, 1 << 20
		content := bytes.Repeat([]byte("0123456789abcdef"), size/16)
		var s Set
		c, _ := s.Acquire(Key{}, 2*size)
		defer s.Release(c)
		for off := int64(0); off < size; off += part {
			c.Begin(off, part)
		}
		var readers sync.WaitGroup
		add := func(off int64) {
			c.Add(t.Context(), content[off:off+part], off)
			c.End(off, part)
		}
		for off := int64(size - part); off > 0; off -= part {
			readers.Go(func() { add(off) })
			synctest.Wait()
		}
		if held := s.Held(); held != 0 {
			t.Errorf("%d bytes are copied", held)
		}
		random := int64(size + part)
		c.Begin(random, part)
		c.Add(t.Context(), content[:part], random)
		c.End(random, part)
		if held := s.Held(); held != part {
			t.Errorf("%d bytes of a random read are held, want %d", held, part)
		}
		add(0)
		readers.Wait()
		if c.next != size {
			t.Errorf("%d bytes are hashed, want %d", c.next, size)
		}
	})
}

// A read does not wait for long for another one that hangs. The one behind that is held, and one far ahead
// without room drops the claim.
func TestWaitsAreBounded(t *testing.T) {
	const part = 1 << 20
	for off, isLost := range map[int64]bool{part: false, 2 * maxOrdered: true} {
		synctest.Test(t, func(t *testing.T) {
			var s Set
			c, _ := s.Acquire(Key{}, 4*maxOrdered)
			defer s.Release(c)
			if isLost {
				s.held.Store(maxHeld)
			}
			c.Begin(0, part) // and hangs
			c.Begin(off, part)
			defer c.End(off, part)
			start := time.Now()
			if _, _, err := c.Add(t.Context(), make([]byte, part), off); err != nil || c.lost != isLost || len(c.early) == 0 != isLost {
				t.Errorf("a read at %d: %v, lost %v, %d held", off, err, c.lost, len(c.early))
			}
			if took := time.Since(start); took != turnLimit {
				t.Errorf("it waits for %v, want %v", took, turnLimit)
			}
		})
	}
}

// A read that waits ends with its context, and is not part of the claim.
func TestCanceledReadWaitsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const part = 1 << 20
		var s Set
		c, _ := s.Acquire(Key{}, 2*part)
		defer s.Release(c)
		c.Begin(0, part) // and hangs
		c.Begin(part, part)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, _, err := c.Add(ctx, make([]byte, part), part)
			ended <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the read ends with %v", err)
		}
		c.End(part, part)
		if _, complete, _ := c.Add(t.Context(), make([]byte, part), 0); complete || c.next != part {
			t.Errorf("complete %v after %d bytes", complete, c.next)
		}
	})
}

// A read that is further ahead than the room waits for those before it, in any order of their ends.
func TestEarlyReadWaits(t *testing.T) {
	for name, lateBegin := range map[string]bool{"under way": false, "not begun": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const size, part = maxOrdered + 2*maxHeld, 1 << 20
				content := bytes.Repeat([]byte("0123456789abcdef"), size/16)
				var s Set
				c, _ := s.Acquire(Key{}, size)
				defer s.Release(c)
				if !lateBegin {
					c.Begin(0, part)
				}
				var readers sync.WaitGroup
				var completed atomic.Int64
				add := func(off int64) {
					if sum, complete, _ := c.Add(t.Context(), content[off:off+part], off); complete && sum == sha256.Sum256(content) {
						completed.Add(1)
					}
					c.End(off, part)
				}
				for off := int64(size - part); off > 0; off -= part {
					c.Begin(off, part)
					readers.Go(func() { add(off) })
				}
				synctest.Wait()
				if held := s.Held(); held != maxHeld {
					t.Errorf("%d bytes are held, want %d", held, maxHeld)
				}
				if lateBegin {
					c.Begin(0, part)
				}
				add(0)
				readers.Wait()
				if n := completed.Load(); n != 1 {
					t.Errorf("%d of the reads complete the file, want 1", n)
				}
			})
		})
	}
}

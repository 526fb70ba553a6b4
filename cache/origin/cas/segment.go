package cas

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A segment is bytes of a xorb in transfer, which several calls of Chunks share. It remains in
// memory until its chunks were read or others need the memory.
type segment struct {
	xorb       codec.Hash
	start, end int64 // bytes of the xorb
	cancel     context.CancelFunc

	private bool // buf belongs to one call: others only wait for the lengths

	first uint32 // chunk at start; noChunk: unknown
	about uint32 // the chunk at end, about; exact if the end is that of a signed range

	users  int // guarded by Client.mu
	unread int // chunks that were not read yet; guarded by Client.mu

	mu       sync.Mutex
	buf      []byte             // constant; its first n bytes are final
	n        int                // guarded by mu
	parsed   int                // bytes of the known headers and their chunks; guarded by mu
	headers  []xorb.ChunkHeader // from first on; guarded by mu
	reported int                // parsed at the last partial run; guarded by mu
	grown    chan struct{}      // closed when n grows or the transfer ends; guarded by mu
	bad      error              // the header at parsed is wrong; nil: none; guarded by mu
	ended    bool               // guarded by mu
	err      error              // guarded by mu
}

const noChunk = 1<<32 - 1

// partialStep is the number of bytes that arrive between two partial runs.
const partialStep = 128 << 10

// abandonBytes is the number of missing bytes from which a segment without users ends.
const abandonBytes = 4 << 20

// startSegment starts the transfer of a part of a signed range.
func (c *Client) startSegment(ctx context.Context, x codec.Hash, pl plannedRange, s *segment) *segment {
	s.xorb, s.grown = x, make(chan struct{})
	s.unread = s.expected()
	c.mu.Lock()
	if other := c.coveringLocked(x, s); other != nil {
		other.users++
		c.mu.Unlock()
		return other
	}
	ctx, s.cancel = c.detach(ctx)
	s.users++
	c.segments[x] = append(c.segments[x], s)
	c.mu.Unlock()
	c.background.Go(func() {
		err := c.fill(ctx, pl, s)
		if s.cancel(); err == nil {
			c.learn(s, len(s.buf))
		}
		s.finish(err)
		c.ended(s, err)
	})
	return s
}

// coveringLocked returns a segment with all bytes of another.
func (c *Client) coveringLocked(x codec.Hash, s *segment) *segment {
	for _, other := range c.segments[x] {
		if other.isShared() && other.start <= s.start && s.end <= other.end && (s.first == noChunk || other.first != noChunk) {
			return other
		}
	}
	return nil
}

// fill transfers the bytes of a segment. Large segments wait for their part of the memory.
func (c *Client) fill(ctx context.Context, pl plannedRange, s *segment) (err error) {
	defer flight.Guard(&err)
	if n := min(s.size(), c.o.SegmentBytes); n > smallSegment {
		if err := c.transfers.Acquire(ctx, n); err != nil {
			return err
		}
		defer c.transfers.Release(n)
	}
	s.buf = make([]byte, s.size())
	return c.transfer(ctx, s.xorb, pl, s.buf, s.start, func(n int) { c.learn(s, n) })
}

// learn records that the first n bytes have arrived.
func (c *Client) learn(s *segment, n int) {
	from, start, fresh := s.advance(n)
	if len(fresh) > 0 {
		c.places.learnChunks(s.xorb, from, start, fresh)
	}
}

// advance sets n and returns the headers of the chunks that it completes.
func (s *segment) advance(n int) (first uint32, start int64, fresh []xorb.ChunkHeader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n = max(s.n, n)
	close(s.grown)
	s.grown = make(chan struct{})
	if s.first == noChunk {
		return 0, 0, nil
	}
	first, start = s.first+uint32(len(s.headers)), s.start+int64(s.parsed)
	if s.bad != nil {
		return first, start, nil
	}
	fresh, size, err := headersOf(s.buf[s.parsed:s.n], first)
	s.parsed, s.headers = s.parsed+size, append(s.headers, fresh...)
	if err != nil {
		s.bad = fmt.Errorf("chunk %d at byte %d: %w", int(s.first)+len(s.headers), s.start+int64(s.parsed), err)
	}
	return first, start, fresh
}

// finish ends the transfer.
func (s *segment) finish(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended, s.err = true, err
	close(s.grown)
	s.grown = make(chan struct{})
}

// isShared reports whether calls may join the segment. One that has failed is removed at once, but maybe not
// yet.
func (s *segment) isShared() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.private && s.err == nil
}

// ended removes a failed segment, and bounds the completed ones.
func (c *Client) ended(s *segment, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.first != noChunk {
		s.unread += len(s.headers) - s.expected()
	}
	if err != nil || s.unread <= 0 || !slices.Contains(c.segments[s.xorb], s) {
		c.removeLocked(s)
		return
	}
	c.doneSegments = append(c.doneSegments, s)
	var n int64
	for i := len(c.doneSegments) - 1; i >= 0; i-- {
		if n += c.doneSegments[i].size(); n > c.o.SegmentBytes && i < len(c.doneSegments)-1 {
			for _, old := range slices.Clone(c.doneSegments[:i+1]) {
				c.removeLocked(old)
			}
			return
		}
	}
}

func (s *segment) size() int64 { return s.end - s.start }

// expected estimates the number of its chunks.
func (s *segment) expected() int { return max(1, int(s.about)-int(s.first)) }

// removeLocked removes a segment, so that no other call finds it.
func (c *Client) removeLocked(s *segment) {
	is := func(t *segment) bool { return t == s }
	c.doneSegments = slices.DeleteFunc(c.doneSegments, is)
	if left := slices.DeleteFunc(c.segments[s.xorb], is); len(left) > 0 {
		c.segments[s.xorb] = left
	} else {
		delete(c.segments, s.xorb)
	}
}

// dropSegmentsLocked removes all segments of a xorb.
func (c *Client) dropSegmentsLocked(x codec.Hash) {
	for _, s := range slices.Clone(c.segments[x]) {
		c.removeLocked(s)
	}
}

// leave ends the use of a segment, of which read chunks were read. A transfer without users ends
// if much is missing.
func (c *Client) leave(ctx context.Context, s *segment, read int) {
	s.mu.Lock()
	ended, left := s.ended, s.size()-int64(s.n)
	s.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	s.users--
	s.unread -= read
	switch {
	case ended && s.unread <= 0:
		c.removeLocked(s)
	case !ended && s.users == 0 && (left > abandonBytes || ctx.Err() != nil):
		c.removeLocked(s)
		s.cancel()
	}
}

// errElsewhere is the error of a segment that turns out not to have the chunks.
var errElsewhere = errors.New("the chunks are not in the segment")

// read returns chunks r of a segment, once they have arrived.
func (c *Client) read(ctx context.Context, s *segment, r codec.ChunkRange, o origin.ReadOptions) (run *xorb.Run, err error) {
	read := 0
	defer func() { c.leave(ctx, s, read) }()
	partial := r.Start
	for {
		start, end, known, state := c.view(s, r)
		switch {
		case known && s.start <= start && end <= s.start+int64(state.n):
			read = r.Len()
			if s.first == noChunk {
				headers, _, _ := headersOf(s.buf[start-s.start:state.n], r.Start)
				c.places.learnChunks(s.xorb, r.Start, start, headers)
			}
			return s.run(r, start, end, o.Buffer)
		case state.err != nil:
			return nil, state.err
		case known && (start < s.start || end > s.end):
			return nil, errElsewhere
		case !known && state.bad != nil:
			return nil, state.bad
		case state.ended:
			return nil, errElsewhere
		case o.OnPartial != nil:
			partial = s.partial(r, partial, o.OnPartial)
		}
		select {
		case <-state.grown:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// A segmentState is the progress of a segment.
type segmentState struct {
	n     int
	ended bool
	err   error
	bad   error // of the first chunk that r has and headers has not; nil: none
	grown <-chan struct{}
}

// view returns where chunks r are, and the progress of the segment.
func (c *Client) view(s *segment, r codec.ChunkRange) (start, end int64, known bool, state segmentState) {
	s.mu.Lock()
	state = segmentState{n: s.n, ended: s.ended, err: s.err, grown: s.grown}
	if s.first != noChunk && int(r.End) > int(s.first)+len(s.headers) {
		state.bad = s.bad
	}
	start, end, known = s.spanLocked(r)
	s.mu.Unlock()
	if !known {
		start, end, known = c.places.span(s.xorb, r)
	}
	return start, end, known, state
}

// spanLocked returns the bytes of chunks r, if the segment has their headers.
func (s *segment) spanLocked(r codec.ChunkRange) (start, end int64, known bool) {
	if s.first == noChunk || r.Start < s.first || int(r.End-s.first) > len(s.headers) {
		return 0, 0, false
	}
	at := s.start
	for i, h := range s.headers[:r.End-s.first] {
		if uint32(i) == r.Start-s.first {
			start = at
		}
		at += xorb.ChunkHeaderSize + int64(h.Packed)
	}
	return start, at, true
}

// run copies chunks r to memory of the caller.
func (s *segment) run(r codec.ChunkRange, start, end int64, buffer func(n int) []byte) (*xorb.Run, error) {
	packed := s.buf[start-s.start : end-s.start]
	if buffer != nil {
		to := buffer(len(packed))
		copy(to, packed)
		packed = to
	}
	run, err := xorb.ParseRun(packed, r, nil)
	if err != nil {
		return nil, fmt.Errorf("bytes [%d, %d): %w", start, end, err)
	}
	return run, nil
}

// partial calls onPartial with the first chunks of r, if there are more than up to a chunk.
func (s *segment) partial(r codec.ChunkRange, upTo uint32, onPartial func(*xorb.Run)) uint32 {
	s.mu.Lock()
	end := r.Start
	if s.first != noChunk {
		end = min(r.End-1, s.first+uint32(len(s.headers)))
	}
	if end <= upTo || end < r.End-1 && s.parsed < s.reported+partialStep {
		s.mu.Unlock()
		return upTo
	}
	s.reported = s.parsed
	some := codec.ChunkRange{Start: r.Start, End: end}
	from, to, ok := s.spanLocked(some)
	s.mu.Unlock()
	if !ok {
		return upTo
	}
	if run, err := s.run(some, from, to, nil); err == nil {
		onPartial(run)
	}
	return end
}

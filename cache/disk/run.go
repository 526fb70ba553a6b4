package disk

import (
	"context"
	"errors"
	"fmt"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// Run returns chunks of a xorb: those of r up to the first missing one. It returns false if that
// is the first of r. The run has no hashes of its chunks. A caller that finds a wrong chunk
// calls Drop. Run reads only the bytes of these chunks; chunks that were put in one run, or in
// successive runs, take one read.
func (s *Store) Run(x codec.Hash, r codec.ChunkRange) (*xorb.Run, bool) {
	return s.RunIn(x, r, RunOptions{Buffer: newBytes})
}

func newBytes(n int) []byte { return make([]byte, n) }

// RunIn is Run with options.
func (s *Store) RunIn(x codec.Hash, r codec.ChunkRange, o RunOptions) (*xorb.Run, bool) {
	k := index.XorbKey(x)
	b, n := s.read(k, r, o)
	if n > 0 || !o.NoWait {
		s.count(n, r.Len())
	}
	if n == 0 {
		return nil, false
	}
	r.End = r.Start + uint32(n)
	run, err := xorb.ParseRun(b, r, nil)
	if err != nil {
		if !o.Unchecked || s.compare(k, r, b) {
			s.drop(k, r)
			s.dropped(describe(k, r), err)
		}
		return nil, false
	}
	return run, true
}

// Check compares unchecked chunks with their checksums, and forgets those that differ. It
// returns false if there are any, or if some chunks are not stored any more.
func (s *Store) Check(x codec.Hash, run *xorb.Run) bool {
	return s.compare(index.XorbKey(x), run.Chunks, run.Packed)
}

func (s *Store) count(found, asked int) {
	s.stats.hits.Add(int64(found))
	s.stats.misses.Add(int64(asked - found))
}

// Missing returns the parts of r that are not stored, in order. It reads the index alone.
func (s *Store) Missing(x codec.Hash, r codec.ChunkRange) []codec.ChunkRange {
	if s.down() != nil {
		return []codec.ChunkRange{r}
	}
	return s.disk.Load().index.Missing(index.XorbKey(x), r, nil)
}

// Forget forgets chunks that may be wrong, although the disk has stored them well.
func (s *Store) Forget(x codec.Hash, r codec.ChunkRange) { s.drop(index.XorbKey(x), r) }

// Drop forgets chunks that do not match their hashes, and reports damage of the disk.
func (s *Store) Drop(x codec.Hash, r codec.ChunkRange) {
	k := index.XorbKey(x)
	if s.drop(k, r) > 0 {
		s.dropped(describe(k, r), errors.New("not what its hash says"))
	}
}

// PutRunNoCopy stores the chunks of a run, except those that are stored with the same bytes. It
// does not copy them: the bytes of the run must not change until release is called. release is
// called once if the error is nil, when the chunks can be found or were forgotten. It may run in
// another goroutine, also before PutRunNoCopy returns, and must not block.
//
// PutRunNoCopy never waits for the disk. The error is ErrBusy if too many bytes wait already,
// ErrFull, ErrSuspended, ErrReadOnly or ErrClosed. The caller may ignore the error.
func (s *Store) PutRunNoCopy(x codec.Hash, run *xorb.Run, release func()) error {
	return s.putRunNoCopy(x, run, release, func(p *putOp) error { return s.writer.Load().tryPut(p) })
}

// PutRunWait is PutRunNoCopy for callers that can wait for room, one caller after the other. It
// waits for as long as the disk may still write. If ctx ends before that, the error is ErrBusy
// and that of ctx.
func (s *Store) PutRunWait(ctx context.Context, x codec.Hash, run *xorb.Run, release func()) error {
	return s.putRunNoCopy(x, run, release, func(p *putOp) error { return s.writer.Load().putWait(ctx, p) })
}

func (s *Store) putRunNoCopy(x codec.Hash, run *xorb.Run, release func(), add func(*putOp) error) error {
	if err := s.WriteErr(); err != nil {
		return err
	}
	p, err := newPut(x, run.Chunks, run.Packed, release)
	if err != nil {
		return err
	}
	if len(s.disk.Load().index.Differing(p.key, p.first, p.infos)) == 0 {
		release()
		return nil
	}
	return s.put(p, add)
}

func newPut(x codec.Hash, r codec.ChunkRange, packed []byte, release func()) (*putOp, error) {
	p := &putOp{key: index.XorbKey(x), first: r.Start, data: packed, release: release}
	rest, seed := p.data, index.Seed(p.key)
	p.infos = make([]index.ChunkInfo, 0, r.Len())
	for c := r.Start; c < r.End; c++ {
		h, err := xorb.DecodeChunkHeader(rest)
		n := xorb.ChunkHeaderSize + h.Packed
		if err == nil && n > len(rest) {
			err = codec.Corrupt("run", int64(len(p.data)-len(rest)), "a chunk of %d bytes, %d are left", n, len(rest))
		}
		if err != nil {
			return nil, err
		}
		p.infos = append(p.infos, index.ChunkInfo{Size: n, CRC: index.Checksum(seed, c, rest[:n])})
		rest = rest[n:]
	}
	return p, nil
}

// put queues chunks with one of the methods of the writer.
func (s *Store) put(p *putOp, add func(*putOp) error) error {
	for _, c := range p.infos {
		if int64(c.Size) > s.o.testing.segment {
			return fmt.Errorf("%s: %d bytes do not fit in a segment: %w", describe(p.key, p.chunks()), c.Size, ErrFull)
		}
	}
	err := add(p)
	if err != nil {
		s.stats.refused.Add(1)
	}
	return err
}

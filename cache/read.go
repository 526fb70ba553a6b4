package cache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// Read fills p with the unpacked bytes of chunks r of xorb x, from skip on. Chunks that
// lie wholly inside p are unpacked into it, in parallel. After an error p may hold
// anything.
func (c *Cache) Read(ctx context.Context, x codec.Hash, r codec.ChunkRange, skip int64, p []byte) error {
	for try := 1; ; try++ {
		err := c.readOnce(ctx, x, r, skip, p)
		if err == nil {
			return nil
		}
		if !errors.Is(err, errAgain) && !c.Again(x, err, try) {
			return err
		}
	}
}

// A reading is one Read on its way.
type reading struct {
	c     *Cache
	ctx   context.Context // of the one call
	xorb  codec.Hash
	r     codec.ChunkRange
	skip  int64
	p     []byte
	want  []wanted // one for each chunk of r
	parts []part

	wantHere  [24]wanted // so that a read of 1 MiB allocates neither
	partsHere [2]part
}

// A wanted is one chunk of a reading: where its bytes come from, and where they go.
type wanted struct {
	data   []byte    // unpacked, if it was in memory
	run    *xorb.Run // else the packed chunks it is one of
	call   *call     // shared with other readers; nil if it is nobody else's
	lead   bool      // the call is ours to finish
	off    int64     // of the chunk, from the start of the chunks of r
	size   int64
}

var readings = sync.Pool{New: func() any { return new(reading) }}

func (c *Cache) readOnce(ctx context.Context, x codec.Hash, r codec.ChunkRange, skip int64, p []byte) error {
	rd := readings.Get().(*reading)
	rd.c, rd.ctx, rd.xorb, rd.r, rd.skip, rd.p = c, ctx, x, r, skip, p
	rd.want, rd.parts = rd.wantHere[:0], rd.partsHere[:0]
	for range r.Len() {
		rd.want = append(rd.want, wanted{})
	}
	err := rd.read()
	rd.close(err)
	*rd = reading{}
	readings.Put(rd)
	return err
}

func (rd *reading) read() error {
	rd.look()
	if err := rd.fetch(); err != nil {
		return err
	}
	// What others wait for comes first: two readers may wait for each other's chunks.
	for i := range rd.want {
		if w := &rd.want[i]; w.lead && rd.waitsForOthers() {
			if err := rd.unpackShared(i); err != nil {
				return err
			}
		}
	}
	if err := rd.wait(); err != nil {
		return err
	}
	if err := rd.place(); err != nil {
		return err
	}
	return rd.c.parallel(len(rd.want), rd.fill)
}

func (rd *reading) key(i int) chunkKey {
	return chunkKey{rd.xorb, rd.r.Start + uint32(i)}
}

// look finds what is in memory, and joins the calls for the chunks at the two ends.
func (rd *reading) look() {
	last := len(rd.want) - 1
	for i := range rd.want {
		w := &rd.want[i]
		var hit bool
		if w.data, hit = rd.c.memory.get(rd.key(i)); hit {
			rd.c.stats.memoryHits.Add(1)
			continue
		}
		if i != last && (i != 0 || rd.skip == 0) {
			continue // wholly inside p
		}
		w.call, w.lead = rd.c.calls.join(rd.key(i))
		switch {
		case w.lead:
		case w.call.finished() && w.call.err == nil:
			w.data, w.call = w.call.data, nil
			rd.c.stats.memoryHits.Add(1)
		default:
			rd.c.stats.shared.Add(1)
		}
	}
}

// needed says whether chunk i must come from the origin.
func (rd *reading) needed(i int) bool {
	w := &rd.want[i]
	return w.data == nil && (w.call == nil || w.lead)
}

// fetch gets the packed chunks, one request for each stretch of chunks that is missing.
func (rd *reading) fetch() error {
	for i := 0; i < len(rd.want); i++ {
		if !rd.needed(i) {
			continue
		}
		first := i
		for i < len(rd.want) && rd.needed(i) {
			i++
		}
		stretch := codec.ChunkRange{Start: rd.r.Start + uint32(first), End: rd.r.Start + uint32(i)}
		rd.parts = rd.c.fetches.join(rd.parts, rd.xorb, stretch)
	}
	for _, p := range rd.parts {
		switch {
		case p.own:
			rd.c.run(rd.ctx, p.fetch)
		case p.fetch.wasAhead(rd.c):
			rd.c.stats.aheadHits.Add(int64(p.sub.Len()))
		default:
			rd.c.stats.shared.Add(int64(p.sub.Len()))
		}
	}
	for _, p := range rd.parts {
		run, err := p.wait(rd.ctx)
		if err != nil {
			return err
		}
		for i := p.sub.Start; i < p.sub.End; i++ {
			rd.want[i-rd.r.Start].run = run
		}
	}
	return nil
}

// waitsForOthers says whether any chunk is being unpacked by another reader.
func (rd *reading) waitsForOthers() bool {
	first, last := &rd.want[0], &rd.want[len(rd.want)-1]
	return (first.call != nil && !first.lead) || (last.call != nil && !last.lead)
}

// wait gets the chunks that other readers unpack.
func (rd *reading) wait() error {
	for i := range rd.want {
		w := &rd.want[i]
		if w.call == nil || w.lead || w.data != nil {
			continue
		}
		var err error
		if w.data, err = w.call.wait(rd.ctx); err != nil {
			return err
		}
	}
	return nil
}

// place says where each chunk goes, now that all sizes are known.
func (rd *reading) place() error {
	var off int64
	for i := range rd.want {
		w := &rd.want[i]
		w.off, w.size = off, int64(len(w.data))
		if w.data == nil {
			w.size = int64(w.run.Size(rd.r.Start + uint32(i)))
		}
		off += w.size
	}
	if have := off - rd.skip; have < int64(len(rd.p)) {
		return fmt.Errorf("xorb %s: %w", rd.xorb, codec.Corrupt("chunks", off, "%v hold %d bytes, %d are wanted", rd.r, have, len(rd.p)))
	}
	return nil
}

// fill puts the bytes of chunk i where they belong.
func (rd *reading) fill(i int) error {
	w := &rd.want[i]
	from := w.off - rd.skip // of the chunk, in p
	if from+w.size <= 0 || from >= int64(len(rd.p)) {
		return nil // more chunks than needed
	}
	whole := from >= 0 && from+w.size <= int64(len(rd.p))
	if w.data == nil && whole {
		return rd.unpackInto(i, rd.p[from:from+w.size])
	}
	if w.data == nil {
		if err := rd.unpackShared(i); err != nil {
			return err
		}
	}
	if from < 0 {
		copy(rd.p, w.data[-from:])
	} else {
		copy(rd.p[from:], w.data)
	}
	return nil
}

// unpackInto unpacks a chunk straight into the reader's buffer. If others wait for it,
// they are told to look after themselves: that is rarer than the copy would be dear.
func (rd *reading) unpackInto(i int, dst []byte) error {
	w, key := &rd.want[i], rd.key(i)
	err := w.run.Unpack(key.index, dst)
	if w.lead {
		w.lead = false
		rd.c.calls.finish(w.call, nil, errAgain)
	}
	if err != nil {
		return fmt.Errorf("xorb %s: %w", rd.xorb, err)
	}
	if !rd.c.near {
		rd.c.memory.add(key, append([]byte(nil), dst...))
	}
	return nil
}

// unpackShared unpacks a chunk into memory, for this reader, those who wait and those
// who come later.
func (rd *reading) unpackShared(i int) error {
	w, key := &rd.want[i], rd.key(i)
	if w.data != nil {
		return nil
	}
	data := make([]byte, w.run.Size(key.index))
	err := w.run.Unpack(key.index, data)
	if err != nil {
		data, err = nil, fmt.Errorf("xorb %s: %w", rd.xorb, err)
	}
	if w.lead {
		w.lead = false
		rd.c.calls.finish(w.call, data, err)
	}
	if err != nil {
		return err
	}
	w.data = data
	rd.c.memory.add(key, data)
	return nil
}

// close ends the calls that this reader leads and did not finish, and gives back what
// it fetched.
func (rd *reading) close(err error) {
	for i := range rd.want {
		if w := &rd.want[i]; w.lead {
			if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
				err = errAgain // ours to suffer, not theirs
			}
			rd.c.calls.finish(w.call, nil, err)
		}
	}
	for _, p := range rd.parts {
		rd.c.fetches.release(p)
	}
}

// parallel calls do for 0 ≤ i < n, on as many cores as are free, and returns the first
// error.
func (c *Cache) parallel(n int, do func(i int) error) error {
	var (
		next   atomic.Int64
		mu     sync.Mutex
		failed error // guarded by mu
		help   sync.WaitGroup
	)
	work := func() (err error) {
		defer guard(&err)
		for {
			i := int(next.Add(1)) - 1
			if i >= n {
				return nil
			}
			if err := do(i); err != nil {
				next.Store(int64(n))
				return err
			}
		}
	}
	note := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if failed == nil {
			failed = err
		}
	}
	for helpers := (n - 1) / minHelp; helpers > 0; helpers-- {
		select {
		case c.helpers <- struct{}{}:
			help.Go(func() {
				defer func() { <-c.helpers }()
				note(work())
			})
			continue
		default:
		}
		break
	}
	note(work())
	help.Wait()
	return failed
}

// minHelp is how many chunks make it worth while to wake another core.
const minHelp = 4

// guard turns a panic into an error: a bug in one read must not end the mount.
func guard(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panic: %v", r)
	}
}

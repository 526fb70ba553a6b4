package pack

import (
	"context"
	"sync"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// An assembler puts packed chunks in their places and stores what is complete. It works in
// the order of the deduper's ops.
type assembler struct {
	w       *Writer
	files   []*file     // complete, and not reported to Done
	xorbs   []*openXorb // cut, and in no shard yet
	storing sync.WaitGroup
	slots   chan struct{} // for xorbs that are being stored
	bodies  bodies
}

// maxStoring bounds the xorbs that are being stored: while one waits for the disk,
// another is written.
const maxStoring = 2

func newAssembler(w *Writer) *assembler {
	return &assembler{w: w, slots: make(chan struct{}, maxStoring)}
}

func (a *assembler) run() {
	for b := range a.w.toAssemble {
		b.packed.Wait()
		b.summed.Wait()
		if a.w.ctx.Err() == nil {
			if err := a.batch(b); err != nil {
				a.w.cancel(err)
			}
		}
		if b.flush != nil {
			close(b.flush)
		}
		a.w.free <- b
	}
	a.storing.Wait()
}

func (a *assembler) batch(b *batch) error {
	defer a.w.time(&a.w.stats.place)()
	for _, o := range b.ops {
		switch o.kind {
		case opAdd:
			a.add(o.xorb, b.chunks[o.chunk].packed)
		case opJoin:
			a.join(o.xorb, o.other)
		case opCut:
			a.cut(o.xorb)
		case opFile:
			a.files = append(a.files, o.f)
		case opFlush:
			if err := a.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// add puts one packed chunk behind those of x.
func (a *assembler) add(x *openXorb, packed []byte) {
	x.body = a.bodies.grow(x.body, len(packed))
	x.body = append(x.body, packed...)
	x.ends = append(x.ends, uint32(len(x.body)))
}

// join puts the chunks of other behind those of x.
func (a *assembler) join(x, other *openXorb) {
	shift := uint32(len(x.body))
	for _, end := range other.ends {
		x.ends = append(x.ends, shift+end)
	}
	// The one of the two that has a large body keeps it. Copying the other is then all.
	if len(x.body) == 0 {
		x.body, other.body = other.body, x.body
	}
	x.body = a.bodies.grow(x.body, len(other.body))
	x.body = append(x.body, other.body...)
	a.bodies.put(other.body)
	other.body, other.ends = nil, nil
}

// cut stores a full xorb, in the background.
func (a *assembler) cut(x *openXorb) {
	a.xorbs = append(a.xorbs, x)
	in := &xorb.Info{Xorb: x.hash, Chunks: x.hashes, PackedEnd: x.ends, UnpackedEnd: make([]uint32, len(x.sizes))}
	var end uint32
	for i, size := range x.sizes {
		end += size
		in.UnpackedEnd[i] = end
	}
	body := x.body
	x.body = nil
	a.slots <- struct{}{}
	a.storing.Go(func() {
		defer func() { <-a.slots }()
		defer a.bodies.put(body)
		defer a.w.time(&a.w.stats.storeOne)()
		if err := a.w.sink.PutXorb(a.w.ctx, in, body); err != nil {
			a.w.cancel(err)
			return
		}
		a.w.stats.xorbs.Add(1)
	})
}

// flush stores a shard of the files and xorbs that are complete.
func (a *assembler) flush() error {
	a.storing.Wait() // a shard names no xorb that is not stored
	if a.w.ctx.Err() != nil {
		return context.Cause(a.w.ctx)
	}
	var hash codec.Hash
	if s := a.describe(); s.any() {
		defer a.w.time(&a.w.stats.storeOne)()
		var err error
		if hash, err = a.w.sink.PutShard(a.w.ctx, &s.Writer); err != nil {
			return err
		}
		a.w.stats.shards.Add(1)
		a.w.storedShards.put(storedShard{hash, a.xorbs})
	}
	a.done(hash)
	a.files, a.xorbs = nil, nil
	return nil
}

// done reports the files that were complete when a shard was stored. Another shard may describe
// some of them.
func (a *assembler) done(shard codec.Hash) {
	for _, f := range a.files {
		switch {
		case f.same != nil:
			f.id = f.same.id
		case f.id.Shard.IsZero():
			f.id.Shard = shard
		}
		a.w.stats.files.Add(1)
		a.w.stats.bytes.Add(f.size)
		a.w.stats.chunks.Add(int64(f.chunks))
		if a.w.o.Done != nil {
			a.w.o.Done(File{ID: f.id, Size: f.size, SHA256: f.sha256, Chunks: f.chunks, New: f.newBytes})
		}
	}
}

// bodies keeps the room of whole xorbs, to be used again: the collector would let many
// of them pile up.
type bodies struct {
	mu     sync.Mutex
	unused [][]byte // guarded by mu
}

const (
	largeBody  = 1 << 20                      // from here on a body gets the room of a whole xorb
	footerRoom = 128 + 40*codec.MaxXorbChunks // behind it, for a Sink that adds a footer
	wholeBody  = codec.MaxXorbSize + footerRoom
)

// grow makes sure that body has room for n more bytes.
func (s *bodies) grow(body []byte, n int) []byte {
	if len(body)+n <= cap(body) || len(body)+n < largeBody {
		return body
	}
	return append(s.get(), body...)
}

func (s *bodies) get() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.unused) - 1
	if last < 0 {
		return make([]byte, 0, wholeBody)
	}
	body := s.unused[last]
	s.unused = s.unused[:last]
	return body
}

// put takes an unused body back.
func (s *bodies) put(body []byte) {
	if cap(body) < wholeBody {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unused = append(s.unused, body[:0])
}

package pack

import (
	"context"
	"sync"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A placer puts packed chunks in their places and stores what is complete. It works in
// the order of the decider's ops.
type placer struct {
	w       *Writer
	files   []*file  // complete, and not told of
	xorbs   []*group // cut, and in no shard yet
	storing sync.WaitGroup
	slots   chan struct{} // for xorbs that are being stored
	bodies  bodies
}

// maxStoring bounds the xorbs that are being stored: while one waits for the disk,
// another is written.
const maxStoring = 2

func newPlacer(w *Writer) *placer {
	return &placer{w: w, slots: make(chan struct{}, maxStoring)}
}

func (p *placer) run() {
	for b := range p.w.toPlace {
		b.packed.Wait()
		b.summed.Wait()
		if p.w.ctx.Err() == nil {
			if err := p.batch(b); err != nil {
				p.w.cancel(err)
			}
		}
		if b.flush != nil {
			close(b.flush)
		}
		p.w.free <- b
	}
	p.storing.Wait()
}

func (p *placer) batch(b *batch) error {
	defer p.w.time(&p.w.stats.place)()
	for _, o := range b.ops {
		switch o.kind {
		case opAdd:
			p.add(o.g, b.chunks[o.chunk].packed)
		case opJoin:
			p.join(o.g, o.other)
		case opCut:
			p.cut(o.g)
		case opFile:
			p.files = append(p.files, o.f)
		case opFlush:
			if err := p.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// add puts one packed chunk behind those of g.
func (p *placer) add(g *group, packed []byte) {
	g.body = p.bodies.grow(g.body, len(packed))
	g.body = append(g.body, packed...)
	g.ends = append(g.ends, uint32(len(g.body)))
}

// join puts the chunks of other behind those of g.
func (p *placer) join(g, other *group) {
	shift := uint32(len(g.body))
	for _, end := range other.ends {
		g.ends = append(g.ends, shift+end)
	}
	// The one of the two that has a large body keeps it. Copying the other is then all.
	if len(g.body) == 0 {
		g.body, other.body = other.body, g.body
	}
	g.body = p.bodies.grow(g.body, len(other.body))
	g.body = append(g.body, other.body...)
	p.bodies.put(other.body)
	other.body, other.ends = nil, nil
}

// cut stores a group as a xorb, in the background.
func (p *placer) cut(g *group) {
	p.xorbs = append(p.xorbs, g)
	in := &xorb.Info{Xorb: g.hash, Chunks: g.hashes, PackedEnd: g.ends, UnpackedEnd: make([]uint32, len(g.sizes))}
	var end uint32
	for i, size := range g.sizes {
		end += size
		in.UnpackedEnd[i] = end
	}
	body := g.body
	g.body = nil
	p.slots <- struct{}{}
	p.storing.Go(func() {
		defer func() { <-p.slots }()
		defer p.bodies.put(body)
		defer p.w.time(&p.w.stats.storeOne)()
		if err := p.w.sink.PutXorb(p.w.ctx, in, body); err != nil {
			p.w.cancel(err)
			return
		}
		p.w.stats.xorbs.Add(1)
	})
}

// flush stores a shard of the files and xorbs that are complete.
func (p *placer) flush() error {
	p.storing.Wait() // a shard names no xorb that is not stored
	if p.w.ctx.Err() != nil {
		return context.Cause(p.w.ctx)
	}
	var hash codec.Hash
	if s := p.describe(); s.any() {
		defer p.w.time(&p.w.stats.storeOne)()
		var err error
		if hash, err = p.w.sink.PutShard(p.w.ctx, &s.Writer); err != nil {
			return err
		}
		p.w.stats.shards.Add(1)
		p.w.learnt.put(storedShard{hash, p.xorbs})
	}
	p.done(hash)
	p.files, p.xorbs = nil, nil
	return nil
}

// done tells of the files that were complete when a shard was stored. Some of them may
// be described in another.
func (p *placer) done(shard codec.Hash) {
	for _, f := range p.files {
		switch {
		case f.same != nil:
			f.id = f.same.id
		case f.id.Shard.IsZero():
			f.id.Shard = shard
		}
		p.w.stats.files.Add(1)
		p.w.stats.bytes.Add(f.size)
		p.w.stats.chunks.Add(int64(f.chunks))
		if p.w.o.Done != nil {
			p.w.o.Done(File{ID: f.id, Size: f.size, SHA256: f.sha256, Chunks: f.chunks, New: f.fresh})
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

// put takes back a body that nobody uses any more.
func (s *bodies) put(body []byte) {
	if cap(body) < wholeBody {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unused = append(s.unused, body[:0])
}

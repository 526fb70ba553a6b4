package pack

import (
	"crypto/sha256"
	"sync"

	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A worker is one of the goroutines that hash and pack, one for each core.
type worker struct {
	packer xorb.Packer
	other  []byte
}

func (w *Writer) work() {
	wk := new(worker)
	for task := range w.tasks {
		task(wk)
	}
}

// do has a worker do something that done waits for.
func (w *Writer) do(done *sync.WaitGroup, task func(*worker)) {
	done.Add(1)
	w.tasks <- func(wk *worker) {
		defer done.Done()
		task(wk)
	}
}

// spreadBytes is how much of a batch one worker takes at a time.
const spreadBytes = batchBytes / 4

// spread cuts some things into parts for the workers.
func spread[T any](all []T, size func(*T) int) [][]T {
	var parts [][]T
	for len(all) > 0 {
		n, bytes := 0, 0
		for n < len(all) && bytes < spreadBytes {
			bytes += size(&all[n])
			n++
		}
		parts = append(parts, all[:n])
		all = all[n:]
	}
	return parts
}

// hash has the workers hash the chunks of a batch, and sum the files that are whole.
func (w *Writer) hash(b *batch) {
	for _, some := range spread(b.chunks, func(c *chunk) int { return len(c.data) }) {
		w.do(&b.hashed, func(*worker) {
			defer w.time(&w.stats.hash)()
			for i := range some {
				some[i].hash = merkle.Chunk(some[i].data)
			}
		})
	}
	if w.o.NoSHA {
		return
	}
	for _, some := range spread(b.pieces, b.wholeSize) {
		w.do(&b.summed, func(*worker) {
			defer w.time(&w.stats.sha)()
			for i := range some {
				if some[i].whole() {
					b.sum(some[i])
				}
			}
		})
	}
}

// wholeSize is the work of a piece for the stage that sums whole files.
func (b *batch) wholeSize(p *piece) int {
	if !p.whole() {
		return 0
	}
	size := 256 // for the file itself
	for i := p.start; i < p.end; i++ {
		size += len(b.chunks[i].data)
	}
	return size
}

// A part is a piece of a file that has others in other batches.
type part struct {
	b *batch
	p piece
}

// sumParts lets workers sum the parts in a batch. The SHA-256 of one file cannot be spread over
// workers. Several files can be summed concurrently, as far as they are in batches in the
// pipeline.
func (w *Writer) sumParts(b *batch) {
	for _, p := range b.pieces {
		if p.whole() {
			continue
		}
		if p.first {
			w.lane = (w.lane + 1) % len(w.toSum)
			p.f.lane = w.lane
		}
		b.summed.Add(1)
		w.toSum[p.f.lane] <- part{b, p}
	}
}

// sum sums the parts of some files, in the order in which they come.
func (w *Writer) sum(parts <-chan part) {
	for one := range parts {
		timed := w.time(&w.stats.sha)
		one.b.sum(one.p)
		timed()
		one.b.summed.Done()
	}
}

// sum continues the SHA-256 of a file.
func (b *batch) sum(p piece) {
	f := p.f
	if p.whole() && p.end-p.start == 1 {
		f.sha256 = sha256.Sum256(b.chunks[p.start].data)
		return
	}
	if f.sum == nil {
		f.sum = sha256.New()
	}
	for i := p.start; i < p.end; i++ {
		f.sum.Write(b.chunks[i].data)
	}
	if p.last {
		f.sum.Sum(f.sha256[:0])
		f.sum = nil
	}
}

// pack packs one chunk into the room of c.packed. It uses the chosen scheme, or the best of the
// schemes in try.
func (wk *worker) pack(c *chunk, try []xorb.Scheme) {
	if len(try) == 0 {
		c.packed = wk.packer.Append(c.packed[:0], c.data, c.choice.make())
		return
	}
	c.packed = wk.packer.Append(c.packed[:0], c.data, try[0])
	for _, s := range try[1:] {
		wk.other = wk.packer.Append(wk.other[:0], c.data, s)
		if len(wk.other) < len(c.packed) {
			c.packed = append(c.packed[:0], wk.other...)
		}
	}
}

// packSlack is how many bytes a xorb.Packer may write behind what it returns.
const packSlack = 64

// pack has the workers pack the new chunks of a batch.
func (w *Writer) pack(b *batch) {
	b.newChunks = b.newChunks[:0]
	room := 0
	for _, o := range b.ops {
		if o.kind == opAdd {
			c := &b.chunks[o.chunk]
			b.newChunks = append(b.newChunks, c)
			room += maxPacked(len(c.data)) + packSlack
		}
	}
	if cap(b.out) < room {
		b.out = make([]byte, room)
	}
	out := b.out[:room]
	b.packed.Add(1)
	for _, some := range spread(b.newChunks, func(c **chunk) int { return len((*c).data) }) {
		for _, c := range some {
			n := maxPacked(len(c.data)) + packSlack
			c.packed, out = out[:0:n], out[n:]
		}
		w.do(&b.packed, func(wk *worker) {
			defer w.time(&w.stats.pack)()
			for _, c := range some {
				wk.pack(c, w.o.Schemes)
				w.stats.packed.Add(int64(len(c.packed)))
			}
		})
	}
	b.packed.Done()
}

package pack

import (
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
)

// An op is something for the placer to do, in the order of ops.
type op struct {
	kind  opKind
	g     *group
	chunk int    // opAdd: of the batch
	f     *file  // opFile
	other *group // opJoin: joins g
}

type opKind uint8

const (
	opAdd   opKind = iota // a packed chunk goes into g
	opJoin                // other's chunks go behind those of g
	opCut                 // g is a xorb
	opFile                // the file is complete
	opFlush               // what is complete becomes a shard
)

// A decider decides which chunks are new and where they go. It works in the order in
// which files were added.
type decider struct {
	w      *Writer
	index  *index
	stored map[codec.Hash]*group // xorbs that are not of the index, by hash
	kept   []*group              // stored xorbs that are of the index, oldest first
	files  map[codec.Hash]*file  // of the shard that is being made
	left   *group                // what is left of the files before the open one

	// The open file.
	leaves []merkle.Leaf
	new    *group // its new chunks that are in no xorb yet; nil: none
	choice *choice
	frag   fragmentation

	keptChunks int   // of kept
	shardBytes int64 // of the shard so far, about
	read       int64 // since the last flush
	waiting    int   // files that are complete, since the last flush
	hashes     []codec.Hash
}

func newDecider(w *Writer) *decider {
	d := &decider{w: w, index: newIndex(), stored: map[codec.Hash]*group{}, files: map[codec.Hash]*file{}}
	d.left = d.index.newGroup()
	return d
}

func (d *decider) run() {
	defer close(d.w.toPlace)
	for b := range d.w.toDecide {
		b.hashed.Wait()
		d.batch(b)
		d.w.pack(b)
		d.w.toPlace <- b
	}
	close(d.w.tasks)
}

func (d *decider) batch(b *batch) {
	defer d.w.time(&d.w.stats.decide)()
	d.learn()
	for _, p := range b.pieces {
		d.piece(b, p)
		if d.shardBytes >= d.w.o.ShardBytes || d.read >= d.w.o.FlushBytes || d.waiting >= d.w.o.maxWaiting {
			d.flush(b)
		}
	}
	if b.flush != nil {
		d.flush(b)
	}
}

// learn hands over to the ledger what was stored, and forgets it. What the ledger does
// not take is kept while there is room.
func (d *decider) learn() {
	for _, s := range d.w.learnt.take() {
		learnt := d.w.ledger != nil && d.w.ledger.Learn(s.hash)
		for _, g := range s.xorbs {
			if learnt {
				d.forget(g)
				continue
			}
			d.kept = append(d.kept, g)
			d.keptChunks += len(g.hashes)
		}
	}
	for d.keptChunks > d.w.o.maxKept {
		d.keptChunks -= len(d.kept[0].hashes)
		d.forget(d.kept[0])
		d.kept[0] = nil
		d.kept = d.kept[1:]
	}
}

// forget takes a xorb that is stored out of the index. Terms may still point to it.
func (d *decider) forget(g *group) {
	d.index.forget(g)
	g.ends = nil // the placer is done with it
	d.stored[g.hash] = g
}

// flush ends the xorb that is open, so that all files so far can be described.
func (d *decider) flush(b *batch) {
	if len(d.left.hashes) > 0 {
		d.cut(b, d.left)
		d.left = d.index.newGroup()
	}
	b.ops = append(b.ops, op{kind: opFlush})
	clear(d.files)
	d.shardBytes, d.read, d.waiting = 0, 0, 0
}

// piece goes through the chunks of one file in a batch.
func (d *decider) piece(b *batch, p piece) {
	for i := p.start; i < p.end; {
		n := d.match(b, p.f, i, p.end)
		if n == 0 {
			d.add(b, p.f, i)
			n = 1
		}
		for _, c := range b.chunks[i : i+n] {
			d.leaves = append(d.leaves, merkle.Leaf{Hash: c.hash, Size: uint64(len(c.data))})
			p.f.size += int64(len(c.data))
			d.read += int64(len(c.data))
		}
		i += n
	}
	if p.last {
		d.end(b, p.f)
	}
}

// match looks for chunk i, and those behind it, among what is stored. It returns how
// many chunks were dealt with.
func (d *decider) match(b *batch, f *file, i, end int) int {
	at, ok := d.next(f, b.chunks[i].hash)
	if !ok {
		at, ok = d.find(b.chunks[i].hash)
	}
	if !ok {
		return 0
	}
	n, size := 1, len(b.chunks[i].data)
	for i+n < end && d.holds(at.plus(n), b.chunks[i+n].hash) {
		size += len(b.chunks[i+n].data)
		n++
	}
	switch {
	case f.continues(at):
		d.grow(f, n, size)
	case d.frag.allows(n):
		d.begin(f, at, n, size)
	default:
		d.again(b, f, i, n, size)
		return n
	}
	d.w.stats.oldBytes.Add(int64(size))
	return n
}

// next returns the place behind the last term of f, if it holds the chunk: a term that
// grows is better than a new one.
func (d *decider) next(f *file, chunk codec.Hash) (place, bool) {
	if len(f.terms) == 0 {
		return place{}, false
	}
	at := f.terms[len(f.terms)-1].end()
	if d.w.ledger == nil && at.g.hashes == nil {
		return place{}, false // nobody can tell
	}
	return at, d.holds(at, chunk)
}

// find returns where a chunk is stored, or will be.
func (d *decider) find(chunk codec.Hash) (place, bool) {
	if at, ok := d.index.find(chunk); ok {
		return at, true
	}
	if d.w.o.Known == nil {
		return place{}, false
	}
	x, index, ok := d.w.o.Known.Lookup(chunk)
	if !ok {
		return place{}, false
	}
	g := d.stored[x]
	if g == nil {
		g = &group{hash: x}
		d.stored[x] = g
	}
	return place{g, index}, true
}

// holds says whether the chunk at a place has the given hash.
func (d *decider) holds(at place, chunk codec.Hash) bool {
	switch {
	case at.g.hashes != nil || !at.g.isCut():
		return int(at.index) < len(at.g.hashes) && at.g.hashes[at.index] == chunk
	case d.w.ledger != nil:
		h, ok := d.w.ledger.Chunk(at.g.hash, at.index)
		return ok && h == chunk
	}
	found, ok := d.find(chunk)
	return ok && found == at
}

// continues says whether a place is right behind the last term of f.
func (f *file) continues(at place) bool {
	return len(f.terms) > 0 && f.terms[len(f.terms)-1].end() == at
}

func (d *decider) grow(f *file, n, size int) {
	last := &f.terms[len(f.terms)-1]
	last.chunks += uint32(n)
	last.size += uint32(size)
	d.frag.extend(n)
}

func (d *decider) begin(f *file, at place, n, size int) {
	f.terms = append(f.terms, term{first: at, chunks: uint32(n), size: uint32(size)})
	d.frag.add(n)
}

// again stores chunks once more that are stored already, but scattered.
func (d *decider) again(b *batch, f *file, i, n, size int) {
	for range n {
		d.add(b, f, i)
		i++
	}
	d.w.stats.again.Add(int64(n))
	d.w.stats.againBytes.Add(int64(size))
}

// retest is how many new chunks of a file one choice of scheme is good for.
const retest = 32

// add makes chunk i a new one.
func (d *decider) add(b *batch, f *file, i int) {
	c := &b.chunks[i]
	g := d.room(b, len(c.data))
	at := place{g, uint32(len(g.hashes))}
	if at.index%retest == 0 {
		d.choice = &choice{first: c.data}
	}
	c.choice = d.choice
	g.hashes = append(g.hashes, c.hash)
	g.sizes = append(g.sizes, uint32(len(c.data)))
	g.bytes += len(c.data)
	g.packed += packedMost(len(c.data))
	d.index.add(g)
	if f.continues(at) {
		d.grow(f, 1, len(c.data))
	} else {
		d.begin(f, at, 1, len(c.data))
	}
	f.fresh += int64(len(c.data))
	d.w.stats.newChunks.Add(1)
	d.w.stats.newBytes.Add(int64(len(c.data)))
	b.ops = append(b.ops, op{kind: opAdd, g: g, chunk: i})
}

// room returns the group of the open file, with room for a chunk of so many bytes.
func (d *decider) room(b *batch, size int) *group {
	if g := d.new; g != nil && !d.fits(g.bytes+size, g.packed+packedMost(size), len(g.hashes)+1) {
		d.cut(b, g)
		d.new = nil
	}
	if d.new == nil {
		d.new = d.index.newGroup()
	}
	return d.new
}

// fits says whether one xorb can hold so much.
func (d *decider) fits(bytes, packed, chunks int) bool {
	return bytes <= d.w.o.maxXorbSize && packed <= d.w.o.maxXorbPacked && chunks <= d.w.o.maxXorbChunks
}

// cut makes a group a xorb.
func (d *decider) cut(b *batch, g *group) {
	g.hash = g.root()
	d.shardBytes += xorbBlockSize(g) + lookupEntry + chunkEntry*int64(len(g.hashes))
	b.ops = append(b.ops, op{kind: opCut, g: g})
}

package pack

import (
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
)

// An op is an operation of the assembler, in the order of ops.
type op struct {
	kind  opKind
	xorb  *openXorb
	chunk int       // opAdd: of the batch
	f     *file     // opFile
	other *openXorb // opJoin: joins xorb
}

type opKind uint8

const (
	opAdd   opKind = iota // a packed chunk goes into xorb
	opJoin                // the chunks of other go behind those of xorb
	opCut                 // xorb gets no more chunks
	opFile                // the file is complete
	opFlush               // what is complete becomes a shard
)

// A deduper decides which chunks are new and where they go. It works in the order in which
// files were added.
type deduper struct {
	w      *Writer
	index  *index
	stored map[codec.Hash]*openXorb // xorbs that are not of the index, by hash
	kept   []*openXorb              // stored xorbs that are of the index, oldest first
	files  map[codec.Hash]*file     // of the shard that is being made
	left   *openXorb                // the rest of the files before the open one

	// The open file.
	leaves []merkle.Leaf
	new    *openXorb // its new chunks that are in no xorb yet; nil: none
	choice *choice
	frag   fragmentation

	keptChunks int   // of kept
	shardBytes int64 // of the shard so far, about
	read       int64 // since the last flush
	waiting    int   // files that are complete, since the last flush
	hashes     []codec.Hash
}

func newDeduper(w *Writer) *deduper {
	d := &deduper{w: w, index: newIndex(), stored: map[codec.Hash]*openXorb{}, files: map[codec.Hash]*file{}}
	d.left = d.index.newXorb()
	return d
}

func (d *deduper) run() {
	defer close(d.w.toAssemble)
	for b := range d.w.toDedupe {
		b.hashed.Wait()
		d.batch(b)
		d.w.pack(b)
		d.w.toAssemble <- b
	}
	close(d.w.tasks)
}

func (d *deduper) batch(b *batch) {
	defer d.w.time(&d.w.stats.decide)()
	d.takeStored()
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

// takeStored reports stored shards to the ledger and forgets them. Shards that the ledger does
// not learn are remembered while there is room.
func (d *deduper) takeStored() {
	for _, s := range d.w.storedShards.take() {
		learnt := d.w.ledger != nil && d.w.ledger.Learn(s.hash)
		for _, x := range s.xorbs {
			if learnt {
				d.forget(x)
				continue
			}
			d.kept = append(d.kept, x)
			d.keptChunks += len(x.hashes)
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
func (d *deduper) forget(x *openXorb) {
	d.index.forget(x)
	x.ends = nil // the assembler is done with it
	d.stored[x.hash] = x
}

// flush ends the xorb that is open, so that all files so far can be described.
func (d *deduper) flush(b *batch) {
	if len(d.left.hashes) > 0 {
		d.cut(b, d.left)
		d.left = d.index.newXorb()
	}
	b.ops = append(b.ops, op{kind: opFlush})
	clear(d.files)
	d.shardBytes, d.read, d.waiting = 0, 0, 0
}

// piece goes through the chunks of one file in a batch.
func (d *deduper) piece(b *batch, p piece) {
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
func (d *deduper) match(b *batch, f *file, i, end int) int {
	at, ok := d.next(f, b.chunks[i].hash)
	if !ok {
		at, ok = d.find(b.chunks[i].hash)
	}
	if !ok {
		return 0
	}
	n, size := 1, len(b.chunks[i].data)
	for i+n < end && d.isAt(at.plus(n), b.chunks[i+n].hash) {
		size += len(b.chunks[i+n].data)
		n++
	}
	switch {
	case f.continues(at):
		d.grow(f, n, size)
	case d.frag.allows(n):
		d.begin(f, at, n, size)
	default:
		d.storeAgain(b, f, i, n, size)
		return n
	}
	d.w.stats.oldBytes.Add(int64(size))
	return n
}

// next returns the location behind the last term of f, if it has the chunk. A longer term is
// better than a new one.
func (d *deduper) next(f *file, chunk codec.Hash) (location, bool) {
	if len(f.terms) == 0 {
		return location{}, false
	}
	at := f.terms[len(f.terms)-1].end()
	if d.w.ledger == nil && at.xorb.hashes == nil {
		return location{}, false // unknown
	}
	return at, d.isAt(at, chunk)
}

// find returns where a chunk is stored, or will be.
func (d *deduper) find(chunk codec.Hash) (location, bool) {
	if at, ok := d.index.find(chunk); ok {
		return at, true
	}
	if d.w.o.Known == nil {
		return location{}, false
	}
	hash, index, ok := d.w.o.Known.Lookup(chunk)
	if !ok {
		return location{}, false
	}
	x := d.stored[hash]
	if x == nil {
		x = &openXorb{hash: hash}
		d.stored[hash] = x
	}
	return location{x, index}, true
}

// isAt reports whether the chunk at a place has the given hash.
func (d *deduper) isAt(at location, chunk codec.Hash) bool {
	switch {
	case at.xorb.hashes != nil || !at.xorb.isCut():
		return int(at.index) < len(at.xorb.hashes) && at.xorb.hashes[at.index] == chunk
	case d.w.ledger != nil:
		h, ok := d.w.ledger.Chunk(at.xorb.hash, at.index)
		return ok && h == chunk
	}
	found, ok := d.find(chunk)
	return ok && found == at
}

// continues reports whether a place is right behind the last term of f.
func (f *file) continues(at location) bool {
	return len(f.terms) > 0 && f.terms[len(f.terms)-1].end() == at
}

func (d *deduper) grow(f *file, n, size int) {
	last := &f.terms[len(f.terms)-1]
	last.chunks += uint32(n)
	last.size += uint32(size)
	d.frag.extend(n)
}

func (d *deduper) begin(f *file, at location, n, size int) {
	f.terms = append(f.terms, term{first: at, chunks: uint32(n), size: uint32(size)})
	d.frag.add(n)
}

// storeAgain stores chunks once more that are stored already, but scattered.
func (d *deduper) storeAgain(b *batch, f *file, i, n, size int) {
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
func (d *deduper) add(b *batch, f *file, i int) {
	c := &b.chunks[i]
	x := d.roomFor(b, len(c.data))
	at := location{x, uint32(len(x.hashes))}
	if at.index%retest == 0 {
		d.choice = &choice{first: c.data}
	}
	c.choice = d.choice
	x.hashes = append(x.hashes, c.hash)
	x.sizes = append(x.sizes, uint32(len(c.data)))
	x.bytes += len(c.data)
	x.packed += maxPacked(len(c.data))
	d.index.add(x)
	if f.continues(at) {
		d.grow(f, 1, len(c.data))
	} else {
		d.begin(f, at, 1, len(c.data))
	}
	f.newBytes += int64(len(c.data))
	d.w.stats.newChunks.Add(1)
	d.w.stats.newBytes.Add(int64(len(c.data)))
	b.ops = append(b.ops, op{kind: opAdd, xorb: x, chunk: i})
}

// roomFor returns the open xorb of the open file, with room for a chunk of size bytes.
func (d *deduper) roomFor(b *batch, size int) *openXorb {
	if x := d.new; x != nil && !d.fits(x.bytes+size, x.packed+maxPacked(size), len(x.hashes)+1) {
		d.cut(b, x)
		d.new = nil
	}
	if d.new == nil {
		d.new = d.index.newXorb()
	}
	return d.new
}

// fits reports whether one xorb can hold so much.
func (d *deduper) fits(bytes, packed, chunks int) bool {
	return bytes <= d.w.o.maxXorbSize && packed <= d.w.o.maxXorbPacked && chunks <= d.w.o.maxXorbChunks
}

// cut ends an open xorb.
func (d *deduper) cut(b *batch, x *openXorb) {
	x.hash = x.root()
	d.shardBytes += xorbBlockSize(x) + lookupEntry + chunkEntry*int64(len(x.hashes))
	b.ops = append(b.ops, op{kind: opCut, xorb: x})
}

package index

import "github.com/xetfs/xetfs/codec"

// The shares of the two queues. They were found by replaying traces (TestHitRatio).
const (
	probationShare = 10  // probation holds one part in this number
	keepShare      = 0.7 // a segment with this share in use gets another round as a whole
	redundantShare = 0.7 // a segment with this share redundant or forgotten is cleaned first
)

// A Policy decides the next victim: two queues of segments and whole files, and a ghost of
// evicted chunks. It does no I/O and has neither a lock nor a clock. Equal calls therefore
// lead to equal decisions.
type Policy struct {
	EvictionQueues
	Held [NumQueues]int64 // bytes of the segments and whole files of a queue

	index *Index
	ghost ghost
}

// NewPolicy returns a policy for the segments and files of an index, in the order of queues.
func NewPolicy(x *Index, queues EvictionQueues) *Policy {
	return &Policy{index: x, EvictionQueues: queues}
}

// An Evictor carries out the decisions of a Policy. Package disk has one that writes to a disk.
// The test of the hit ratio has one in memory.
type Evictor interface {
	// Requeued records that an item is at the end of the protected queue now.
	Requeued(QueueItem)
	// MoveChunks copies chunks behind the others of their queue, if there is room for n bytes.
	MoveChunks(s *Segment, survivors []Survivor, n int64)
	// DeleteSegment deletes a segment and all chunks that are still in it.
	DeleteSegment(*Segment)
	// DeleteFile deletes a file that the index has forgotten.
	DeleteFile(*WholeFile)
}

// A Survivor is a span that outlives its segment, and the queue to which it moves.
type Survivor struct {
	Span
	Key   Key
	Queue Queue
}

// Infos returns the descriptions of the first n chunks, with one use less.
func (v *Survivor) Infos(n int) []ChunkInfo {
	infos := v.Segment.AppendInfos(nil, v.at, n)
	for i := range infos {
		infos[i].Uses -= min(infos[i].Uses, 1)
	}
	return infos
}

// QueueFor returns the queue of new chunks. Chunks that were evicted a short time ago have
// passed probation. An index page is small, and the chunks that it describes cannot be read
// offline without it. A mount reads it once and then has it in memory, so few uses are counted.
func (p *Policy) QueueFor(k Key, missing []codec.ChunkRange) Queue {
	if k.Kind == PageKind {
		return Protected
	}
	known, all := 0, 0
	for _, r := range missing {
		all += r.Len()
		for c := r.Start; c < r.End; c++ {
			if p.ghost.has(k, c) {
				known++
			}
		}
	}
	if 2*known > all {
		return Protected
	}
	return Probation
}

// ForgetGhosts forgets the evicted chunks.
func (p *Policy) ForgetGhosts() { p.ghost = ghost{} }

// Evict deletes redundant chunks, or else the oldest item of a queue, or gives that another
// round. It returns false if nothing can be deleted. A round costs every chunk of a segment one
// use, so the rounds end. maxChunk is the largest chunk that can move.
func (p *Policy) Evict(to Evictor, maxChunk int64) bool {
	if p.evictRedundant(to, maxChunk) {
		return true
	}
	q := Protected
	if p.Held[Probation]*probationShare > p.Held[Probation]+p.Held[Protected] {
		q = Probation
	}
	return p.evictFrom(to, q, maxChunk) || p.evictFrom(to, 1-q, maxChunk)
}

func (p *Policy) evictFrom(to Evictor, q Queue, maxChunk int64) bool {
	for range len(p.lists[q]) {
		m, ok := p.pop(q)
		if !ok {
			return false
		}
		if m.File == nil {
			p.evictSegment(to, m.Segment, maxChunk)
			return true
		}
		if p.evictFile(to, m.File) {
			return true
		}
	}
	return false
}

// evictFile deletes a whole file. A file that is open or was used gets another round.
func (p *Policy) evictFile(to Evictor, w *WholeFile) bool {
	if w.Gone.Load() {
		return false // its deletion is under way
	}
	evicted, open := p.index.evictFile(w)
	if evicted {
		to.DeleteFile(w)
		return true
	}
	if !open {
		w.Uses.Add(-1)
	}
	p.requeue(to, QueueItem{File: w})
	return !open
}

func (p *Policy) requeue(to Evictor, m QueueItem) {
	p.Push(Protected, m)
	to.Requeued(m)
}

// evictSegment copies the used chunks and deletes the rest, or keeps a segment that is mostly
// in use.
func (p *Policy) evictSegment(to Evictor, s *Segment, maxChunk int64) {
	survivors, n := p.survivors(s, maxChunk, func(c *chunk) (Queue, bool) { return Protected, c.uses() > 0 })
	if float64(n) < keepShare*float64(s.Size.Load()) || n == 0 {
		p.clean(to, s, survivors, n)
		return
	}
	p.index.decay(s)
	size := OnDisk(s.Size.Load())
	p.Held[s.Queue] -= size
	p.Held[Protected] += size
	p.requeue(to, QueueItem{Segment: s})
}

// evictRedundant cleans the oldest segment with enough redundant chunks, if there is one.
func (p *Policy) evictRedundant(to Evictor, maxChunk int64) bool {
	for _, s := range p.index.redundantSegments(redundantShare) {
		survivors, n := p.survivors(s, maxChunk, func(c *chunk) (Queue, bool) {
			if c.uses() > 0 {
				return Protected, true
			}
			return s.Queue, !c.isRedundant()
		})
		if float64(n) <= (1-redundantShare)*float64(s.Size.Load()) {
			p.clean(to, s, survivors, n)
			return true
		}
		p.index.recountRedundant(s, n)
	}
	return false
}

// clean moves the survivors of a segment and deletes the segment.
func (p *Policy) clean(to Evictor, s *Segment, survivors []Survivor, n int64) {
	to.MoveChunks(s, survivors, n)
	p.remember(s)
	to.DeleteSegment(s)
}

// remember adds the chunks to the ghost that leave probation without a use.
func (p *Policy) remember(s *Segment) {
	if s.Queue != Probation {
		return
	}
	x := p.index
	x.mu.RLock()
	defer x.mu.RUnlock()
	x.alive(s, func(id uint32, e extent) {
		for i := range int(e.n) {
			if c := &s.chunks[int(e.at)+i]; c.uses() == 0 && !c.isRedundant() {
				p.ghost.add(x.objects[id].key, uint32(e.first)+uint32(i), x.chunks)
			}
		}
	})
}

// survivors returns the chunks of a segment that stay, and their bytes. Chunks larger than
// maxChunk cannot stay: segments were larger once.
func (p *Policy) survivors(s *Segment, maxChunk int64, stays func(*chunk) (Queue, bool)) (all []Survivor, bytes int64) {
	x := p.index
	x.mu.RLock()
	defer x.mu.RUnlock()
	x.alive(s, func(id uint32, e extent) {
		var run *Survivor
		for i := range int(e.n) {
			at, c := e.at+uint32(i), uint32(e.first)+uint32(i)
			q, stay := stays(&s.chunks[at])
			if !stay || s.bytes(at, 1) > maxChunk {
				run = nil
				continue
			}
			if run == nil || run.Queue != q {
				span := Span{Segment: s, at: at, Off: s.offset(at), Chunks: codec.ChunkRange{Start: c}}
				all = append(all, Survivor{span, x.objects[id].key, q})
				run = &all[len(all)-1]
			}
			run.Chunks.End = c + 1
			run.Size += s.bytes(at, 1)
			bytes += s.bytes(at, 1)
		}
	})
	for i := range all {
		v := &all[i]
		v.table = s.chunks[v.at : int(v.at)+v.Chunks.Len()]
	}
	return all, bytes
}

// OnDisk returns the bytes that a file of n bytes takes on disk.
func OnDisk(n int64) int64 { return (n + 4095) &^ 4095 }

package index

import (
	"container/list"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/xetfs/xetfs/codec"
)

// A trace is a sequence of reads. Files are opened by a zipf law and read whole or in part. Now
// and then a scan reads a tenth of all files once. Each file is one xorb here.
type trace struct {
	files    int
	chunks   []uint32 // of each file
	requests []request
	total    int64 // bytes of all files
}

type request struct {
	file int
	r    codec.ChunkRange
}

const traceChunk = 1024

func newTrace(seed uint64, files, requests int, skew float64) *trace {
	rng := rand.New(rand.NewPCG(seed, 9))
	tr := &trace{files: files, chunks: make([]uint32, files)}
	for i := range tr.chunks {
		tr.chunks[i] = 1 + uint32(min(63, rng.ExpFloat64()*8))
		tr.total += int64(tr.chunks[i]) * traceChunk
	}
	sums, sum := make([]float64, files), 0.0
	for i := range sums {
		sum += math.Pow(float64(i+1), -skew)
		sums[i] = sum
	}
	names := rng.Perm(files)
	for len(tr.requests) < requests {
		if rng.IntN(requests/8) == 0 {
			first := rng.IntN(files)
			for i := range files / 10 {
				f := (first + i) % files
				tr.requests = append(tr.requests, request{f, chunks(0, tr.chunks[f])})
			}
		}
		f := names[sort.SearchFloat64s(sums, rng.Float64()*sum)]
		r := chunks(0, tr.chunks[f])
		if rng.IntN(2) == 0 { // a random read
			r.Start = uint32(rng.IntN(int(tr.chunks[f])))
			r.End = r.Start + 1
		}
		tr.requests = append(tr.requests, request{f, r})
	}
	return tr
}

// A replayer is a cache that a trace is replayed on.
type replayer interface {
	// read returns how many chunks were stored. Afterwards all of them are.
	read(q request) (hits int)
}

func (tr *trace) replay(c replayer) (ratio float64, fetched int64) {
	hits, all := 0, 0
	for _, q := range tr.requests {
		hits += c.read(q)
		all += q.r.Len()
	}
	return float64(hits) / float64(all), int64(all-hits) * traceChunk
}

// An lru throws away the chunk that was not read for longest. It is exact, and loses
// nothing to an index or to half-empty segments.
type lru struct {
	room  int // chunks
	order *list.List
	at    map[request]*list.Element
}

func newLRU(bytes int64) *lru {
	return &lru{room: int(bytes / traceChunk), order: list.New(), at: make(map[request]*list.Element)}
}

func (l *lru) read(q request) (hits int) {
	for c := q.r.Start; c < q.r.End; c++ {
		one := request{q.file, chunks(c, c+1)}
		if e := l.at[one]; e != nil {
			hits++
			l.order.MoveToFront(e)
			continue
		}
		l.at[one] = l.order.PushFront(one)
		if l.order.Len() > l.room {
			last := l.order.Back()
			l.order.Remove(last)
			delete(l.at, last.Value.(request))
		}
	}
	return hits
}

// A memCache is the disk cache without a disk: an index, a policy, and segments of which only
// the length is real.
type memCache struct {
	index     *Index
	policy    *Policy
	max, peak int64
	segment   int64 // bytes
	used      int64
	last      uint32
	heads     [NumQueues]*Segment
	keys      []Key

	copied, evicted int64
}

// newMemCache returns a cache of a size. One part in 32 is left to the journal.
func newMemCache(tr *trace, size int64) *memCache {
	x := New()
	c := &memCache{index: x, policy: NewPolicy(x, EvictionQueues{}), max: size - size/32, segment: size / 64}
	for n := range tr.files {
		c.keys = append(c.keys, XorbKey(hashOf(n)))
	}
	return c
}

func (c *memCache) read(q request) (hits int) {
	k := c.keys[q.file]
	var gaps []codec.ChunkRange
	for at := q.r; at.Start < at.End; {
		spans := c.index.Find(k, at, nil)
		c.index.Touch(spans)
		for _, p := range spans {
			hits += p.Chunks.Len()
			at.Start = p.Chunks.End
		}
		if at.Start < at.End {
			gap := c.index.Missing(k, at, nil)[0]
			gaps = append(gaps, gap)
			at.Start = gap.End
		}
	}
	for _, gap := range gaps {
		q := c.policy.QueueFor(k, []codec.ChunkRange{gap})
		infos := slices.Repeat([]ChunkInfo{{Size: traceChunk}}, gap.Len())
		for c.used+OnDisk(int64(TotalSize(infos)))+c.segment+32<<10 > c.max {
			if !c.policy.Evict(c, c.segment) {
				panic("nothing can be evicted")
			}
		}
		c.append(q, k, gap.Start, infos)
	}
	return hits
}

// append adds chunks to the newest segments of a queue.
func (c *memCache) append(q Queue, k Key, first uint32, infos []ChunkInfo) {
	for len(infos) > 0 {
		s := c.heads[q]
		if s == nil || s.Size.Load()+traceChunk > c.segment {
			c.last++
			s = &Segment{Number: c.last, Queue: q}
			c.index.AddSegment(s)
			c.policy.Push(q, QueueItem{Segment: s})
			c.heads[q] = s
		}
		off := s.Size.Load()
		n := min(len(infos), int((c.segment-off)/traceChunk))
		c.index.Enter(k, first, s, off, infos[:n], nil)
		size := off + int64(n)*traceChunk
		s.Size.Store(size)
		grown := OnDisk(size) - OnDisk(off)
		c.policy.Held[q] += grown
		c.used += grown
		c.peak = max(c.peak, c.used)
		first, infos = first+uint32(n), infos[n:]
	}
}

func (c *memCache) seal(s *Segment) {
	for q := range c.heads {
		if c.heads[q] == s {
			c.heads[q] = nil
		}
	}
}

func (c *memCache) Requeued(m QueueItem) { c.seal(m.Segment) }

func (c *memCache) MoveChunks(s *Segment, survivors []Survivor, n int64) {
	c.seal(s)
	for _, v := range survivors {
		c.append(v.Queue, v.Key, v.Chunks.Start, v.Infos(v.Chunks.Len()))
	}
	c.copied += n
}

func (c *memCache) DeleteSegment(s *Segment) {
	c.index.Remove(s)
	s.Gone.Store(true)
	size := OnDisk(s.Size.Load())
	c.policy.Held[s.Queue] -= size
	c.used -= size
	c.evicted += s.Size.Load()
}

func (c *memCache) DeleteFile(*WholeFile) {}

// TestHitRatio replays traces on the policy, without a disk, and on an exact LRU of the same size.
func TestHitRatio(t *testing.T) {
	t.Parallel()
	tests := []struct {
		skew  float64
		share int64 // the cache has a size of 1/share of all files
		least float64
	}{
		{0.9, 10, 1.10},
		{1.1, 20, 1.03},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("zipf %.1f, %d %%", tt.skew, 100/tt.share), func(t *testing.T) {
			tr := newTrace(1, 10_000, 30_000, tt.skew)
			size := tr.total / tt.share
			plain, plainBytes := tr.replay(newLRU(size))
			c := newMemCache(tr, size)
			ours, ourBytes := tr.replay(c)
			t.Logf("%d requests, files %d MiB, cache %d MiB: hit ratio %.4f, LRU %.4f (x %.3f); fetched %d MiB, LRU %d MiB (x %.3f); copied %d MiB of %d MiB evicted",
				len(tr.requests), tr.total>>20, size>>20, ours, plain, ours/plain,
				ourBytes>>20, plainBytes>>20, float64(ourBytes)/float64(plainBytes), c.copied>>20, c.evicted>>20)
			if ours < tt.least*plain {
				t.Errorf("hit ratio %.4f is not %.2f times that of LRU, %.4f", ours, tt.least, plain)
			}
			if err := c.index.CheckInvariants(); err != nil {
				t.Error(err)
			}
			if c.peak > size {
				t.Errorf("%d bytes, %d is the limit", c.peak, size)
			}
		})
	}
}

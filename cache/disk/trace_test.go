package disk

import (
	"container/list"
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A trace is who reads what: files are opened by a zipf law and read whole, or a part of
// them, and every now and then somebody reads a tenth of all files once, one after the
// other. Each file is one xorb here.
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
	// read returns how many chunks were there. The others are there afterwards.
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

// A traced is a store that a trace is replayed on.
type traced struct {
	*bench
	runs *xorb.Run // of which any file is a part
	keys []codec.Hash
}

func newTraced(t testing.TB, tr *trace, bytes int64) *traced {
	d := newSimDisk()
	b := open(t, d, func(o *Options) {
		o.MaxBytes = bytes
		o.testing.segment = bytes / 64
		o.testing.journal = 0
	})
	var packed []byte
	for range 64 {
		size := traceChunk - xorb.ChunkHeaderSize
		packed = xorb.ChunkHeader{Packed: size, Unpacked: size}.Append(packed)
		packed = append(packed, codectest.Bytes(1, size)...)
	}
	run, err := xorb.ParseRun(packed, chunks(0, 64), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &traced{bench: b, runs: run}
	for n := range tr.files {
		c.keys = append(c.keys, hashOf(n))
	}
	return c
}

func (c *traced) read(q request) (hits int) {
	x := c.keys[q.file]
	fetched := false
	for at := q.r; at.Start < at.End; {
		if run, ok := c.Run(x, at); ok {
			hits += run.Chunks.Len()
			at.Start = run.Chunks.End
			continue
		}
		gap := c.Missing(x, at)[0]
		if err := c.PutRun(x, c.runs.Slice(gap)); err != nil {
			c.t.Fatal(err)
		}
		fetched = true
		at.Start = gap.End
	}
	if fetched { // so that the same happens every time
		c.flush()
	}
	return hits
}

// TestHitRatio replays traces on the store and on an exact LRU of the same size.
func TestHitRatio(t *testing.T) {
	t.Parallel()
	if codectest.Race {
		t.Skip("it takes too long with the race detector, and finds nothing")
	}
	tests := []struct {
		skew  float64
		share int64 // the cache holds one part of all files in so many
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
			c := newTraced(t, tr, size)
			ours, ourBytes := tr.replay(c)
			s := c.Stats()
			t.Logf("%d requests, files %d MiB, cache %d MiB: hit ratio %.4f, LRU %.4f (x %.3f); fetched %d MiB, LRU %d MiB (x %.3f); copied %d MiB of %d MiB evicted",
				len(tr.requests), tr.total>>20, size>>20, ours, plain, ours/plain,
				ourBytes>>20, plainBytes>>20, float64(ourBytes)/float64(plainBytes), s.CopiedBytes>>20, s.EvictedBytes>>20)
			if ours < tt.least*plain {
				t.Errorf("hit ratio %.4f is not %.2f times that of LRU, %.4f", ours, tt.least, plain)
			}
			if s.PeakBytes > size {
				t.Errorf("%d bytes, %d is the limit", s.PeakBytes, size)
			}
		})
	}
}

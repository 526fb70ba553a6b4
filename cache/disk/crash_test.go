package disk

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/xetfs/xetfs/cache/disk/internal/index"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
)

// A load does to a store what a mount under load does, and remembers what was synced. Any
// wrong byte fails the test.
type load struct {
	*fixture
	rng    *rand.Rand
	synced things
	syncs  int
}

const (
	loadXorbs  = 12
	loadChunks = 620
	loadWholes = 6
)

// things says of every chunk, page and whole file of a load whether it is meant: chunks
// first, then pages, then files.
type things [loadXorbs*(loadChunks+1) + loadWholes]bool

func (s *things) count() (n int) {
	for _, there := range s {
		if there {
			n++
		}
	}
	return n
}

func newLoad(b *fixture, seed uint64) *load {
	return &load{fixture: b, rng: rand.New(rand.NewPCG(seed, 1))}
}

// step executes one operation. It does not use a dead disk, because a failed read forgets the
// chunk.
func (l *load) step() (alive bool) {
	n := int(float64(loadXorbs) * l.rng.Float64() * l.rng.Float64())
	start := uint32(l.rng.IntN(loadChunks - 20))
	end := start + 1 + uint32(l.rng.IntN(20))
	switch l.rng.IntN(20) {
	case 0:
		l.sync()
	case 1:
		l.forgetAbsent()
		_ = l.putFile(l.rng.IntN(loadWholes))
	case 2:
		l.forgetAbsent()
		_ = l.PutPage(hashOf(100+n), pageOf(n))
		_ = l.Flush(l.t.Context())
	case 3:
		if l.rng.IntN(10) == 0 {
			l.Drop(hashOf(n), chunks(start, end))
		} else {
			l.MarkRedundant([]codec.Term{{Xorb: hashOf(n), Chunks: chunks(0, loadChunks)}, {Xorb: hashOf(n + 1), Chunks: chunks(0, loadChunks)}})
		}
	case 4, 5, 6, 7, 8:
		l.forgetAbsent()
		_ = l.putRun(hashOf(n), runOf(l.t, n, chunks(start, end), chunkSize))
		_ = l.Flush(l.t.Context())
	default:
		if !l.dead() {
			l.has(n, start, end)
		}
	}
	return !l.dead()
}

func (l *load) dead() bool {
	l.disk.mu.Lock()
	defer l.disk.mu.Unlock()
	return l.disk.dead
}

// sync syncs, and notes what that made last.
func (l *load) sync() {
	_ = l.Flush(l.t.Context())
	before := l.present()
	if l.Sync() == nil {
		l.synced = before
		l.syncs++
	}
}

// forgetAbsent takes out of what was synced what has gone since: when it comes back, it
// must be synced again.
func (l *load) forgetAbsent() {
	present := l.present()
	for i := range l.synced {
		l.synced[i] = l.synced[i] && present[i]
	}
}

var loadKeys = func() map[index.Key]int {
	keys := make(map[index.Key]int)
	for n := range loadXorbs {
		keys[index.XorbKey(hashOf(n))] = n * loadChunks
		keys[index.PageKey(hashOf(100+n))] = loadXorbs*loadChunks + n
	}
	return keys
}()

// present returns what is kept, by the index alone.
func (l *load) present() (there things) {
	x := l.Store.disk.Load().index
	for k, parts := range x.All() {
		first, ok := loadKeys[k]
		if !ok {
			continue
		}
		for _, p := range parts {
			for c := p.Chunks.Start; c < p.Chunks.End; c++ {
				there[first+int(c)] = true
			}
		}
	}
	for n := range loadWholes {
		there[loadXorbs*(loadChunks+1)+n] = x.File(hashOf(n)) != nil
	}
	return there
}

// missing reads everything and returns how much of want is not there. It fails if
// anything is not what it must be.
func (l *load) missing(want *things) (lost int) {
	there := l.present()
	var found things
	for n := range loadXorbs {
		for c := uint32(0); c < loadChunks; c++ {
			if i := n*loadChunks + int(c); there[i] && !found[i] {
				for j := range l.has(n, c, min(c+16, loadChunks)) {
					found[i+j] = true
				}
			}
		}
		page, ok := l.Page(hashOf(100 + n))
		if ok && !bytes.Equal(page, pageOf(n)) {
			l.t.Fatalf("page %d: wrong bytes", n)
		}
		found[loadXorbs*loadChunks+n] = ok
	}
	for n := range loadWholes {
		l.untilSure(n)
		found[loadXorbs*(loadChunks+1)+n] = l.hasFile(n)
	}
	for i := range want {
		if want[i] && !found[i] {
			lost++
		}
	}
	return lost
}

// untilSure waits until a whole file is not suspect any more.
func (l *load) untilSure(n int) {
	w := l.Store.disk.Load().index.File(hashOf(n))
	if w == nil || l.HasFile(hashOf(n)) {
		return
	}
	until(l.t, "it is compared", func() bool { return !w.Suspect.Load() || w.Gone.Load() })
}

// run loads the store until the disk dies. It returns the entries that were synced and neither
// evicted nor dropped.
func (l *load) run(steps int) things {
	for range steps {
		if !l.step() {
			break
		}
	}
	l.disk.mu.Lock()
	l.disk.dead = true
	l.disk.mu.Unlock()
	l.Close()
	l.forgetAbsent()
	return l.synced
}

func loadOptions(o *Options) {
	o.MaxBytes = 512 << 10
	o.SyncBytes = 100 << 10
	o.testing.journal = 4 << 10
}

var powerLosses = flag.Int("powerlosses", 100, "how often TestD16_PowerLoss loses the power")

// TestD16_PowerLoss loses the power at random moments under load, twice in the life of each
// cache. No byte may be wrong afterwards, and synced entries must be complete.
func TestD16_PowerLoss(t *testing.T) {
	t.Parallel()
	rounds := *powerLosses / 2
	if codectest.Race {
		rounds = 25
	}
	kept, syncs := 0, 0
	for seed := range uint64(rounds) {
		kept, syncs = powerLoss(t, seed, kept, syncs)
	}
	t.Logf("%d power losses: %d syncs before them, %d synced entries were there after", 2*rounds, syncs, kept)
	if syncs < rounds || kept < 100*rounds {
		t.Error("too little was synced to show anything")
	}
}

func powerLoss(t *testing.T, seed uint64, kept, syncs int) (int, int) {
	rng := rand.New(rand.NewPCG(seed, 2))
	d := newSimDisk()
	var want things
	for life := range 3 {
		// A little more room each time, or what the crash left would have to be evicted for.
		b := open(t, d, loadOptions, func(o *Options) { o.MaxBytes += int64(life) * 64 << 10 })
		l := newLoad(b, seed*10+uint64(life))
		if lost := l.missing(&want); lost > 0 {
			t.Fatalf("seed %d, life %d: %d of %d that were synced are lost", seed, life, lost, want.count())
		}
		kept += want.count()
		if life == 2 {
			b.Close()
			break
		}
		d.mu.Lock()
		d.dieAt = d.ops + 1 + rng.IntN(500)
		d.mu.Unlock()
		want = l.run(300)
		syncs += l.syncs
		d = d.lostPower(rng)
	}
	return kept, syncs
}

// TestD15_KilledAtEveryCall kills the process at each change of the disk, one after the other.
// The load puts, evicts, syncs and writes new journals.
func TestD15_KilledAtEveryCall(t *testing.T) {
	t.Parallel()
	step := 1
	if codectest.Race {
		step = 17
	}
	small := func(o *Options) { o.MaxBytes = 160 << 10 }
	for at := 1; ; at += step {
		d := newSimDisk()
		d.dieAt = at
		var want things
		b, err := tryOpen(t, d, loadOptions, small)
		if err == nil {
			want = newLoad(b, 3).run(120)
		}
		done := d.steps() < at
		evicted := err == nil && b.Stats().EvictedBytes > 0
		b = open(t, d.killed(), loadOptions)
		if lost := newLoad(b, 4).missing(&want); lost > 0 {
			t.Errorf("killed at change %d: %d of %d that were synced are lost", at, lost, want.count())
		}
		b.put(99, 0, 5)
		b.want(99, 0, 5, 5)
		b.Close()
		if done {
			t.Logf("killed at each of %d changes", at)
			if !evicted {
				t.Error("nothing was evicted")
			}
			return
		}
	}
}

// TestKilledKeepsWhatWasFlushed takes the kernel's view after kill -9: nothing was
// synced, and all that was flushed exists.
func TestKilledKeepsWhatWasFlushed(t *testing.T) {
	d := newSimDisk()
	b := open(t, d)
	for n := range 10 {
		b.put(n, 0, 20)
	}
	after := open(t, d.killed())
	for n := range 10 {
		after.want(n, 0, 20, 20)
	}
}

func TestLimitHoldsAtEveryMoment(t *testing.T) {
	for _, limit := range []int64{160 << 10, 512 << 10} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			d := newSimDisk()
			var b *fixture
			var mu sync.Mutex
			most := int64(0)
			d.setFault(func(op, name string) error {
				if op == "write" || op == "create" || op == "rename" || op == "sync" {
					mu.Lock()
					defer mu.Unlock()
					most = max(most, d.bytes())
				}
				return nil
			})
			b = open(t, d, loadOptions, func(o *Options) { o.MaxBytes = limit })
			l := newLoad(b, 5)
			for range 2000 {
				l.step()
			}
			b.flush()
			mu.Lock()
			most = max(most, d.bytes())
			mu.Unlock()
			s := b.Stats()
			if most > limit || s.PeakBytes > limit {
				t.Errorf("%d bytes on disk, %d by the store's own count, %d is the limit", most, s.PeakBytes, limit)
			}
			if s.EvictedBytes == 0 || s.CopiedBytes == 0 || s.Bytes < limit/2 {
				t.Errorf("nothing to see: %+v", s)
			}
			b.Close()
			if got := d.bytes(); got != b.Stats().Bytes {
				t.Errorf("%d bytes on disk, %d by the store's own count", got, b.Stats().Bytes)
			}
		})
	}
}

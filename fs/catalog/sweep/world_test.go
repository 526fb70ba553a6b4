package sweep_test

import (
	"container/heap"
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/xetfs/xetfs/cache/origin/origintest"
)

// A world has a clock that advances only while all its processes wait. Work of a process
// between two waits takes no time. The same seed gives the same history, as far as the
// goroutines of one process allow.
type world struct {
	seed uint64

	mu        sync.Mutex
	clock     time.Time               // now; guarded by mu, as all below
	waiting   waits                   // a heap
	waits     map[*process]int        // how many calls of a process wait
	busy      int                     // processes of which none does
	deadlines map[time.Time]time.Time // of contexts: by the real clock → by this one
	lastWait  int
}

func newWorld(seed uint64) *world {
	return &world{
		seed:      seed,
		clock:     time.Unix(1_700_000_000, 0),
		waits:     map[*process]int{},
		deadlines: map[time.Time]time.Time{},
	}
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock
}

// A wait is one call that waits.
type wait struct {
	p    *process
	over time.Time
	turn int // of those that end at the same time
	done chan struct{}
}

type waits []*wait

func (h waits) Len() int { return len(h) }
func (h waits) Less(i, j int) bool {
	return h[i].over.Before(h[j].over) || h[i].over.Equal(h[j].over) && h[i].turn < h[j].turn
}
func (h waits) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *waits) Push(x any)   { *h = append(*h, x.(*wait)) }
func (h *waits) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// goOnLocked lets time pass while everybody waits.
func (w *world) goOnLocked() {
	for w.busy == 0 && len(w.waiting) > 0 {
		next := heap.Pop(&w.waiting).(*wait)
		w.clock = next.over
		if w.waits[next.p]--; w.waits[next.p] == 0 {
			w.busy++
		}
		close(next.done)
	}
}

// A process is one of those that share a store.
type process struct {
	w      *world
	name   string
	pauses float64       // how likely it pauses for a long time before a call
	long   time.Duration // how long at most
	loss   float64       // how likely a question or an answer is lost
	rules  rules

	mu        sync.Mutex
	skew      time.Duration  // of its clock; guarded by mu
	dice      *rand.Rand     // for what it does; guarded by mu
	requested map[string]int // how often it asked the same; guarded by mu
	left      int            // how often it may stand still; guarded by mu
}

func (w *world) newProcess(name string) *process {
	return &process{w: w, name: name, dice: w.diceOf(name), requested: map[string]int{}}
}

// diceOf returns dice that depend on what they are for, and on nothing else.
func (w *world) diceOf(what string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(what))
	return rand.New(rand.NewPCG(w.seed, h.Sum64()))
}

// roll returns a random number below n.
func (p *process) roll(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dice.IntN(n)
}

// upTo returns a random time below a limit.
func (p *process) upTo(limit time.Duration) time.Duration { return time.Duration(p.roll(int(limit))) }

// fate returns the dice for one call. They do not depend on the goroutine that makes it first.
func (p *process) fate(c origintest.Call) *rand.Rand {
	what := fmt.Sprint(p.name, " ", c.Op, " ", c.Key, " ", c.Off)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requested[what]++
	return p.w.diceOf(fmt.Sprint(what, " ", p.requested[what]))
}

// A life is what a process does.
type life struct {
	p    *process
	live func()
}

// run runs the processes until all are done.
func (w *world) run(lives []life) {
	w.mu.Lock()
	w.busy += len(lives)
	w.mu.Unlock()
	var all sync.WaitGroup
	for _, l := range lives {
		all.Go(func() {
			l.p.sleep(l.p.upTo(time.Minute))
			l.live()
			w.mu.Lock()
			defer w.mu.Unlock()
			w.busy--
			w.goOnLocked()
		})
	}
	all.Wait()
}

// sleep returns when some time has passed.
func (p *process) sleep(d time.Duration) {
	w := p.w
	w.mu.Lock()
	w.lastWait++
	one := &wait{p, w.clock.Add(d), w.lastWait, make(chan struct{})}
	heap.Push(&w.waiting, one)
	if w.waits[p]++; w.waits[p] == 1 {
		w.busy--
	}
	w.goOnLocked()
	w.mu.Unlock()
	<-one.done
}

// pass lets time pass before a call, unless its context ends first. Contexts count real
// time: what is left of it when one is first seen is left here, too.
func (p *process) pass(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		p.sleep(d)
		return ctx.Err()
	}
	w := p.w
	w.mu.Lock()
	end, seen := w.deadlines[deadline]
	if !seen {
		end = w.clock.Add(time.Until(deadline))
		w.deadlines[deadline] = end
	}
	left := end.Sub(w.clock)
	w.mu.Unlock()
	p.sleep(min(d, max(0, left)))
	if d >= left {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// Clock, wait and random are what a Publisher and a Sweep are given.
func (p *process) clock() time.Time {
	now := p.w.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	return now.Add(p.skew)
}

func (p *process) wait(ctx context.Context, d time.Duration) error {
	p.sleep(d)
	return ctx.Err()
}

func (p *process) random(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range b {
		b[i] = byte(p.dice.Uint32())
	}
}

package cas

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin/cas/casserve"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
)

// An open file keeps the plans of its blocks, and not those of its random reads.
func TestPlansOfOpenFile(t *testing.T) {
	const block, blocks, pieces = 1000, 5, 100
	file := codec.Hash{1}
	var ps plans
	ps.init(4096, block)
	add := func(off, n int64) {
		ps.addLocked(newPlan(query{file: file, off: off, n: n}, codec.Hash{2, byte(off)}))
	}
	ps.holdLocked(file, 1)
	for i := range int64(blocks) {
		add(i*block, block)
	}
	for i := range int64(pieces) {
		add(i, 10)
	}
	kept := 0
	for _, p := range ps.byFile[file] {
		if p.q.n == block {
			kept++
		}
	}
	if kept != blocks || len(ps.byFile[file]) > blocks+10 {
		t.Errorf("%d plans, of them %d of the %d blocks", len(ps.byFile[file]), kept, blocks)
	}
	ps.holdLocked(file, -1)
	if n := len(ps.byFile[file]); n > 10 {
		t.Errorf("%d plans of the closed file", n)
	}
}

// newPlan returns a plan with one signed range of xorb x.
func newPlan(q query, x codec.Hash) *plan {
	p := &plan{q: q}
	r := FetchRange{Chunks: codec.ChunkRange{End: 1}, End: 100}
	p.addresses.Store(&addresses{xorbs: map[codec.Hash][]signedRange{x: {{FetchRange: r}}}})
	return p
}

// The memory of an address is counted once for all its ranges.
func TestRangesShareAddress(t *testing.T) {
	const long, short = 8000, 200
	fetch := func(size, first, ranges int) Fetch {
		f := Fetch{URL: "http://host/" + strings.Repeat("x", size-12)}
		for i := range uint32(ranges) {
			start := uint32(first) + 2*i
			f.Ranges = append(f.Ranges, FetchRange{Chunks: codec.ChunkRange{Start: start, End: start + 1}, End: 1})
		}
		return f
	}
	p := &Plan{Fetch: map[codec.Hash][]Fetch{{1}: {fetch(long, 0, 400), fetch(short, 1000, 100)}}}
	r, err := newReply("plan", p, &url.URL{Scheme: "http"}, time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := newAddresses(r).bytes(); n != 128+500*160+2*(long+short) {
		t.Errorf("%d bytes", n)
	}
}

// A block of an open file that was evicted and requested again is in the indexes once, with the new
// addresses.
func TestNewBlockReplacesEvictedOne(t *testing.T) {
	const block = 1000
	file, other, x := codec.Hash{1}, codec.Hash{2}, codec.Hash{3}
	var ps plans
	ps.init(1, block) // each plan evicts the one before
	ps.holdLocked(file, 1)
	var last *plan
	for range 5 {
		last = newPlan(query{file: file, n: block}, x)
		if got := ps.addLocked(last); got != last {
			t.Fatal("an evicted plan is returned")
		}
		ps.addLocked(newPlan(query{file: other, n: block}, codec.Hash{4}))
	}
	if last.stored {
		t.Fatal("the last block was not evicted")
	}
	if all := ps.byFile[file]; len(all) != 1 || all[0] != last {
		t.Errorf("%d plans of the file, want the last one", len(all))
	}
	if all := ps.byXorb[x]; len(all) != 1 || all[0].plan != last {
		t.Errorf("%d ranges of the xorb, want that of the last plan", len(all))
	}
	ps.holdLocked(file, -1)
	if n, ranges := len(ps.byFile[file]), len(ps.byXorb[x]); n > 0 || ranges > 0 {
		t.Errorf("%d plans and %d ranges of the closed file", n, ranges)
	}
}

// A waitContext closes waiting when a call waits for its end.
type waitContext struct {
	context.Context
	once    sync.Once
	waiting chan struct{}
}

func (c *waitContext) Done() <-chan struct{} {
	c.once.Do(func() { close(c.waiting) })
	return c.Context.Done()
}

// A dropped plan, which a transfer may still use, and a new plan of the same query are renewed each.
func TestRenewsOfEqualQueries(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	f := b.Add(origintest.Text(1, 3000), 1000)
	h := casserve.NewHandler(casserve.NewContent(b.Store(), objects.New(b.Store(), objects.Options{}).(casserve.InfoSource), casserve.StoreOptions{}), casserve.HandlerOptions{})
	requests, answers := make(chan struct{}, 4), make(chan struct{}, 2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- struct{}{}
		<-answers
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	c := NewClient(Options{Tokens: StaticToken(server.URL, "")})
	t.Cleanup(c.Close)
	var plans [2]*plan
	for i := range plans {
		answers <- struct{}{}
		p, err := c.getPlan(t.Context(), query{file: f.ID().File, n: 3000})
		if err != nil {
			t.Fatal(err)
		}
		<-requests
		c.drop(p)
		plans[i] = p
	}
	var old, renewed [2]*addresses
	var renewals sync.WaitGroup
	for i, p := range plans {
		old[i] = p.addresses.Load()
		ctx := &waitContext{Context: t.Context(), waiting: make(chan struct{})}
		renewals.Go(func() {
			var err error
			if renewed[i], err = c.renew(ctx, p, old[i]); err != nil {
				t.Error(err)
			}
		})
		<-ctx.waiting
	}
	close(answers)
	renewals.Wait()
	for i, p := range plans {
		if a := p.addresses.Load(); a == old[i] || a != renewed[i] {
			t.Errorf("plan %d: the renewal returned other addresses", i)
		}
	}
}

package cas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sort"
	"sync/atomic"
	"time"

	"github.com/xetfs/xetfs/cache/flight"
	"github.com/xetfs/xetfs/cache/lru"
	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/codec"
)

// Plans are requested by these functions:
//
//	requestPlan      sends a query; requestVersions chooses the version of the API
//	getPlan          looks in memory first; knownPlan only there
//	replan           repeats a query for new addresses; renew does so once for all callers
//	planDescribed    for a chunk: of a file that has it; planAround of one term
//	planChunks       for chunks in a large range: of about their bytes
//	planPiece        for a piece of a file; narrowByPlan for Narrow
//	planStart, planNext    before reads need them; prepare does not wait

// A plan has the addresses of a query. The addresses are renewed, the ranges never change.
type plan struct {
	q     query
	ids   []codec.Hash // files of a batch; nil: the file of q
	terms []codec.Term
	skip  int64

	addresses atomic.Pointer[addresses]
	stays     deadline // maxPlansInTurn requests have named its unavailable server

	stored bool // in plans.all; guarded by plans.mu
}

// addresses are the signed ranges of each xorb, in the order of their chunks. They are immutable.
type addresses struct {
	xorbs  map[codec.Hash][]signedRange
	end    time.Time // of their use
	expiry time.Time // when the server refuses them; zero: unknown
}

// isValid reports whether the server may accept the addresses.
func (a *addresses) isValid(now time.Time) bool { return a.expiry.IsZero() || now.Before(a.expiry) }

// A signedRange is a range with its address.
type signedRange struct {
	FetchRange
	address
}

// An address is secret. It is sent as it was received.
type address struct {
	text string
	url  *url.URL
}

// newAddresses returns the addresses of a reply.
func newAddresses(r *reply) *addresses {
	a := &addresses{xorbs: make(map[codec.Hash][]signedRange, len(r.Fetch)), end: r.end, expiry: r.expiry}
	for x, fetches := range r.Fetch {
		var all []signedRange
		for _, f := range fetches {
			for _, fr := range f.Ranges {
				all = append(all, signedRange{fr, address{f.URL, r.addresses[f.URL]}})
			}
		}
		slices.SortStableFunc(all, func(a, b signedRange) int {
			return cmp.Or(cmp.Compare(a.Chunks.Start, b.Chunks.Start), cmp.Compare(a.Chunks.End, b.Chunks.End))
		})
		a.xorbs[x] = all
	}
	return a
}

// bytes is about what the addresses take in memory. Many ranges may share one long address.
func (a *addresses) bytes() (n int64) {
	for _, all := range a.xorbs {
		n += 128
		var last *url.URL
		for _, s := range all {
			if n += 160; s.url != last {
				n += 2 * int64(len(s.text))
			}
			last = s.url
		}
	}
	return n
}

// sameRanges reports whether two answers to a query have equal ranges.
func (a *addresses) sameRanges(b *addresses) bool {
	if len(a.xorbs) != len(b.xorbs) {
		return false
	}
	for x, all := range a.xorbs {
		if !slices.EqualFunc(all, b.xorbs[x], func(a, b signedRange) bool { return a.FetchRange == b.FetchRange }) {
			return false
		}
	}
	return true
}

// find returns the address of a signed range.
func (a *addresses) find(x codec.Hash, r FetchRange) (address, bool) {
	for _, s := range a.xorbs[x] {
		if s.FetchRange == r {
			return s.address, true
		}
	}
	return address{}, false
}

// plans are the plans in memory, bounded by bytes except for blocks of open files.
type plans struct {
	block  int64 // length of the query of a block; constant
	all    *lru.Cache[query, *plan]
	byXorb map[codec.Hash][]plannedRange
	byFile map[codec.Hash][]*plan
	held   map[codec.Hash]int              // open files
	renews flight.Group[*plan, *addresses] // a dropped plan may have the query of another
}

// A plannedRange is a signed range of a plan.
type plannedRange struct {
	FetchRange
	plan *plan
}

func (p plannedRange) first() uint32 { return p.Chunks.Start }

// countUpTo returns the number of elements that start at i or before. They are in the order of their starts, so
// the last of them is the one before that index.
func countUpTo[E any, N cmp.Ordered](all []E, i N, start func(E) N) int {
	return sort.Search(len(all), func(k int) bool { return start(all[k]) > i })
}

func (ps *plans) init(maxBytes, block int64) {
	ps.block = block
	ps.byXorb, ps.byFile, ps.held = map[codec.Hash][]plannedRange{}, map[codec.Hash][]*plan{}, map[codec.Hash]int{}
	ps.all = lru.New(maxBytes, func(_ query, p *plan) {
		p.stored = false
		ps.releaseLocked(p)
	})
}

// addLocked stores a new plan, or returns the one that another call has stored. A new block replaces
// an evicted one of an open file: its addresses are newer.
func (ps *plans) addLocked(p *plan) *plan {
	if old, ok := ps.all.Get(p.q); ok {
		return old
	}
	if p.q.n == ps.block {
		if i := slices.IndexFunc(ps.byFile[p.q.file], func(old *plan) bool { return old.q == p.q }); i >= 0 {
			ps.unlinkLocked(ps.byFile[p.q.file][i])
		}
	}
	a := p.addresses.Load()
	p.stored = true
	ps.linkLocked(p, a)
	ps.all.Add(p.q, p, 256+48*int64(len(p.terms))+a.bytes())
	return p
}

func (ps *plans) linkLocked(p *plan, a *addresses) {
	for x, all := range a.xorbs {
		for _, s := range all {
			ps.byXorb[x] = insert(ps.byXorb[x], plannedRange{s.FetchRange, p})
		}
	}
	for _, file := range p.files() {
		ps.byFile[file] = append(ps.byFile[file], p)
	}
}

// files returns the files that a plan describes.
func (p *plan) files() []codec.Hash {
	if p.ids != nil {
		return p.ids
	}
	return []codec.Hash{p.q.file}
}

// insert inserts a range in the order of the first chunks.
func insert(all []plannedRange, p plannedRange) []plannedRange {
	return slices.Insert(all, countUpTo(all, p.Chunks.Start, plannedRange.first), p)
}

// unlinkLocked removes a plan from the indexes.
func (ps *plans) unlinkLocked(p *plan) {
	for x := range p.addresses.Load().xorbs {
		if left := slices.DeleteFunc(ps.byXorb[x], func(q plannedRange) bool { return q.plan == p }); len(left) == 0 {
			delete(ps.byXorb, x)
		} else {
			ps.byXorb[x] = left
		}
	}
	for _, file := range p.files() {
		if left := slices.DeleteFunc(ps.byFile[file], func(q *plan) bool { return q == p }); len(left) == 0 {
			delete(ps.byFile, file)
		} else {
			ps.byFile[file] = left
		}
	}
}

// dropLocked removes the plans of a file.
func (ps *plans) dropLocked(file codec.Hash) {
	for _, p := range slices.Clone(ps.byFile[file]) {
		ps.removeLocked(p)
	}
}

func (ps *plans) removeLocked(p *plan) {
	if p.stored {
		ps.all.Remove(p.q)
		p.stored = false
	}
	ps.unlinkLocked(p)
}

// holdLocked changes the number of users of an open file.
func (ps *plans) holdLocked(file codec.Hash, by int) {
	if ps.held[file] += by; ps.held[file] == 0 {
		delete(ps.held, file)
		for _, p := range slices.Clone(ps.byFile[file]) {
			ps.releaseLocked(p)
		}
	}
}

// releaseLocked removes an evicted plan from the indexes, unless it is a block of an open file. Any
// random read adds a plan of a piece, so those do not stay.
func (ps *plans) releaseLocked(p *plan) {
	if isHeld := p.q.n == ps.block && ps.held[p.q.file] > 0; !p.stored && !isHeld {
		ps.unlinkLocked(p)
	}
}

// findLocked returns the smallest signed range among the last ones that has all of chunks r.
func (ps *plans) findLocked(x codec.Hash, r codec.ChunkRange) (best plannedRange, ok bool) {
	all := ps.byXorb[x]
	i := countUpTo(all, r.Start, plannedRange.first)
	for looks := 0; i > 0 && (looks < maxLooks || !ok); looks++ {
		i--
		if p := all[i]; p.Chunks.Contains(r) && (!ok || p.Chunks.Len() < best.Chunks.Len()) {
			best, ok = p, true
			if p.Chunks == r {
				break
			}
		}
	}
	return best, ok
}

// maxLooks is how many ranges are compared for the smallest one.
const maxLooks = 64

// renew replaces the addresses old of a plan, once for all callers. It drops a plan that the server no
// longer has. The error is then errRestart, because the plan of another file may have the chunks.
func (c *Client) renew(ctx context.Context, p *plan, old *addresses) (*addresses, error) {
	if a := p.addresses.Load(); a != old {
		return a, nil
	}
	return c.plans.renews.Do(ctx, p, func(ctx context.Context) (*addresses, error) {
		if a := p.addresses.Load(); a != old {
			return a, nil
		}
		a, err := c.replan(ctx, p, old)
		switch isCorrupt := errors.Is(err, codec.ErrCorrupt); {
		case isGone(err), p.ids != nil && (isCorrupt || code(err) != 0):
			c.drop(p)
			return nil, fmt.Errorf("%w: %w", errRestart, err)
		case isCorrupt:
			c.drop(p)
		case err == nil:
			p.addresses.Store(a)
		}
		return a, err
	})
}

// isGone reports whether the server has no plan of a file, or no longer permits to read it. A new token may
// permit that again once its source is available.
func isGone(err error) bool {
	return errors.Is(err, origin.ErrNotFound) || errors.Is(err, errForbidden) && !errors.Is(err, origin.ErrUnavailable)
}

// drop removes a plan.
func (c *Client) drop(p *plan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plans.removeLocked(p)
}

package sweep_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/dedup"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/pack"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
	"github.com/xetfs/xetfs/fs/catalog/sweep"
	"github.com/xetfs/xetfs/fs/catalog/writer"
)

var stride = flag.Int("stride", 7, "which part of all pairs of steps TestUploadSteps stops at; 1: all")

// errLease reports that data of an upload was deleted before its commit.
var errLease = errors.New("data was deleted since the upload")

// An uploadServer accepts uploads as a server does. An answer for deduplication, xorbs, a shard and
// a commit are requests of their own. Leases hold from the first to the last.
type uploadServer struct {
	s      origin.WriteStore
	w      *writer.Writer
	l      *writer.Leases
	rest   func()                     // time between two requests
	wait   func(d time.Duration)      // while a sweep is deleting
	xorbs  map[codec.Hash][]names.Key // of each stored shard
	narrow bool                       // the commit names shards alone, and nothing is leased
}

// protect leases keys. It waits while a sweep deletes one of them.
func (u *uploadServer) protect(ctx context.Context, keys ...names.Key) ([]names.Key, error) {
	if u.narrow {
		return nil, nil
	}
	for try := 0; ; try++ {
		missing, err := u.l.Protect(ctx, keys...)
		if !errors.Is(err, origin.ErrUnavailable) || try == 100 {
			return missing, err
		}
		u.wait(5 * time.Second)
	}
}

// Lookup and the other methods of a pack.Ledger are those of an answer for deduplication.
type leasedAnswer struct {
	u     *uploadServer
	ctx   context.Context
	index *dedup.Index
}

func (a *leasedAnswer) Lookup(chunk codec.Hash) (codec.Hash, uint32, bool) {
	x, i, ok := a.index.Lookup(chunk)
	if !ok {
		return x, i, false
	}
	if a.u.narrow {
		return x, i, true
	}
	missing, err := a.u.l.Protect(a.ctx, names.XorbKey(x))
	return x, i, err == nil && len(missing) == 0
}

func (a *leasedAnswer) Chunk(codec.Hash, uint32) (codec.Hash, bool) { return codec.Hash{}, false }
func (a *leasedAnswer) File(codec.Hash) (*shard.FileInfo, codec.Hash, bool) {
	return nil, codec.Hash{}, false
}
func (a *leasedAnswer) Learn(codec.Hash) bool { return false }

var _ pack.Sink = (*uploadServer)(nil)

// PutXorb is the request with a xorb.
func (u *uploadServer) PutXorb(ctx context.Context, in *xorb.Info, body []byte) error {
	u.rest()
	for range 5 {
		if err := origin.Sink(u.s).PutXorb(ctx, in, body); err != nil {
			return err
		}
		missing, err := u.protect(ctx, names.XorbKey(in.Xorb))
		if err != nil || len(missing) == 0 {
			return err
		}
	}
	return errLease
}

// PutShard is the request with a shard. The xorbs are leased before their presence is checked.
func (u *uploadServer) PutShard(ctx context.Context, w *shard.Writer) (codec.Hash, error) {
	u.rest()
	b, err := w.Encode()
	if err != nil {
		return codec.Hash{}, err
	}
	in, err := shard.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return codec.Hash{}, err
	}
	var keys []names.Key
	for f, err := range in.Files() {
		if err != nil {
			return codec.Hash{}, err
		}
		for _, t := range f.Terms {
			keys = append(keys, names.XorbKey(t.Xorb))
		}
	}
	missing, err := u.protect(ctx, keys...)
	if err == nil && len(missing) > 0 {
		err = errLease
	}
	if err != nil {
		return codec.Hash{}, err
	}
	for range 5 {
		h, err := origin.Sink(u.s).PutShard(ctx, w)
		if err != nil {
			return h, err
		}
		missing, err := u.protect(ctx, append(slices.Clone(keys), names.ShardKey(h))...)
		switch {
		case err != nil:
			return h, err
		case len(missing) == 0:
			u.xorbs[h] = keys
			return h, nil
		case missing[0] != names.ShardKey(h):
			return h, errLease
		}
	}
	return codec.Hash{}, errLease
}

// upload uploads and commits a tree.
func (u *uploadServer) upload(ctx context.Context, symbol string, files map[string]int) (names.Row, error) {
	index, err := dedup.Open(ctx, u.s, dedup.Options{})
	if err != nil {
		return names.Row{}, err
	}
	defer index.Close() //nolint:errcheck // it is in memory
	pk := &packer{sink: u, known: &leasedAnswer{u, ctx, index}, store: u.s}
	ids, err := pk.put(ctx, slices.Compact(slices.Sorted(maps.Values(files))))
	if err != nil {
		return names.Row{}, err
	}
	u.rest()
	b, err := u.w.Begin(ctx, symbol, writer.PublishOptions{})
	if err != nil {
		return names.Row{}, err
	}
	var keys []names.Key
	for _, id := range ids {
		keys = append(keys, names.ShardKey(id.Shard))
		if !u.narrow {
			keys = append(keys, u.xorbs[id.Shard]...)
		}
	}
	slices.Sort(keys)
	missing, err := b.Protect(ctx, slices.Compact(keys)...)
	if err != nil {
		return names.Row{}, err
	}
	if len(missing) > 0 {
		return names.Row{}, fmt.Errorf("%v: %w", missing, errLease)
	}
	return b.Replace(ctx, entries(files, ids))
}

// serve is the life of a server. It loses its leases when it crashes.
func (m *model) serve(p *process) {
	for range 3 + p.roll(5) {
		p.sleep(p.upTo(2 * m.settings.Window))
		s, ctx := m.awake(p, 8), context.Background()
		w, err := writer.Open(ctx, s, origin.Pages(s), writer.Options{Settings: m.settings, Clock: p.clock, Sleep: p.wait, Random: p.random})
		if err != nil {
			m.count("open", err)
			continue
		}
		l := w.OpenLeases(time.Duration(1+p.roll(8)) * m.settings.Window)
		u := &uploadServer{s: s, w: w, l: l, xorbs: map[codec.Hash][]names.Key{}, narrow: m.narrow, wait: p.sleep, rest: func() {
			for range p.roll(16) {
				p.sleep(m.settings.Window / 8)
				l.Renew(ctx)
			}
		}}
		for range 1 + p.roll(3) {
			symbol := symbols[p.roll(len(symbols))]
			row, err := u.upload(ctx, symbol, m.files(p))
			m.keep(symbol, row, err)
			m.count("upload", err)
			if p.roll(4) == 0 {
				m.look("after an upload")
			}
		}
	}
}

// A stepper is a side of a protocol that stops before one of its calls.
type stepper struct {
	mu     sync.Mutex // held while the side is stopped
	stopAt int        // counted from 1; guarded by mu
	calls  int        // guarded by mu
	stop   func()
}

// over returns a store whose calls are counted.
func (st *stepper) over(s origin.WriteStore) origin.WriteStore {
	f := origintest.WithFaults(s)
	f.Before = func(context.Context, origintest.Call) error {
		st.mu.Lock()
		defer st.mu.Unlock()
		if st.calls++; st.calls == st.stopAt {
			st.stop()
		}
		return nil
	}
	return f
}

// An uploadRace is one upload and one sweep of a store with a deleted version, which the upload reuses.
type uploadRace struct {
	*origintest.Clock
	t      *testing.T
	store  origin.WriteStore
	upload stepper
	sweep  stepper
	renew  func() // while the sweep waits; nil: the server is stopped, too
	narrow bool   // see uploadServer

	started bool
	stopped chan struct{} // closed when the sweep stops or ends
	resume  chan struct{}
	ended   chan error
	lost    []string // objects that are required and missing in the end
}

var raceFiles = map[string]int{"a": 1, "b/c": 2, "b/d": 3}

// newUploadRace returns a store with a version that was deleted before the time of grace.
func newUploadRace(t *testing.T) *uploadRace {
	t.Helper()
	r := &uploadRace{Clock: origintest.NewClock(), t: t, stopped: make(chan struct{}), resume: make(chan struct{}), ended: make(chan error, 1)}
	r.store = origintest.MemoryAt(r.Now)
	w := r.writer(r.store)
	for i, files := range []map[string]int{raceFiles, {"other": 9}} {
		if _, err := publish(t.Context(), w, r.store, symbols[0], files, nil); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := w.Delete(t.Context(), symbols[0], 0); err != nil {
		t.Fatal(err)
	}
	r.Pass(2 * smallSettings().Grace)
	return r
}

func (r *uploadRace) writer(s origin.WriteStore) *writer.Writer {
	r.t.Helper()
	w, err := writer.Open(r.t.Context(), s, origin.Pages(s), writer.Options{Settings: smallSettings(), Clock: r.Now, Sleep: r.Sleep})
	if err != nil {
		r.t.Fatal(err)
	}
	return w
}

// begin runs the sweep until it stops or ends.
func (r *uploadRace) begin() {
	if r.started {
		return
	}
	r.started = true
	r.sweep.stop = func() {
		close(r.stopped)
		<-r.resume
	}
	s := r.sweep.over(r.store)
	go func() {
		_, err := sweep.Sweep(context.Background(), s, origin.Pages(s), sweep.Options{Clock: r.Now, Sleep: func(ctx context.Context, by time.Duration) error {
			for step := smallSettings().Window / 8; r.renew != nil && by > step; by -= step {
				r.Pass(step)
				r.renew()
			}
			return r.Sleep(ctx, by)
		}})
		r.ended <- err
	}()
	select {
	case <-r.stopped:
	case err := <-r.ended:
		r.ended <- err
	}
}

// run runs the upload, and the sweep beside it. It returns what the upload returns.
func (r *uploadRace) run(rest func()) error {
	r.upload.stop = r.begin
	s := r.upload.over(r.store)
	w := r.writer(s)
	u := &uploadServer{s: s, w: w, l: w.OpenLeases(time.Hour), xorbs: map[codec.Hash][]names.Key{}, wait: r.Pass, rest: func() {}, narrow: r.narrow}
	if rest != nil {
		u.rest = rest
		r.renew = func() { u.l.Renew(context.Background()) }
	}
	_, err := u.upload(r.t.Context(), symbols[1], raceFiles)
	r.renew = nil
	r.begin()
	close(r.resume)
	if err := <-r.ended; err != nil && !errors.Is(err, sweep.ErrOther) {
		r.t.Errorf("sweep: %v", err)
	}
	r.lost = missing(r.store, r.Now(), smallSettings().Grace)
	return err
}

// check reports what is missing.
func (r *uploadRace) check() {
	for _, lost := range r.lost {
		r.t.Errorf("upload stops at %d, sweep at %d: %s", r.upload.stopAt, r.sweep.stopAt, lost)
	}
}

// TestUploadSteps stops an upload before each of its calls, and the sweep that runs meanwhile before
// each of its own. An upload that reuses only data of a deleted version either fails, or all of its
// data exists. The server is stopped with the upload, so a lease may be lost.
func TestUploadSteps(t *testing.T) {
	t.Parallel()
	done := 0
	for i, last := 1, false; !last; i++ {
		for j, over := 1, false; !over; j++ {
			if (3*i+j)%*stride != 0 && j < 300 {
				continue
			}
			r := newUploadRace(t)
			r.upload.stopAt, r.sweep.stopAt = i, j
			if r.run(nil) == nil {
				done++
			}
			r.check()
			over, last = r.sweep.calls < j, r.upload.calls < i
			if t.Failed() {
				return
			}
		}
	}
	if done == 0 {
		t.Error("no upload succeeded")
	}
}

// TestLeaseSteps stops an upload between its requests, and the sweep before each of its calls. The
// server renews the leases, so every upload succeeds.
func TestLeaseSteps(t *testing.T) {
	t.Parallel()
	for i := 1; i <= 2; i++ { // before the shard, before the commit
		for j, over := 1, false; !over; j++ {
			r := newUploadRace(t)
			r.sweep.stopAt = j
			rests := 0
			err := r.run(func() {
				if rests++; rests == i {
					r.begin()
				}
			})
			r.check()
			if err != nil {
				t.Errorf("upload stops at request %d, sweep at %d: %v", i, j, err)
			}
			if over = r.sweep.calls < j; t.Failed() {
				return
			}
		}
	}
}

// TestUploadHole switches off leases, and commits name shards without their xorbs, as publishes do.
// It shows that the steps find lost data then.
func TestUploadHole(t *testing.T) {
	t.Parallel()
	lost := 0
	for j, over := 1, false; !over; j++ {
		r := newUploadRace(t)
		r.narrow, r.upload.stopAt, r.sweep.stopAt = true, 1<<30, j
		rests := 0
		_ = r.run(func() { // an error is as good as lost data is bad
			if rests++; rests == 1 {
				r.begin()
			}
		})
		over, lost = r.sweep.calls < j, lost+len(r.lost)
	}
	if lost == 0 {
		t.Error("no data was lost")
	}
}

package objects_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/names"
)

// A pieceStore returns whole objects in pieces of 10,000 bytes, one each second.
type pieceStore struct {
	origin.Store
	breakAt int64 // once; 0: never

	mu   sync.Mutex
	offs []int64      // requested; guarded by mu
	now  atomic.Int64 // reads
	most atomic.Int64
}

func (s *pieceStore) ReadWhole(ctx context.Context, k names.Key, off int64, take func(b []byte, size int64) error) error {
	s.most.Store(max(s.most.Load(), s.now.Add(1)))
	defer s.now.Add(-1)
	s.mu.Lock()
	s.offs = append(s.offs, off)
	s.mu.Unlock()
	all, _, err := s.Get(ctx, k, "")
	if err != nil {
		return err
	}
	for size := int64(len(all)); off < size; {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
		if s.breakAt > 0 && off >= s.breakAt {
			s.breakAt = 0
			return fmt.Errorf("broken: %w", origin.ErrUnavailable)
		}
		n := min(10_000, size-off)
		if err := take(all[off:off+n], size); err != nil {
			return err
		}
		off += n
	}
	return nil
}

// A fetch of a shard continues after its reader has left, as long as bytes arrive. The next
// reader uses the bytes that have arrived.
func TestShardFetchGoesOn(t *testing.T) {
	b, ids := smallFiles(t, 1000)
	synctest.Test(t, func(t *testing.T) {
		s := &pieceStore{Store: b.Store()}
		src := named(s)
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		if _, err := src.FileInfo(ctx, ids[0]); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("FileInfo = %v, want %v", err, context.DeadlineExceeded)
		}
		start := time.Now()
		whole := time.Duration(len(b.Shard())/10_000+1) * time.Second
		if _, err := src.FileInfo(t.Context(), ids[1]); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > whole-3*time.Second {
			t.Errorf("the second reader waited %v, the whole fetch takes %v", took, whole)
		}
		if len(s.offs) != 1 {
			t.Errorf("%d requests", len(s.offs))
		}
	})
}

// A fetch that broke is continued by the next reader.
func TestShardFetchIsContinued(t *testing.T) {
	b, ids := smallFiles(t, 1000)
	synctest.Test(t, func(t *testing.T) {
		s := &pieceStore{Store: b.Store(), breakAt: 100_000}
		src := named(s)
		if _, err := src.FileInfo(t.Context(), ids[0]); !errors.Is(err, origin.ErrUnavailable) {
			t.Errorf("FileInfo = %v, want %v", err, origin.ErrUnavailable)
		}
		if fi, err := src.FileInfo(t.Context(), ids[0]); err != nil || fi.File != ids[0].File {
			t.Errorf("FileInfo = %v, %v", fi, err)
		}
		if len(s.offs) != 2 || s.offs[1] != 100_000 {
			t.Errorf("requests from %v", s.offs)
		}
	})
}

// A fetch whose bytes stop ends after a time limit. A fetch without bytes ends with its last
// reader.
func TestShardFetchEnds(t *testing.T) {
	b, ids := smallFiles(t, 1000)
	synctest.Test(t, func(t *testing.T) {
		stop := &stoppingStore{Store: b.Store(), left: make(chan bool, 1)}
		for _, bytes := range []int{0, 1000} {
			stop.bytes = bytes
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := named(stop).FileInfo(ctx, ids[0]); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("FileInfo = %v, want %v", err, context.DeadlineExceeded)
			}
			cancel()
			start := time.Now()
			<-stop.left
			if took, most := time.Since(start), time.Duration(bytes)*time.Minute; took > most {
				t.Errorf("after %d bytes it went on for %v", bytes, took)
			}
		}
	})
}

// A stoppingStore returns some bytes of an object and then nothing.
type stoppingStore struct {
	origin.Store
	bytes int
	left  chan bool
}

func (s *stoppingStore) ReadWhole(ctx context.Context, _ names.Key, _ int64, take func(b []byte, size int64) error) error {
	defer func() { s.left <- true }()
	if s.bytes > 0 {
		if err := take(make([]byte, s.bytes), 1<<20); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// Few shards are read at once, however many readers there are.
func TestShardFetchesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := origintest.Memory()
		var ids []codec.FileID
		for i := range 20 {
			b := origintest.NewBuilder(t, origintest.Form{})
			f := b.Add(fmt.Appendf(nil, "file %d", i), 100)
			ids = append(ids, codec.FileID{File: f.Info.File, Shard: b.Put(s)})
		}
		w := &pieceStore{Store: s}
		src := named(w)
		var readers sync.WaitGroup
		for _, id := range ids {
			readers.Go(func() {
				if _, err := src.FileInfo(t.Context(), id); err != nil {
					t.Error(err)
				}
			})
		}
		readers.Wait()
		if n := w.most.Load(); n != 4 {
			t.Errorf("%d shards at once, want 4", n)
		}
	})
}

// A shard whose bytes are damaged on the way is corrupt, not a shard without the file. It is
// fetched again after badShardStays.
func TestI8_DamagedShardHeals(t *testing.T) {
	b, ids := smallFiles(t, 1000)
	synctest.Test(t, func(t *testing.T) {
		for _, id := range []codec.FileID{ids[0], {File: ids[0].File}} {
			s := &damagingStore{Store: b.Store(), from: 56, to: 57}
			s.damage.Store(true)
			src := objects.New(s, objects.Options{Named: true})
			if fi, err := src.FileInfo(t.Context(), id); !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("FileInfo = %v, %v, want %v", fi, err, codec.ErrCorrupt)
			}
			s.damage.Store(false)
			time.Sleep(11 * time.Second)
			if _, err := src.FileInfo(t.Context(), id); err != nil {
				t.Errorf("after 11 s: %v", err)
			}
		}
	})
}

// A damagingStore changes the table of files of a shard.
type damagingStore struct {
	origin.Store
	from, to int64 // damaged bytes of each object
	damage   atomic.Bool
}

func (s *damagingStore) ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error {
	err := s.Store.ReadAt(ctx, k, p, off)
	if s.damage.Load() {
		for i := range p {
			if at := off + int64(i); at >= s.from && at < s.to {
				p[i] ^= 1
			}
		}
	}
	return err
}

package objects_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/merkle"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/xorb"
)

// manyFiles is a shard that is larger than the part in memory of an open shard.
func manyFiles(t *testing.T) (b *origintest.Builder, first codec.FileID) {
	t.Helper()
	b = origintest.NewBuilder(t, origintest.Form{})
	x := b.Xorb(origintest.Text(1, 1000), origintest.Text(2, 1000))
	var terms []origintest.Term
	for range 2000 {
		terms = append(terms, x.Term(0, 1), x.Term(1, 2))
		if len(terms)%100 == 0 {
			b.File(terms...)
		}
	}
	return b, codec.FileID{File: b.Files[0].Info.File, Shard: merkle.Chunk(b.Shard())}
}

// A remote shard that was opened once is read without the context of a caller. Such a read of a
// store that hangs ends at its own time limit.
func TestHangingShardEnds(t *testing.T) {
	b, id := manyFiles(t)
	second := origintest.NewBuilder(t, origintest.Form{})
	f := second.Add([]byte("another file"), 100)
	synctest.Test(t, func(t *testing.T) {
		var hang atomic.Bool
		store := b.Store()
		other := codec.FileID{File: f.Info.File, Shard: second.Put(store)}
		s := origintest.Watch(store)
		s.Before = func(ctx context.Context, c origintest.Call) error {
			if hang.Load() {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		src := objects.New(s, objects.Options{InfoBytes: 1})
		if _, err := src.FileInfo(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if _, err := src.FileInfo(t.Context(), other); err != nil { // its bytes take the room
			t.Fatal(err)
		}
		s.Calls()
		hang.Store(true)
		start := time.Now()
		if _, err := src.FileInfo(t.Context(), id); !errors.Is(err, origin.ErrUnavailable) {
			t.Errorf("FileInfo = %v, want %v", err, origin.ErrUnavailable)
		}
		if took := time.Since(start); took != time.Minute {
			t.Errorf("it took %v", took)
		}
		hang.Store(false)
		s.Calls()
		if _, err := src.FileInfo(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		for _, c := range s.Calls() {
			if c.Op == "Size" {
				t.Error("the shard was opened again, with which nothing was wrong")
			}
		}
	})
}

// However many xorbs without footers are looked into at once, few of them are read in
// large pieces at the same time.
func TestWalksTakeTurns(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{NoFooter: true, Schemes: []xorb.Scheme{xorb.None}})
	for i := range uint64(30) {
		b.Xorb(origintest.Random(2*i, 100_000), origintest.Random(2*i+1, 100_000))
	}
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		s := origintest.Watch(b.Store())
		s.Before = func(_ context.Context, c origintest.Call) error {
			if c.Size > 64<<10 {
				most.Store(max(most.Load(), now.Add(1)))
				time.Sleep(time.Second)
				now.Add(-1)
			}
			return nil
		}
		src := objects.New(s, objects.Options{})
		ctx, leave := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer leave()
		var callers sync.WaitGroup
		for i, x := range b.Xorbs {
			callers.Go(func() {
				ctx := ctx
				if i%3 > 0 {
					ctx = t.Context()
				}
				_, err := src.Hashed(ctx, x.Hash(), codec.ChunkRange{End: 1})
				if err != nil && (i%3 > 0 || !errors.Is(err, context.DeadlineExceeded)) {
					t.Errorf("xorb %d: %v", i, err)
				}
			})
		}
		callers.Wait()
		if n := most.Load(); n != 8 {
			t.Errorf("%d at once, want 8", n)
		}
	})
}

// Sizes that were damaged on the way are noticed: they belong to the name of the xorb. A
// damaged term does not lead to more reads.
func TestDoubtedSizes(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{NoFooter: true, NoCASInfo: true})
	f := b.Add(origintest.Text(1, 9000), 3000)
	s := &damagingOnceStore{Store: b.Store(), at: 5} // the unpacked size of chunk 0
	src := objects.New(s, objects.Options{})
	term, piece := f.Info.Terms[0], codec.Piece{Size: 1}
	if _, _, err := src.Narrow(t.Context(), f.ID(), term, piece); err != nil || !s.done {
		t.Errorf("Narrow by damaged sizes: %v", err)
	}
	read := s.reads
	term.Size--
	for range 5 {
		if _, _, err := src.Narrow(t.Context(), f.ID(), term, piece); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("Narrow of a damaged term: %v", err)
		}
	}
	if s.reads != read {
		t.Errorf("%d more reads for a damaged term", s.reads-read)
	}
}

// damagingOnceStore damages a byte of the first xorb that is read over it.
type damagingOnceStore struct {
	origin.Store
	at    int
	done  bool
	reads int
}

func (s *damagingOnceStore) ReadAt(ctx context.Context, k names.Key, p []byte, off int64) error {
	s.reads++
	err := s.Store.ReadAt(ctx, k, p, off)
	if i := s.at - int(off); err == nil && !s.done && i >= 0 && i < len(p) && bytes.HasPrefix([]byte(k), []byte(names.XorbPrefix)) {
		p[i] ^= 1
		s.done = true
	}
	return err
}

// The first bytes of a remote file cost three requests in sequence: the shard, the footer of
// the xorb, and the chunks. The length of the footer does not matter.
func TestFirstByteRequests(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{XorbChunks: 4000})
	f := b.Add(origintest.Text(1, 400_000), 100)
	s := &partStore{Watched: origintest.Watch(b.Store())}
	src := objects.New(s, objects.Options{Named: true})
	id := codec.FileID{File: f.Info.File, Shard: merkle.Chunk(b.Shard()), Block: 48}
	fi, err := src.FileInfo(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := src.Narrow(t.Context(), id, fi.Terms[0], codec.Piece{Size: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := src.Chunks(t.Context(), fi.Terms[0].Xorb, r, origin.ReadOptions{}); err != nil {
		t.Fatal(err)
	}
	if n, bytes := s.requested(); n != 3 {
		t.Errorf("%d requests for %d bytes, want one for the shard, one for the footer, and one for chunks", n, bytes)
	}
}

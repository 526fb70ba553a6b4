package objects_test

import (
	"context"
	"errors"
	"iter"
	"slices"
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
	"github.com/xetfs/xetfs/codec/xorb"
)

func TestSource(t *testing.T) {
	origintest.TestSource(t, func(t *testing.T, s origin.Store) origin.Source {
		return objects.New(s, objects.Options{})
	})
}

var one = codec.ChunkRange{End: 1}

// TestRequests compares the requests to a remote store, operation by operation.
func TestRequests(t *testing.T) {
	footer := origintest.NewBuilder(t, origintest.Form{})
	f := footer.Add(origintest.Text(1, 16_000), 1000)
	bare := origintest.NewBuilder(t, origintest.Form{NoFooter: true})
	g := bare.Add(origintest.Text(1, 16_000), 1000)
	tests := []struct {
		name string
		b    *origintest.Builder
		do   func(src origin.Source)
		want int // calls of ReadAt, each of which would be a request
	}{
		{"the first chunks: footer, chunks", footer, func(src origin.Source) {
			src.Chunks(t.Context(), footer.Xorbs[0].Hash(), one, origin.ReadOptions{})
		}, 2},
		{"more chunks: one each", footer, func(src origin.Source) {
			for i := range uint32(4) {
				src.Chunks(t.Context(), footer.Xorbs[0].Hash(), codec.ChunkRange{Start: i, End: 2*i + 1}, origin.ReadOptions{})
			}
		}, 1 + 4},
		{"narrowing costs nothing more", footer, func(src origin.Source) {
			for i := range int64(100) {
				src.Narrow(t.Context(), f.ID(), f.Info.Terms[0], codec.Piece{Skip: i, Size: 1})
			}
		}, 1},
		{"no footer: the end with all headers, chunks", bare, func(src origin.Source) {
			src.Narrow(t.Context(), g.ID(), g.Info.Terms[0], codec.Piece{Size: 1})
			src.Chunks(t.Context(), bare.Xorbs[0].Hash(), one, origin.ReadOptions{})
		}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := origintest.Watch(tt.b.Store())
			tt.do(objects.New(s, objects.Options{}))
			if reads := s.Reads(); len(reads) != tt.want {
				t.Errorf("%d requests, want %d: %v", len(reads), tt.want, reads)
			}
		})
	}
}

// An info is loaded once for all concurrent readers, and again after its eviction.
func TestInfosAreLoadedOnce(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	x := b.Xorb(origintest.Text(1, 1000), origintest.Text(2, 1000))
	synctest.Test(t, func(t *testing.T) {
		s := origintest.Watch(b.Store())
		s.Before = func(context.Context, origintest.Call) error { time.Sleep(time.Second); return nil }
		src := objects.New(s, objects.Options{})
		var callers sync.WaitGroup
		for range 100 {
			callers.Go(func() {
				if _, err := src.Hashed(t.Context(), x.Hash(), codec.ChunkRange{End: 1}); err != nil {
					t.Error(err)
				}
			})
		}
		callers.Wait()
		if calls := s.Calls(); len(calls) != 2 {
			t.Errorf("%d requests for 100 callers, want size and footer: %v", len(calls), calls)
		}
	})
}

func TestInfosAreBounded(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	for i := range 3 {
		b.Xorb(origintest.Text(uint64(i), 1000))
	}
	s := origintest.Watch(b.Store())
	src := objects.New(s, objects.Options{InfoBytes: 940}) // two infos of one chunk; a quarter is for shards
	ask := func(i int) (requests int) {
		s.Reads()
		if _, err := src.Hashed(t.Context(), b.Xorbs[i].Hash(), codec.ChunkRange{End: 1}); err != nil {
			t.Error(err)
		}
		return len(s.Reads())
	}
	var got []int
	for _, i := range []int{0, 1, 0, 1, 2, 1, 0, 2, 1} {
		got = append(got, ask(i))
	}
	if want := []int{1, 1, 0, 0, 1, 0, 1, 1, 0}; !slices.Equal(got, want) {
		t.Errorf("requests for one info after the other: %v, want %v", got, want)
	}
}

// A canceled reader returns at once, whatever the store does.
func TestCancelledAskerLeaves(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	f := b.Add(origintest.Text(1, 3000), 1000)
	x := b.Xorbs[0].Hash()
	tests := []struct {
		name string
		ask  func(ctx context.Context, src origin.Source) error
	}{
		{"FileInfo", func(ctx context.Context, src origin.Source) error {
			_, err := src.FileInfo(ctx, f.ID())
			return err
		}},
		{"Narrow", func(ctx context.Context, src origin.Source) error {
			_, _, err := src.Narrow(ctx, f.ID(), f.Info.Terms[0], codec.Piece{Size: 1})
			return err
		}},
		{"Chunks", func(ctx context.Context, src origin.Source) error {
			_, err := src.Chunks(ctx, x, one, origin.ReadOptions{})
			return err
		}},
		{"Hashed", func(ctx context.Context, src origin.Source) error {
			_, err := src.Hashed(ctx, x, codec.ChunkRange{End: 1})
			return err
		}},
	}
	for _, tt := range tests {
		for hanging := range 4 { // the first question, the second …
			t.Run(tt.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := origintest.Watch(b.Store())
					var n atomic.Int64 // some questions are asked at once
					s.Before = func(context.Context, origintest.Call) error {
						if n.Add(1) > int64(hanging) {
							time.Sleep(time.Hour) // deaf to its context
						}
						return nil
					}
					src := objects.New(s, objects.Options{})
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					start := time.Now()
					err := tt.ask(ctx, src)
					if err != nil && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("error = %v, want %v", err, context.DeadlineExceeded)
					}
					if took := time.Since(start); err != nil && took != time.Second && tt.name != "Chunks" {
						t.Errorf("left after %v, want 1s", took)
					}
					time.Sleep(10 * time.Hour) // until the deaf ones have gone
				})
			})
		}
	}
}

// The result of a load that runs while its copy is rejected is not cached.
func TestRejectWhileLoading(t *testing.T) {
	form := origintest.Form{Schemes: []xorb.Scheme{xorb.None}}
	b, other := origintest.NewBuilder(t, form), origintest.NewBuilder(t, origintest.Form{})
	x := b.Xorb(origintest.Text(1, 5000), origintest.Text(2, 5000))
	other.Xorb(x.Chunks...)
	synctest.Test(t, func(t *testing.T) {
		s := origintest.Watch(origintest.Copies(b.Store(), other.Store()))
		s.Before = func(_ context.Context, c origintest.Call) error {
			if c.Op == "ReadAt" {
				time.Sleep(time.Second)
			}
			return nil
		}
		src := objects.New(s, objects.Options{})
		go src.Hashed(t.Context(), x.Hash(), codec.ChunkRange{End: 1})
		time.Sleep(time.Millisecond)
		src.Reject(x.Hash())
		time.Sleep(2 * time.Second)
		if got, err := origintest.Unpack(t, src, x.Hash(), codec.ChunkRange{Start: 1, End: 2}); err != nil || string(got) != string(x.Chunks[1]) {
			t.Errorf("the other copy is read with the places of the first: %v", err)
		}
	})
}

// A store that cannot list has only the shards that are named.
func TestStoreWithoutList(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	f := b.Add(origintest.Text(1, 3000), 1000)
	m := origintest.Memory()
	s := b.Put(m)
	w := origintest.Watch(m)
	w.Before = func(_ context.Context, c origintest.Call) error {
		if c.Op == "List" {
			return errors.ErrUnsupported
		}
		return nil
	}
	src := objects.New(w, objects.Options{})
	if _, err := src.FileInfo(t.Context(), f.ID()); !errors.Is(err, origin.ErrNotFound) {
		t.Errorf("FileInfo without a shard = %v, want %v", err, origin.ErrNotFound)
	}
	if _, err := src.FileInfo(t.Context(), codec.FileID{File: f.Info.File, Shard: s}); err != nil {
		t.Errorf("FileInfo with its shard: %v", err)
	}
}

// FileID.Block leads straight to the block; one that leads elsewhere is found out.
func TestFileInfoByBlock(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	for i := range 3 {
		b.Add(origintest.Text(uint64(i), 3000), 1000)
	}
	m := b.LocalStore()
	s := b.Put(m)
	src := objects.New(m, objects.Options{})
	blocks := map[codec.Hash]int64{}
	for _, f := range b.Files {
		fi, err := src.FileInfo(t.Context(), f.ID())
		if err != nil {
			t.Fatal(err)
		}
		blocks[fi.File] = fi.Block
	}
	for _, f := range b.Files {
		for _, block := range append(slices.Collect(valuesOf(blocks)), 48*1000, 7) {
			fi, err := src.FileInfo(t.Context(), codec.FileID{File: f.Info.File, Shard: s, Block: block})
			if err != nil || fi.File != f.Info.File || fi.Block != blocks[fi.File] {
				t.Errorf("FileInfo with block %d, is at %d: %v", block, blocks[f.Info.File], err)
			}
		}
	}
}

func valuesOf(m map[codec.Hash]int64) func(yield func(int64) bool) {
	return func(yield func(int64) bool) {
		for _, v := range m {
			if !yield(v) {
				return
			}
		}
	}
}

// A shard that is listed but is not there any more is passed over.
func TestShardGone(t *testing.T) {
	b := origintest.NewBuilder(t, origintest.Form{})
	f := b.Add(origintest.Text(1, 3000), 1000)
	w := origintest.Watch(b.LocalStore())
	gone := names.ShardKey(codec.Hash{})
	ghost := ghostLister{w, origin.Item{Key: gone, Size: 1000}}
	if _, err := objects.New(ghost, objects.Options{}).FileInfo(t.Context(), f.ID()); err != nil {
		t.Errorf("FileInfo: %v", err)
	}
	if _, err := objects.New(ghost, objects.Options{}).FileInfo(t.Context(), codec.FileID{File: codec.Hash{1}}); err == nil {
		t.Error("a file that no shard describes was found")
	}
}

// A ghostLister lists an object more than there are.
type ghostLister struct {
	*origintest.Watched
	ghost origin.Item
}

func (g ghostLister) List(ctx context.Context, prefix string, after names.Key) iter.Seq2[origin.Item, error] {
	return func(yield func(origin.Item, error) bool) {
		if yield(g.ghost, nil) {
			g.Watched.List(ctx, prefix, after)(yield)
		}
	}
}

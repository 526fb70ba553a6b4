package objects_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/xetfs/xetfs/cache/origin"
	"github.com/xetfs/xetfs/cache/origin/objects"
	"github.com/xetfs/xetfs/cache/origin/origintest"
	"github.com/xetfs/xetfs/codec"
	"github.com/xetfs/xetfs/codec/codectest"
	"github.com/xetfs/xetfs/codec/names"
	"github.com/xetfs/xetfs/codec/shard"
	"github.com/xetfs/xetfs/codec/xorb"
)

// A partStore returns a part of an object and its size in one request.
type partStore struct {
	*origintest.Watched
	mu    sync.Mutex
	peeks []origintest.Call // guarded by mu
}

func (s *partStore) ReadPart(ctx context.Context, k names.Key, off int64, n int) (origin.Part, error) {
	call := origintest.Call{Op: "ReadPart", Key: k, Off: off, Size: n}
	s.mu.Lock()
	s.peeks = append(s.peeks, call)
	s.mu.Unlock()
	if s.Before != nil {
		if err := s.Before(ctx, call); err != nil {
			return origin.Part{}, err
		}
	}
	size, err := s.Store.Size(ctx, k)
	if err != nil {
		return origin.Part{}, err
	}
	if off < 0 {
		off = max(0, size-int64(n))
	}
	b := make([]byte, max(0, min(int64(n), size-off)))
	return origin.Part{Bytes: b, Off: off, Size: size}, s.Store.ReadAt(ctx, k, b, off)
}

// requested returns the number of requests for parts of objects, and their bytes.
func (s *partStore) requested() (requests, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range append(s.Reads(), s.peeks...) {
		requests++
		bytes += c.Size
	}
	s.peeks = nil
	return requests, bytes
}

// opened returns how often each object was opened, which begins with its end.
func (s *partStore) opened() map[names.Key]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	times := map[names.Key]int{}
	for _, c := range s.peeks {
		if c.Off == origin.Tail {
			times[c.Key]++
		}
	}
	return times
}

// A remote object is opened once for any number of concurrent readers. A reader may find it
// closed and send its request only after another reader has opened it.
func TestOpenedOnce(t *testing.T) {
	const callers = 64
	b, ids := smallFiles(t, callers)
	x := b.Xorbs[0].Hash()
	for range 300 { // of which a few went wrong
		s := &partStore{Watched: origintest.Watch(b.Store())}
		src := objects.New(s, objects.Options{})
		var asking sync.WaitGroup
		for i := range callers {
			asking.Go(func() {
				_, err := src.FileInfo(t.Context(), ids[i])
				if i%2 > 0 {
					_, err = src.Chunks(t.Context(), x, codec.ChunkRange{Start: uint32(i), End: uint32(i) + 1}, origin.ReadOptions{})
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		asking.Wait()
		for key, times := range s.opened() {
			if times != 1 {
				t.Fatalf("%s was opened %d times", key, times)
			}
		}
	}
}

// The same is true of a shard that is being opened when a file with chunks in it is requested.
func TestOpenedOnceMeanwhile(t *testing.T) {
	b, ids := smallFiles(t, 1)
	x := b.Xorbs[0].Hash()
	s := &partStore{Watched: origintest.Watch(b.Store())}
	started, goOn := make(chan bool), make(chan bool)
	begin := sync.OnceFunc(func() { close(started) })
	s.Before = func(_ context.Context, c origintest.Call) error {
		if c.Key == names.XorbKey(x) {
			begin()
			<-goOn
		}
		return nil
	}
	src := objects.New(s, objects.Options{})
	chunks := func() {
		if _, err := src.Chunks(t.Context(), x, codec.ChunkRange{End: 1}, origin.ReadOptions{}); err != nil {
			t.Error(err)
		}
	}
	var asking sync.WaitGroup
	asking.Go(chunks)
	<-started
	if _, err := src.FileInfo(t.Context(), ids[0]); err != nil {
		t.Error(err)
	}
	close(goOn)
	asking.Wait()
	chunks()
	if times := s.opened()[names.XorbKey(x)]; times != 1 {
		t.Errorf("the xorb was opened %d times", times)
	}
}

// smallFiles makes files of one chunk each, and returns them as a catalog names them.
func smallFiles(t *testing.T, count int) (b *origintest.Builder, ids []codec.FileID) {
	t.Helper()
	b = origintest.NewBuilder(t, origintest.Form{Schemes: []xorb.Scheme{xorb.None}})
	for from := range (count + 999) / 1000 {
		var chunks [][]byte
		for i := range min(1000, count-1000*from) {
			chunks = append(chunks, fmt.Appendf(nil, "this is file %d", 1000*from+i))
		}
		x := b.Xorb(chunks...)
		for i := range chunks {
			b.File(x.Term(i, i+1))
		}
	}
	return b, b.IDs()
}

// describe requests files, in a random order, and returns how many there are.
func describe(t *testing.T, src origin.Source, ids []codec.FileID) (found int) {
	t.Helper()
	ids = slices.Clone(ids)
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	var mu sync.Mutex
	src.FileInfos(t.Context(), ids, func(i int, fi *shard.FileInfo, err error) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err == nil && fi.File == ids[i].File && fi.Block == ids[i].Block:
			found++
		case err == nil:
			t.Errorf("file %s at %d was requested, %s at %d returned", ids[i].File, ids[i].Block, fi.File, fi.Block)
		case !errors.Is(err, origin.ErrNotFound):
			t.Error(err)
		}
	})
	return found
}

// Many files of a remote shard are described in a few requests. One request reads a whole
// shard. For a shard that does not stay in memory, one request reads the files whose blocks are
// close to each other. Files in the metacache need no request.
func TestFileInfosAreFewRequests(t *testing.T) {
	for _, tt := range []struct {
		name     string
		files    int
		every    int // of the files
		requests int
		bytes    int // beside one whole read
	}{
		{"all", 20_000, 1, 1, 0},
		{"two", 20_000, 19_999, 1, 0},
		{"all of a long shard", 45_000, 1, 2 + 11, 12 << 20}, // the whole, groups of 4096 files
		{"every 4000th of a long shard", 45_000, 4000, 2 + 12, 12 * 48 << 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if codectest.Race && tt.files > 20_000 {
				t.Skip("many files, and no more concurrency than with fewer")
			}
			b, ids := smallFiles(t, tt.files)
			s := &partStore{Watched: origintest.Watch(b.Store())}
			backend := new(origintest.Backend)
			open := func() origin.Source {
				return decorated(objects.New(s, objects.Options{Backend: backend, Named: true}))
			}
			src := open()
			var some []codec.FileID
			for i := 0; i < tt.files; i += tt.every {
				some = append(some, ids[i])
			}
			if n := describe(t, src, some); n != len(some) {
				t.Errorf("%d files of %d", n, len(some))
			}
			requests, size := s.requested()
			t.Logf("%d files: %d requests for %d bytes, the shard has %d", len(some), requests, size, len(b.Shard()))
			if requests != tt.requests || size > (len(b.Shard())/(8<<20)+1)*(8<<20)+tt.bytes {
				t.Errorf("%d requests for %d bytes, want %d", requests, size, tt.requests)
			}
			src = open()
			if n := describe(t, src, some); n != len(some) {
				t.Errorf("%d files of %d, once they are cached", n, len(some))
			}
			if requests, _ := s.requested(); requests > 0 {
				t.Errorf("%d requests for cached files", requests)
			}
		})
	}
}

// Files that are not where their ids say, or nowhere, do not prevent the search for other files.
func TestFileInfosOfWrongPlaces(t *testing.T) {
	b, ids := smallFiles(t, 100)
	last := ids[len(ids)-1].Block
	wrong := slices.Clone(ids)
	wrong[10].Block = ids[11].Block // that of another
	wrong[20].Block = last + 192    // the bookend
	wrong[30].Block = 1 << 40       // behind the shard
	wrong[40].Block += 48           // not a beginning
	wrong[50].Shard = codec.Hash{1} // no such shard
	wrong[60] = codec.FileID{File: wrong[60].File}
	src := objects.New(&partStore{Watched: origintest.Watch(b.Store())}, objects.Options{})
	var mu sync.Mutex
	var failed []int
	src.FileInfos(t.Context(), wrong, func(i int, fi *shard.FileInfo, err error) {
		mu.Lock()
		defer mu.Unlock()
		one, oneErr := src.FileInfo(t.Context(), wrong[i])
		if (err == nil) != (oneErr == nil) || err == nil && fi.Block != one.Block {
			t.Errorf("file %d: %v, FileInfo says %v", i, err, oneErr)
		}
		if err != nil {
			failed = append(failed, i)
		}
	})
	t.Logf("%d failed", failed)
	for _, i := range failed {
		if i%10 != 0 {
			t.Errorf("file %d is not found", i)
		}
	}
}

// A canceled FileInfos waits for no answer, and still yields a result for every file.
func TestFileInfosCancelled(t *testing.T) {
	b, ids := smallFiles(t, 3000)
	ctx, stop := context.WithCancel(t.Context())
	s := &partStore{Watched: origintest.Watch(b.Store())}
	src := objects.New(s, objects.Options{})
	var mu sync.Mutex
	reported := 0
	src.FileInfos(ctx, ids, func(i int, _ *shard.FileInfo, err error) {
		mu.Lock()
		defer mu.Unlock()
		if reported++; reported == 1 {
			stop()
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	if reported != len(ids) {
		t.Errorf("%d of %d files are told", reported, len(ids))
	}
}
